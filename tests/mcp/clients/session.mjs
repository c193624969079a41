// SPDX-License-Identifier: MIT
// What every TypeScript client does with the server: list, call one tool, check each message against the schema.
// Environment: TOOL, TOOL_ARGS (JSON), EXPECT (a regular expression that the result as JSON must match).
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export const tool = process.env.TOOL ?? 'greet';
export const args = JSON.parse(process.env.TOOL_ARGS ?? '{"name":"Ada"}');
export const expected = new RegExp(process.env.EXPECT ?? 'Hello, Ada!');
const TIMEOUT_MS = Number(process.env.TIMEOUT_MS ?? 120000);

const root = process.env.NPM_ROOT ?? process.cwd();
const need = createRequire(join(root, 'node_modules', 'x.js'));
/** Imports a package that is installed below NPM_ROOT, as its ES module where it has one. */
export async function load(name) {
  return import(pathToFileURL(need.resolve(name)));
}

/** argv: "http URL" or "stdio COMMAND ARGUMENT..." */
export function target(argv) {
  const [kind, ...rest] = argv;
  if (kind === 'http') return { kind, url: new URL(rest[0]) };
  if (kind === 'stdio') return { kind, command: rest[0], args: rest.slice(1) };
  throw new Error('usage: http URL | stdio COMMAND ARGUMENT...');
}

export function authorization() {
  return process.env.TOKEN ? { headers: { Authorization: `Bearer ${process.env.TOKEN}` } } : {};
}

/** Lists everything and calls the tool. call(params, options) is how this version of the SDK calls one. */
export async function exercise(client, call) {
  const { tools } = await client.listTools();
  assert.ok(tools.length > 0, 'no tools');
  const names = tools.map((t) => t.name);
  assert.deepEqual(names, [...names].sort(), 'tools are not in order');
  assert.ok(names.includes(tool), `${tool} is not among ${names.join(' ')}`);
  const { prompts } = await client.listPrompts();
  const { resources } = await client.listResources();
  const steps = [];
  const result = await call({ name: tool, arguments: args }, {
    timeout: TIMEOUT_MS, onprogress: (p) => steps.push(p.progress), resetTimeoutOnProgress: true,
  });
  assert.deepEqual(steps, [...new Set(steps)].sort((a, b) => a - b), 'progress must grow');
  assert.ok(!result.isError, JSON.stringify(result).slice(0, 2000));
  assert.match(JSON.stringify(result), expected);
  return `${tools.length} tools, ${prompts.length} prompts, ${resources.length} resources; ${tool} answered (${steps.length} progress)`;
}
