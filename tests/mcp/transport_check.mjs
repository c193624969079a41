// SPDX-License-Identifier: MIT
// What only a real transport shows: a client that goes away stops its call within a second, cancellation, the end of input and of the
// process, limits, refusals. usage: transport_check.mjs LUNETTE HOME (of lib.sh's fixtures_home)
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const [lunette, home] = process.argv.slice(2);
const MODERN = '2026-07-28';
const TOKEN = 'token-of-the-transport-check';
const SOON_MS = 10000; // as a rule some milliseconds
const children = [];
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

// plain: the product as it is, without the fixtures
function start(args, plain = false) {
  const env = { ...process.env, MCP_BEARER_TOKEN: TOKEN, ...(plain ? {} : { LUNETTE_HOME: home }) };
  const child = spawn(lunette, ['serve', ...args], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  children.push(child);
  child.exited = once(child, 'exit');
  child.log = '';
  child.stderr.on('data', (data) => { child.log += data; });
  return child;
}

async function serveHttp(plain = false) {
  const child = start(['--http', '127.0.0.1:0'], plain);
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /listens on (http\S+)/.exec(line);
    if (found) return { child, url: found[1] };
  }
  throw new Error(`the server never listened: ${child.log}`);
}

async function ends(child, what) {
  const t0 = Date.now();
  const [code, signal] = await Promise.race([child.exited, new Promise((resolve) => { setTimeout(() => resolve(['late']), 30000); })]);
  assert.deepEqual([code, signal], [0, null], `${what}: exit ${code} ${signal}: ${child.log}`);
  return Date.now() - t0;
}

// ---- messages --------------------------------------------------------------------------------------------------------------------------

let nextId = 1;
function modernBody(method, params = {}, more = {}) {
  const _meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {}, ...more };
  return { jsonrpc: '2.0', id: nextId++, method, params: { ...params, _meta } };
}

