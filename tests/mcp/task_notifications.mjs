// SPDX-License-Identifier: MIT
// notifications/tasks over subscriptions/listen (SEP-2663 on SEP-2575), which the conformance suite skips: each change of a task that was
// asked for arrives in full, tagged, after the acknowledgement; nobody gets another principal's or an undeclared client's tasks.
// usage: task_notifications.mjs URL
import assert from 'node:assert/strict';

const [url] = process.argv.slice(2);
const EXTENSION = 'io.modelcontextprotocol/tasks';
const VERSION = '2026-07-28';
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';

function request(id, method, params, capabilities) {
  const name = params.name ?? params.taskId;
  const headers = {
    'content-type': 'application/json', accept: 'application/json, text/event-stream',
    'mcp-protocol-version': VERSION, 'mcp-method': method,
  };
  if (process.env.TOKEN) headers.authorization = `Bearer ${process.env.TOKEN}`;
  if (name) headers['mcp-name'] = name;
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': VERSION,
    'io.modelcontextprotocol/clientCapabilities': capabilities ?? { extensions: { [EXTENSION]: {} }, elicitation: {} },
  };
  return [url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta } }) }];
}

async function call(method, params, capabilities) {
  return (await (await fetch(...request(1, method, params, capabilities))).json());
}

async function listen(id, notifications, capabilities) {
  const abort = new AbortController();
  const [to, init] = request(id, 'subscriptions/listen', { notifications }, capabilities);
  const response = await fetch(to, { ...init, signal: abort.signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  return {
    response,
    close: () => abort.abort(),
    async next() {
      for (;;) {
        const end = text.indexOf('\n\n');
        if (end >= 0) {
          const block = text.slice(0, end);
          text = text.slice(end + 2);
          const data = block.split('\n').find((line) => line.startsWith('data: '));
          if (data) return JSON.parse(data.slice(6));
          continue;
        }
        const { value, done } = await reader.read();
        if (done) return JSON.parse(text || 'null');
        text += value;
      }
    },
  };
}

async function changesArriveInFull() {
  const task = (await call('tools/call', { name: 'confirm_delete', arguments: { filename: 'a.txt' } })).result;
  assert.equal(task.resultType, 'task');
  const stream = await listen('sub-1', { taskIds: [task.taskId, 'unknown'] });
  const ack = await stream.next();
  assert.equal(ack.method, 'notifications/subscriptions/acknowledged');
  assert.deepEqual(ack.params.notifications.taskIds, [task.taskId]);
  let seen = (await call('tasks/get', { taskId: task.taskId })).result;
  while (seen.status === 'working') seen = (await call('tasks/get', { taskId: task.taskId })).result;
  assert.equal(seen.status, 'input_required');
  const [key] = Object.keys(seen.inputRequests);
  const answer = { action: 'accept', content: { confirm: true } };
  await call('tasks/update', { taskId: task.taskId, inputResponses: { [key]: answer } });
  const statuses = [];
  for (;;) {
    const note = await stream.next();
    assert.equal(note.method, 'notifications/tasks');
    assert.equal(note.params._meta[SUBSCRIPTION], 'sub-1');
    assert.equal(note.params.taskId, task.taskId);
    for (const member of ['createdAt', 'lastUpdatedAt', 'ttlMs', 'pollIntervalMs']) assert.ok(member in note.params, member);
    statuses.push(note.params.status);
    if (note.params.status === 'completed') {
      assert.match(note.params.result.content[0].text, /deleted a\.txt/);
      const got = (await call('tasks/get', { taskId: task.taskId })).result;
      const { _meta, ...shown } = note.params;
      const { _meta: _ignored, resultType, ...asked } = got;
      assert.deepEqual(shown, asked, 'a notification shows what tasks/get shows');
      break;
    }
  }
  assert.deepEqual(statuses.slice(-2), ['working', 'completed']);
  stream.close();
}

// A task that fails soon, and a stream that follows it and another: on a busy machine it may have failed before the stream was open.
async function failingWith(other) {
  for (let i = 0; i < 10; i++) {
    const broken = (await call('tools/call', { name: 'protocol_error_job', arguments: {} })).result;
    const stream = await listen(42, { taskIds: [other.taskId, broken.taskId] });
    await stream.next();
    if ((await call('tasks/get', { taskId: broken.taskId })).result.status === 'working') return { broken, stream };
    stream.close();
  }
  throw new Error('each task had failed before it could be followed');
}

async function cancelAndFailureArrive() {
  const slow = (await call('tools/call', { name: 'slow_compute', arguments: { seconds: 30, label: 'x' } })).result;
  const { broken, stream } = await failingWith(slow);
  await call('tasks/cancel', { taskId: slow.taskId });
  const ends = {};
  while (Object.keys(ends).length < 2) {
    const note = await stream.next();
    assert.strictEqual(note.params._meta[SUBSCRIPTION], 42);
    ends[note.params.taskId] = note.params;
  }
  assert.equal(ends[slow.taskId].status, 'cancelled');
  assert.equal(ends[broken.taskId].status, 'failed');
  assert.equal(typeof ends[broken.taskId].error.code, 'number');
  assert.ok(!('result' in ends[broken.taskId]));
  stream.close();
}

async function undeclaredClientsGetNothing() {
  const stream = await listen(7, { taskIds: ['x'] }, {});
  assert.equal(stream.response.status, 400);
  assert.equal((await stream.next()).error.code, -32021);
}

await changesArriveInFull();
await cancelAndFailureArrive();
await undeclaredClientsGetNothing();
console.log('2026-07-28: notifications/tasks over subscriptions/listen: 3 checks of our own passed');
