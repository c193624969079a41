// SPDX-License-Identifier: MIT
// Long calls on a live process, over HTTP, as a client of 2025-11-25 makes them: progress about once a second, and an end at any time that
// really ends the session in the process, for a plain call and for a task. usage: window_check.mjs URL PID
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Checker } from './schema.mjs';

const [url, pidText] = process.argv.slice(2);
const processId = Number(pidText);
const REVISION = '2025-11-25';
const RELATED = 'io.modelcontextprotocol/related-task';
const SOON_MS = 20000; // as a rule some milliseconds, seconds on a busy machine; each window would go on for much longer
const OPEN_MS = 30000;
const GAP_MS = 10000;
const checker = new Checker(REVISION);
const report = (line) => console.log(`window: ${line}`);

/** Connections to the runtime's diagnostics socket: its open sessions and requests under way (state 03), and those that it has not accepted
 * yet (02): a session may be opened on one of them, long after its client has left. */
function sessionsIn(pid) {
  return readFileSync('/proc/net/unix', 'utf8').split('\n').filter((line) => {
    const [, , , , , state, , path] = line.trim().split(/\s+/);
    return (state === '02' || state === '03') && path?.includes(`dotnet-diagnostic-${pid}-`);
  }).length;
}

async function until(what, limit, check) {
  const t0 = Date.now();
  while (!(await check())) {
    assert.ok(Date.now() - t0 < limit, `${what} took more than ${limit} ms`);
    await new Promise((resolve) => { setTimeout(resolve, 5); });
  }
  return Date.now() - t0;
}

function headers(more) {
  const all = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...more };
  if (process.env.TOKEN) all.authorization = `Bearer ${process.env.TOKEN}`;
  return all;
}

// The messages of a response as they come: list of { message, at }. method: of the request that it answers.
async function read(response, list, method) {
  const add = (text) => {
    const message = JSON.parse(text);
    checker.message(message, message.method === undefined ? method : undefined);
    list.push({ message, at: Date.now() });
  };
  if (!response.headers.get('content-type')?.includes('event-stream')) {
    const text = await response.text();
    if (text) add(text);
    return;
  }
  let text = '';
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = text.slice(0, end).split('\n').find((line) => line.startsWith('data: {'));
      text = text.slice(end + 2);
      if (data) add(data.slice(6));
    }
  }
}

