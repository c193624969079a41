// SPDX-License-Identifier: MIT
// A client with elicitation asks for a dump of a live process: its person is asked each time, whatever confirm says; a no writes nothing.
// usage: dump.mjs PID ROOT http URL | PID ROOT stdio COMMAND ARGUMENT...
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { Checker, watch } from '../schema.mjs';
import { authorization, load, target } from './session.mjs';

const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { ElicitRequestSchema } = await load('@modelcontextprotocol/sdk/types.js');

const pid = Number(process.argv[2]);
const root = process.argv[3];
const to = target(process.argv.slice(4));
const checker = new Checker('2025-11-25');
const transport = watch(to.kind === 'http'
  ? new StreamableHTTPClientTransport(to.url, { requestInit: authorization() })
  : new StdioClientTransport({ command: to.command, args: to.args, env: process.env, stderr: 'ignore' }), checker);
const client = new Client({ name: 'lunette-test-dump', version: '1' }, { capabilities: { elicitation: {} } });
let answer;
const questions = [];
client.setRequestHandler(ElicitRequestSchema, (request) => {
  questions.push(request.params);
  return answer;
});
await client.connect(transport);

const files = () => { try { return readdirSync(root).sort(); } catch { return []; } };
const call = async () => {
  const before = questions.length;
  const result = await client.callTool({ name: 'collect_process_dump', arguments: { processId: pid, confirm: true } });
  assert.equal(questions.length, before + 1, 'asked once a call');
  const { message, requestedSchema } = questions.at(-1);
  for (const word of [String(pid), 'Mini', root]) assert.ok(message.includes(word), `${word} is not in: ${message}`);
  assert.deepEqual(requestedSchema.required, ['approve']);
  assert.equal(requestedSchema.properties.approve.type, 'boolean');
  assert.ok(!result.isError, JSON.stringify(result));
  return result.structuredContent;
};

const before = files();
for (const no of [{ action: 'decline' }, { action: 'cancel' }, { action: 'accept', content: { approve: false } }]) {
  answer = no;
  const said = await call();
  assert.equal(said.data.kind, 'approval_declined');
  assert.deepEqual(said.hints, []);
  assert.deepEqual(files(), before, 'a no writes nothing');
}
answer = { action: 'accept', content: { approve: true } };
const { data } = await call();
assert.equal(data.kind, 'dump_written', JSON.stringify(data));
assert.equal(files().length, before.length + 1);
const file = statSync(data.dump.filePath);
assert.equal(file.size, data.dump.fileSizeBytes);
assert.equal(file.mode & 0o7777, 0o600);
console.log(`TypeScript SDK 1.x, ${to.kind}: ${questions.length} questions, one dump of ${file.size} bytes; ${checker.finish('dump')}`);
if (to.kind === 'http') await transport.terminateSession();
await client.close();
