// SPDX-License-Identifier: MIT
// The TypeScript SDK, 1.x: legacy over HTTP or stdio. usage: ts1.mjs http URL | stdio COMMAND ARGUMENT...
import { Checker, watch } from '../schema.mjs';
import { authorization, exercise, load, target } from './session.mjs';

const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');

const to = target(process.argv.slice(2));
const checker = new Checker('2025-11-25');
const transport = watch(to.kind === 'http'
  ? new StreamableHTTPClientTransport(to.url, { requestInit: authorization() })
  : new StdioClientTransport({ command: to.command, args: to.args, env: process.env, stderr: 'ignore' }), checker);
const client = new Client({ name: 'lunette-test-ts1', version: '1' }, { capabilities: {} });
await client.connect(transport);
console.log(`TypeScript SDK 1.x, ${to.kind}: ${await exercise(client, (params, options) => client.callTool(params, undefined, options))}; ${checker.finish('ts1')}`);
if (to.kind === 'http') await transport.terminateSession();
await client.close();
