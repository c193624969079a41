// SPDX-License-Identifier: MIT
// The TypeScript client, 2.x, in the mode of the first argument: legacy, auto or modern. usage: ts2.mjs MODE http URL | stdio COMMAND ARGUMENT...
import assert from 'node:assert/strict';
import { Checker, watch } from '../schema.mjs';
import { authorization, exercise, load, target } from './session.mjs';

const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');

const [mode, ...rest] = process.argv.slice(2);
const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };
const to = target(rest);
const checker = new Checker(mode === 'legacy' ? '2025-11-25' : '2026-07-28');
const transport = watch(to.kind === 'http'
  ? new StreamableHTTPClientTransport(to.url, { requestInit: authorization() })
  : new StdioClientTransport({ command: to.command, args: to.args, env: process.env, stderr: 'ignore' }), checker);
const client = new Client({ name: 'lunette-test-ts2', version: '1' }, { capabilities: {}, versionNegotiation: { mode: MODES[mode] } });
await client.connect(transport);
const version = client.getNegotiatedProtocolVersion?.() ?? 'unknown';
assert.equal(version, mode === 'legacy' ? '2025-11-25' : '2026-07-28');
console.log(`TypeScript client 2.x, ${to.kind}, ${mode} (${version}): ${await exercise(client, (params, options) => client.callTool(params, options))}; ${checker.finish('ts2')}`);
await client.close();