class Session {
  async open() {
    const params = { protocolVersion: REVISION, capabilities: {}, clientInfo: { name: 'window-check', version: '1' } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
    const response = await fetch(url, { method: 'POST', headers: headers(), body });
    await read(response, [], 'initialize');
    this.headers = { 'mcp-session-id': response.headers.get('mcp-session-id'), 'mcp-protocol-version': REVISION };
    this.id = 0;
    await this.notify('notifications/initialized');
    this.stream = [];
    const stream = await fetch(url, { headers: headers(this.headers) });
    this.reading = read(stream, this.stream);
    return this;
  }

  async post(message) {
    return fetch(url, { method: 'POST', headers: headers(this.headers), body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  }

  async notify(method, params) { assert.equal((await this.post({ method, params })).status, 202); }

  /** Sends a request -> { id, messages, ended }: what comes back, as it comes. */
  start(method, params) {
    this.id += 1;
    const call = { id: this.id, messages: [] };
    call.ended = this.post({ id: call.id, method, params }).then((response) => read(response, call.messages, method));
    return call;
  }

  async ask(method, params) {
    const call = this.start(method, params);
    await call.ended;
    return call.messages.at(-1).message;
  }

  async close() {
    await fetch(url, { method: 'DELETE', headers: headers(this.headers) });
    await this.reading;
  }
}

const window = (seconds, more) => ({
  name: 'collect_events', arguments: { kind: 'counters', processId, durationSeconds: seconds }, _meta: { progressToken: `t-${seconds}` }, ...more,
});

const progressIn = (list) => list.filter(({ message }) => message.method === 'notifications/progress');

// About once a second, always more, of the whole of 100, with the token of the call. On a busy machine two may come late and together, but
// none comes before its second is over.
function checkProgress(list, token, what, startedAt) {
  for (const [i, { message, at }] of list.entries()) {
    assert.equal(message.params.progressToken, token, what);
    assert.equal(message.params.total, 100, what);
    if (i > 0) assert.ok(message.params.progress > list[i - 1].message.params.progress, `${what}: progress grows`);
    if (message.params.progress < 100) {
      const after = at - startedAt;
      assert.ok(after > (i + 1) * 1000 - 100, `${what}: ${i + 1} progress notifications within ${after} ms`);
      const gap = at - (i > 0 ? list[i - 1].at : startedAt);
      assert.ok(gap < GAP_MS, `${what}: ${gap} ms without a progress notification`);
    }
  }
}

async function plainCallIsCancelled(session) {
  const startedAt = Date.now();
  const call = session.start('tools/call', window(60));
  await until('the session to open', OPEN_MS, () => sessionsIn(processId) > 0);
  await until('half of the window', OPEN_MS, () => progressIn(call.messages).length === 4);
  assert.ok(sessionsIn(processId) > 0, 'the window is open half-way');
  await session.notify('notifications/cancelled', { requestId: call.id, reason: 'enough seen' });
  const ms = await until('the end of the session in the process', SOON_MS, () => sessionsIn(processId) === 0);
  await call.ended;
  checkProgress(progressIn(call.messages), 't-60', 'a plain call', startedAt);
  assert.ok(!call.messages.some(({ message }) => message.id === call.id), 'a cancelled request was answered');
  report(`a plain call, cancelled half-way: its session in the process has ended after ${ms} ms`);
}

async function taskIsCancelled(session) {
  const startedAt = Date.now();
  const { result: { task } } = await session.ask('tools/call', window(61, { task: { ttl: 60000 } }));
  assert.equal(task.status, 'working');
  await until('the session to open', OPEN_MS, () => sessionsIn(processId) > 0);
  const mine = () => progressIn(session.stream).filter(({ message }) => message.params._meta[RELATED].taskId === task.taskId);
  await until('half of the window', OPEN_MS, () => mine().length === 4);
  assert.ok(sessionsIn(processId) > 0, 'the window is open half-way');
  assert.match((await session.ask('tasks/get', { taskId: task.taskId })).result.statusMessage, /of 100/);
  const waiting = session.start('tasks/result', { taskId: task.taskId });
  assert.equal((await session.ask('tasks/cancel', { taskId: task.taskId })).result.status, 'cancelled');
  const ms = await until('the end of the session in the process', SOON_MS, () => sessionsIn(processId) === 0);
  await waiting.ended;
  checkProgress(mine(), 't-61', 'a task', startedAt);
  assert.equal(waiting.messages.at(-1).message.error.code, -32602);
  assert.equal((await session.ask('tasks/get', { taskId: task.taskId })).result.status, 'cancelled');
  const told = () => session.stream.filter(({ message }) => message.method === 'notifications/tasks/status');
  await until('the notification of the cancel', SOON_MS, () => told().length > 0); // it comes on another connection
  assert.deepEqual(told().map(({ message }) => message.params.status), ['cancelled']);
  report(`a task, cancelled half-way: its session in the process has ended after ${ms} ms`);
}

async function taskCompletes(session) {
  const startedAt = Date.now();
  const { result: { task } } = await session.ask('tools/call', window(3, { task: {} }));
  const waiting = session.start('tasks/result', { taskId: task.taskId });
  await waiting.ended;
  const mine = () => [...progressIn(session.stream), ...progressIn(waiting.messages)]
    .filter((one) => one.message.params.progressToken === 't-3').sort((a, b) => a.message.params.progress - b.message.params.progress);
  await until('the last progress notification', SOON_MS, () => mine().at(-1)?.message.params.progress === 100);
  const seen = mine();
  checkProgress(seen, 't-3', 'a task that completes', startedAt);
  assert.ok(seen.length >= 2 && seen.length <= 5, `${seen.length} progress notifications in 3 s`);
  assert.equal(seen.at(-1).message.params.progress, 100);
  const { result } = waiting.messages.at(-1).message;
  assert.deepEqual(result._meta[RELATED], { taskId: task.taskId });
  const { data, handle } = result.structuredContent;
  assert.equal(data.counters.processId, processId);
  assert.ok(data.counters.counters.length > 5, 'the counters of the runtime');
  const again = await session.ask('tools/call', { name: 'query_snapshot', arguments: { handle, view: 'byProvider' } });
  assert.equal(again.result.structuredContent.error ?? null, null);
  assert.equal(sessionsIn(processId), 0);
  report(`a task of 3 s: ${seen.length} progress notifications up to 100, a result whose handle works`);
}

// At any time: while the session is opened, while it runs, while names are looked up.
async function cancelledAtAnyTime(session) {
  const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
  const times = [];
  for (const [i, kind] of ['counters', 'exceptions', 'contention', 'gc', 'jit', 'threadpool', 'exceptions', 'contention'].entries()) {
    const params = { name: 'collect_events', arguments: { kind, processId, durationSeconds: 60 } };
    const plain = session.start('tools/call', params);
    const { result: { task } } = await session.ask('tools/call', { ...params, task: {} });
    await sleep(i * 35);
    await session.notify('notifications/cancelled', { requestId: plain.id });
    await session.ask('tasks/cancel', { taskId: task.taskId });
    times.push(await until(`the end of both sessions (${kind}, after ${i * 35} ms)`, SOON_MS, () => sessionsIn(processId) === 0));
    await plain.ended;
    await sleep(100);
    assert.equal(sessionsIn(processId), 0, `${kind}: nothing is opened after the cancel`);
  }
  report(`${times.length} plain calls and as many tasks, cancelled 0 to 245 ms after their start: over after ${Math.max(...times)} ms at most`);
}

async function onlyATaskIsLong(session) {
  const refused = (await session.ask('tools/call', window(301))).result.structuredContent.error;
  assert.equal(refused.kind, 'InvalidArgument');
  const { result: { task } } = await session.ask('tools/call', window(301, { task: {} }));
  await until('the session to open', OPEN_MS, () => sessionsIn(processId) > 0);
  const wrong = { name: 'collect_events', arguments: { kind: 'no-such-kind', processId }, task: {} };
  const told = await session.ask('tools/call', wrong);
  const failed = await session.ask('tasks/result', { taskId: told.result.task.taskId });
  assert.equal(failed.result.structuredContent.error.kind, 'InvalidArgument');
  assert.equal((await session.ask('tasks/get', { taskId: task.taskId })).result.status, 'working');
  report('a window of 301 s runs as a task only');
}

async function endOfTheSessionEndsItsTasks(session) {
  assert.ok(sessionsIn(processId) > 0, 'the window of the check before is still open');
  await session.close();
  const ms = await until('the end of the session in the process', SOON_MS, () => sessionsIn(processId) === 0);
  report(`the end of the client's session: its task's session in the process has ended after ${ms} ms`);
}

const session = await new Session().open();
assert.equal(sessionsIn(processId), 0, 'nobody else looks at the process');
await plainCallIsCancelled(session);
await taskIsCancelled(session);
await taskCompletes(session);
await cancelledAtAnyTime(session);
await onlyATaskIsLong(session);
await endOfTheSessionEndsItsTasks(session);
report(checker.finish('window'));