function post(url, body, headers = {}, init = {}) {
  return fetch(url, {
    method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body), ...init,
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${TOKEN}`, ...headers,
    },
  });
}

function postModern(url, body, init) {
  const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': body.method };
  if (body.params.name) headers['mcp-name'] = body.params.name;
  return post(url, body, headers, init);
}

const textOf = (message) => message.result.content[0].text;
async function held(url) {
  return JSON.parse(textOf(await (await postModern(url, modernBody('tools/call', { name: 'test_held', arguments: {} }))).json()));
}

async function until(what, check) {
  const t0 = Date.now();
  while (!(await check())) {
    assert.ok(Date.now() - t0 < SOON_MS, `${what} took more than ${SOON_MS} ms`);
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  return Date.now() - t0;
}

const hold = (more) => modernBody('tools/call', { name: 'test_hold', arguments: {} }, more);
const report = (line) => console.log(`transport: ${line}`);

// ---- HTTP ------------------------------------------------------------------------------------------------------------------------------

async function disconnectStopsTheCall(url) {
  for (const [what, meta] of [['before the answer began', {}], ['on an open stream', { progressToken: 1 }]]) {
    const abort = new AbortController();
    const answer = postModern(url, hold(meta), { signal: abort.signal }).then(async (response) => {
      for await (const _ of response.body) { /* read on */ }
    }).catch(() => {});
    await until('the call', async () => (await held(url)).running === 1);
    const before = await held(url);
    abort.abort();
    const ms = await until('the cleanup', async () => (await held(url)).running === 0);
    const after = await held(url);
    assert.deepEqual([after.cancelled, after.ended], [before.cancelled + 1, before.ended + 1]);
    await answer;
    report(`a modern client that goes away ${what} stops its call in ${ms} ms`);
  }
}

async function openSession(url, version) {
  const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 't', version: '1' } };
  const response = await post(url, { jsonrpc: '2.0', id: 0, method: 'initialize', params });
  return { 'mcp-session-id': response.headers.get('mcp-session-id'), 'mcp-protocol-version': version };
}

async function legacyCancellation(url) {
  const session = await openSession(url, '2025-11-25');
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'test_hold', arguments: {}, _meta: { progressToken: 1 } } };
  const first = post(url, call, session).then((response) => response.text());
  await until('the call', async () => (await held(url)).running === 1);
  await post(url, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, session);
  const ms = await until('the cancel', async () => (await held(url)).running === 0);
  assert.ok(!(await first).includes('"result"'), 'a cancelled request was answered');
  const abort = new AbortController();
  const second = post(url, { ...call, id: 2 }, session, { signal: abort.signal }).then((r) => r.text()).catch(() => {});
  await until('the call', async () => (await held(url)).running === 1);
  abort.abort();
  await second;
  await new Promise((resolve) => { setTimeout(resolve, 200); });
  assert.equal((await held(url)).running, 1, 'a legacy disconnect is no cancel');
  await fetch(url, { method: 'DELETE', headers: { ...session, authorization: `Bearer ${TOKEN}` } });
  await until('the end of the session', async () => (await held(url)).running === 0);
  report(`a legacy cancel stops its call in ${ms} ms; a disconnect does not; the end of the session does`);
}

async function limits(url) {
  const big = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"${'y'.repeat(5 << 20)}"}}`;
  const response = await post(url, big).catch((error) => ({ status: String(error.cause ?? error) }));
  assert.ok(response.status === 413 || /EPIPE|ECONNRESET|closed/.test(response.status), `a body of 5 MiB: ${response.status}`);
  const deep = `${'['.repeat(100000)}`;
  assert.equal((await post(url, deep)).status, 400);
  assert.equal((await held(url)).running, 0, 'the server goes on');
  report('bodies that are too big or too deep are refused');
}

async function stopEndsStreams(child, url) {
  const body = modernBody('subscriptions/listen', { notifications: { toolsListChanged: true } });
  const response = await postModern(url, body);
  let text = '';
  const reading = (async () => { for await (const part of response.body.pipeThrough(new TextDecoderStream())) text += part; })().catch(() => {});
  await until('the acknowledgement', async () => text.includes('acknowledged'));
  const call = postModern(url, hold({})).then((r) => r.text()).catch(() => {});
  await until('the call', async () => (await held(url)).running === 1);
  child.kill('SIGTERM');
  const ms = await ends(child, 'SIGTERM');
  await reading;
  await call;
  assert.ok(text.includes(`"id":${body.id},`), `the listen got its result: ${text}`);
  report(`SIGTERM ends the server in ${ms} ms, and open listens with their result`);
}

async function tokens() {
  const { child, url } = await serveHttp(true);
  for (const authorization of ['', 'Bearer wrong', 'Basic x', `Bearer ${TOKEN}x`]) {
    const response = await post(url, modernBody('server/discover'), { authorization });
    assert.equal(response.status, 401);
    assert.match(response.headers.get('www-authenticate'), /^Bearer/);
    assert.ok((await response.json()).error.message);
  }
  assert.equal((await postModern(url, modernBody('server/discover'))).status, 200);
  const probe = await fetch(new URL('/.well-known/oauth-protected-resource/mcp', url));
  assert.equal(probe.status, 404);
  await probe.json();
  assert.ok(!child.log.includes(TOKEN), 'the token is in the log');
  child.kill('SIGTERM');
  await ends(child, 'SIGTERM');
  report('wrong and missing tokens are refused with 401 and WWW-Authenticate; the configured one is not in the log');
}

// ---- stdio -----------------------------------------------------------------------------------------------------------------------------

function stdioPeer() {
  const child = start(['--stdio']);
  const waiting = new Map();
  const messages = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line); // anything else on stdout fails here
    assert.equal(message.jsonrpc, '2.0');
    messages.push(message);
    waiting.get(message.id)?.(message);
  });
  return {
    child, messages,
    send: (message) => child.stdin.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`),
    ask(message) {
      return new Promise((resolve) => {
        waiting.set(message.id, resolve);
        this.send(message);
      });
    },
  };
}

async function stdioCancellation() {
  const peer = stdioPeer();
  const seen = async () => JSON.parse(textOf(await peer.ask(modernBody('tools/call', { name: 'test_held', arguments: {} }))));
  const call = hold({});
  peer.send(call);
  await until('the call', async () => (await seen()).running === 1);
  peer.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: call.id } });
  const ms = await until('the cancel', async () => (await seen()).running === 0);
  assert.ok(!peer.messages.some((m) => m.id === call.id), 'a cancelled request was answered');
  peer.send(`{"x":"${'y'.repeat(5 << 20)}"}`);
  peer.send('nonsense');
  await until('the errors', async () => peer.messages.filter((m) => m.error?.code === -32700).length === 2);
  peer.send(hold({}));
  const last = modernBody('tools/call', { name: 'test_simple_text', arguments: {} });
  const answered = peer.ask(last);
  peer.child.stdin.end();
  await answered;
  const end = await ends(peer.child, 'end of input');
  assert.ok(end < SOON_MS, `the end took ${end} ms`); // what it holds would take a minute
  report(`stdio: a cancel stops its call in ${ms} ms; a line that is too long is refused; the end of input ends it in ${end} ms`);
}

async function stdioSignal() {
  const peer = stdioPeer();
  await peer.ask(modernBody('server/discover'));
  peer.child.kill('SIGTERM');
  await ends(peer.child, 'SIGTERM');
  report('stdio: SIGTERM ends it');
}

const { child, url } = await serveHttp();
await disconnectStopsTheCall(url);
await legacyCancellation(url);
await limits(url);
await stopEndsStreams(child, url);
await tokens();
await stdioCancellation();
await stdioSignal();
