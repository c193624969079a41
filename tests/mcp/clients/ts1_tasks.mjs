// SPDX-License-Identifier: MIT
// The tasks of 2025-11-25 through the TypeScript SDK 1.x, with the fixtures: streamed calls, progress after the call was answered, questions,
// failures, the list, cancelling. usage: ts1_tasks.mjs http URL | stdio COMMAND ARGUMENT...
import assert from 'node:assert/strict';
import { Checker, watch } from '../schema.mjs';
import { authorization, load, target } from './session.mjs';

const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { CallToolResultSchema, CreateTaskResultSchema, ElicitRequestSchema, TaskStatusNotificationSchema } = await load('@modelcontextprotocol/sdk/types.js');

const RELATED = 'io.modelcontextprotocol/related-task';
const to = target(process.argv.slice(2));
const checker = new Checker('2025-11-25');
const transport = watch(to.kind === 'http'
  ? new StreamableHTTPClientTransport(to.url, { requestInit: authorization() })
  : new StdioClientTransport({ command: to.command, args: to.args, env: process.env, stderr: 'ignore' }), checker);
const client = new Client({ name: 'lunette-test-ts1-tasks', version: '1' }, { capabilities: { elicitation: { form: {} } } });
const told = [];
client.setNotificationHandler(TaskStatusNotificationSchema, (note) => { told.push([note.params.taskId, note.params.status]); });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, (request) => {
  asked.push(request.params._meta[RELATED].taskId);
  return { action: 'accept', content: { confirm: true } };
});
await client.connect(transport);
const { tasks } = client.experimental;

// Everything that a streamed call says: the task, its statuses, and how it ended.
async function stream(name, args, options) {
  const seen = { statuses: [] };
  for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options)) {
    if (message.type === 'taskCreated') seen.task = message.task;
    if (message.type === 'taskStatus') seen.statuses.push(message.task.status);
    if (message.type === 'result') seen.result = message.result;
    if (message.type === 'error') seen.error = message.error;
  }
  return seen;
}

async function create(name, args, options = {}) {
  const request = { method: 'tools/call', params: { name, arguments: args } };
  return (await client.request(request, CreateTaskResultSchema, { ...options, task: { ttl: 60000 } })).task;
}

async function until(what, check) {
  const end = Date.now() + 30000;
  while (!check()) {
    assert.ok(Date.now() < end, `${what} took more than 30 s`);
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
}

assert.deepEqual(client.getServerCapabilities().tasks, { list: {}, cancel: {}, requests: { tools: { call: {} } } });
const support = Object.fromEntries((await client.listTools()).tools.map((tool) => [tool.name, tool.execution.taskSupport]));
assert.deepEqual([support.greet, support.slow_compute, support.failing_job], ['forbidden', 'optional', 'required']);
assert.deepEqual([support.collect_events, support.inspect_process, support.query_snapshot], ['optional', 'forbidden', 'forbidden']);

// The SDK makes a task of it by itself, since the tool says that it may be one.
const done = await stream('slow_compute', { seconds: 0.2, label: 'sdk' });
assert.equal(done.error, undefined);
assert.equal(done.result.content[0].text, 'slow_compute done: sdk');
assert.deepEqual([done.statuses[0], done.statuses.at(-1)], ['working', 'completed']);
assert.deepEqual(done.result._meta[RELATED], { taskId: done.task.taskId });

const steps = [];
const reporting = await create('test_steps', { steps: 3 }, { onprogress: (p) => steps.push(p.progress) });
assert.match((await tasks.getTaskResult(reporting.taskId, CallToolResultSchema)).content[0].text, /3 steps/);
assert.deepEqual(steps, [1, 2, 3], 'progress goes on after the call was answered with its task');

const confirmed = await stream('confirm_delete', { filename: 'sdk.txt' });
assert.equal(confirmed.result.content[0].text, 'deleted sdk.txt');
assert.deepEqual(asked, [confirmed.task.taskId]);

assert.match((await stream('failing_job', {})).error.message, /failed/);
await assert.rejects(client.callTool({ name: 'failing_job', arguments: {} }), /task/);
await assert.rejects(create('greet', { name: 'Ada' }), (error) => error.code === -32601);
const broken = await create('protocol_error_job', {});
await assert.rejects(tasks.getTaskResult(broken.taskId, CallToolResultSchema), (error) => error.code === -32603);

const slow = await create('slow_compute', { seconds: 60 });
const waiting = assert.rejects(tasks.getTaskResult(slow.taskId, CallToolResultSchema), (error) => error.code === -32602);
assert.equal((await tasks.cancelTask(slow.taskId)).status, 'cancelled');
await waiting;
await assert.rejects(tasks.cancelTask(slow.taskId), (error) => error.code === -32602);
await until('the notification', () => told.some(([id, status]) => id === slow.taskId && status === 'cancelled'));

const { tasks: list } = await tasks.listTasks();
assert.deepEqual(list.map((task) => task.status), ['completed', 'completed', 'completed', 'failed', 'failed', 'cancelled']);
console.log(`TypeScript SDK 1.x, ${to.kind}: ${list.length} tasks of 2025-11-25, ${told.length} notifications of a status; ${checker.finish('ts1_tasks')}`);
if (to.kind === 'http') await transport.terminateSession();
await client.close();
