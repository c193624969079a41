// SPDX-License-Identifier: MIT
// Speaks every revision to a server with the fixtures, raw over HTTP, and checks each message that comes back against the schema.
// usage: wire_check.mjs URL
import assert from 'node:assert/strict';
import { Checker } from './schema.mjs';

const [url] = process.argv.slice(2);
const MODERN = '2026-07-28';
const ALL = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
const TASKS = { ...ALL, extensions: { 'io.modelcontextprotocol/tasks': {} } };

function messagesOf(text, type) {
  if (!type?.includes('event-stream')) return text ? [JSON.parse(text)].flat() : [];
  return text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
}

class Peer {
  constructor(revision) {
    this.checker = new Checker(revision);
    this.revision = revision;
    this.id = 0;
  }

  headers(extra) {
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...extra };
    if (process.env.TOKEN) headers.authorization = `Bearer ${process.env.TOKEN}`;
    return headers;
  }

  async post(body, extra, method) {
    const response = await fetch(url, { method: 'POST', headers: this.headers(extra), body: JSON.stringify(body) });
    const messages = messagesOf(await response.text(), response.headers.get('content-type'));
    for (const message of messages) this.checker.message(message, message.method === undefined ? method : undefined);
    return { response, messages, last: messages.at(-1) };
  }
}

class ModernPeer extends Peer {
  constructor() { super(MODERN); }

  body(method, params, capabilities, meta) {
    this.id += 1;
    const _meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': capabilities, ...meta };
    return { jsonrpc: '2.0', id: this.id, method, params: { ...params, _meta } };
  }

  static headersOf(body) {
    const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': body.method };
    const name = body.params.name ?? body.params.uri ?? body.params.taskId;
    if (name) headers['mcp-name'] = name;
    for (const [key, value] of Object.entries(body.params.arguments ?? {})) headers[`mcp-param-${key}`] = String(value);
    return headers;
  }

  async call(method, params = {}, { capabilities = ALL, meta = {} } = {}) {
    const body = this.body(method, params, capabilities, meta);
    return (await this.post(body, ModernPeer.headersOf(body), method)).last;
  }

  async listen(notifications, trigger, wanted, capabilities = ALL) {
    const body = this.body('subscriptions/listen', { notifications }, capabilities, {});
    const abort = new AbortController();
    const response = await fetch(url, {
      method: 'POST', headers: this.headers(ModernPeer.headersOf(body)), body: JSON.stringify(body), signal: abort.signal,
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const until = async (n) => {
      while (messagesOf(text, 'event-stream').length < n) text += (await reader.read()).value;
    };
    await until(1);
    await trigger();
    await until(wanted + 1);
    const messages = messagesOf(text, 'event-stream');
    for (const message of messages) this.checker.message(message);
    abort.abort();
    return messages;
  }
}

class LegacyPeer extends Peer {
  async open(capabilities) {
    const params = { protocolVersion: this.revision, capabilities, clientInfo: { name: 'wire-check', version: '1' } };
    const { response, last } = await this.post({ jsonrpc: '2.0', id: 0, method: 'initialize', params }, {}, 'initialize');
    this.session = { 'mcp-session-id': response.headers.get('mcp-session-id'), 'mcp-protocol-version': this.revision };
    assert.equal(last.result.protocolVersion, this.revision);
    assert.equal((await this.post({ jsonrpc: '2.0', method: 'notifications/initialized' }, this.session)).response.status, 202);
  }

  async call(method, params = {}) {
    this.id += 1;
    return (await this.post({ jsonrpc: '2.0', id: this.id, method, params }, this.session, method)).last;
  }

  // A request (a tools/call when `name` is no method) whose question is answered while its stream is open.
  async callAnswering(name, args, answer) {
    this.id += 1;
    const method = name.includes('/') ? name : 'tools/call';
    const body = { jsonrpc: '2.0', id: this.id, method, params: name === method ? args : { name, arguments: args } };
    const response = await fetch(url, { method: 'POST', headers: this.headers(this.session), body: JSON.stringify(body) });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    let answered = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const question = messagesOf(text, 'event-stream').find((m) => m.method && m.id !== undefined);
      if (question && !answered) {
        answered = true;
        await this.post({ jsonrpc: '2.0', id: question.id, result: answer }, this.session);
      }
    }
    const messages = messagesOf(text, 'event-stream');
    for (const message of messages) this.checker.message(message, message.method === undefined ? method : undefined);
    assert.ok(answered, `${name} asked nothing`);
    return messages.at(-1);
  }
}

const PLAIN_TOOLS = ['test_simple_text', 'test_image_content', 'test_audio_content', 'test_embedded_resource', 'test_multiple_content_types',
  'test_error_handling', 'a_plain_tool'];
const PROMPTS = [['test_simple_prompt', {}], ['test_prompt_with_arguments', { arg1: 'a', arg2: 'b' }],
  ['test_prompt_with_embedded_resource', { resourceUri: 'test://x' }], ['test_prompt_with_image', {}]];
const RESOURCES = ['test://static-text', 'test://static-binary', 'test://template/7/data', 'test://none'];

async function common(peer) {
  for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']) {
    assert.ok((await peer.call(method)).result, method);
  }
  for (const name of PLAIN_TOOLS) assert.ok((await peer.call('tools/call', { name, arguments: {} })).result, name);
  for (const [name, args] of PROMPTS) assert.ok((await peer.call('prompts/get', { name, arguments: args })).result, name);
  for (const uri of RESOURCES) await peer.call('resources/read', { uri });
  const ref = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
  assert.equal((await peer.call('completion/complete', { ref, argument: { name: 'arg1', value: 'x' } })).result.completion.values.length, 2);
  for (const [method, params] of [['no/such', {}], ['tools/call', { name: 'none' }], ['prompts/get', { name: 'none' }],
    ['tools/list', { cursor: 'none' }]]) {
    assert.ok((await peer.call(method, params)).error, method);
  }
}

const RELATED = 'io.modelcontextprotocol/related-task';

// The tasks of 2025-11-25, each message against the schema.
async function sessionTasks(peer) {
  const make = async (name, args = {}) => (await peer.call('tools/call', { name, arguments: args, task: { ttl: 60000 } })).result.task;
  const { taskId } = await make('slow_compute', { seconds: 2, label: 'wire' });
  assert.equal((await peer.call('tasks/get', { taskId })).result.status, 'working');
  const { result } = await peer.call('tasks/result', { taskId });
  assert.equal(result.content[0].text, 'slow_compute done: wire');
  assert.deepEqual(result._meta[RELATED], { taskId });
  assert.equal((await peer.call('tasks/get', { taskId })).result.status, 'completed');
  const asks = await make('confirm_delete', { filename: 'a.txt' });
  const answered = await peer.callAnswering('tasks/result', { taskId: asks.taskId }, { action: 'accept', content: { confirm: true } });
  assert.equal(answered.result.content[0].text, 'deleted a.txt');
  const failing = await make('failing_job');
  assert.ok((await peer.call('tasks/result', { taskId: failing.taskId })).result.isError);
  assert.equal((await peer.call('tasks/get', { taskId: failing.taskId })).result.status, 'failed');
  const broken = await make('protocol_error_job');
  assert.equal((await peer.call('tasks/result', { taskId: broken.taskId })).error.code, -32603);
  const slow = await make('slow_compute', { seconds: 30 });
  assert.equal((await peer.call('tasks/cancel', { taskId: slow.taskId })).result.status, 'cancelled');
  for (const [method, params, code] of [['tasks/cancel', { taskId: slow.taskId }, -32602], ['tasks/result', { taskId: slow.taskId }, -32602],
    ['tasks/get', { taskId: 'none' }, -32602], ['tasks/list', { cursor: 'none' }, -32602],
    ['tools/call', { name: 'greet', arguments: { name: 'Ada' }, task: {} }, -32601], ['tools/call', { name: 'failing_job' }, -32601],
    ['tools/call', { name: 'slow_compute', task: { ttl: 'long' } }, -32602]]) {
    assert.equal((await peer.call(method, params)).error?.code, code, `${method} ${JSON.stringify(params)}`);
  }
  assert.deepEqual((await peer.call('tasks/list')).result.tasks.map((task) => task.status),
    ['completed', 'completed', 'failed', 'failed', 'cancelled']);
}

async function legacy(revision) {
  const peer = new LegacyPeer(revision);
  await peer.open(ALL);
  await common(peer);
  assert.deepEqual((await peer.call('ping')).result, {});
  assert.deepEqual((await peer.call('logging/setLevel', { level: 'debug' })).result, {});
  assert.deepEqual((await peer.call('resources/subscribe', { uri: 'test://watched-resource' })).result, {});
  assert.deepEqual((await peer.call('resources/unsubscribe', { uri: 'test://watched-resource' })).result, {});
  await peer.call('tools/call', { name: 'test_tool_with_logging', arguments: {} });
  await peer.call('tools/call', { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 'p' } });
  const reply = { role: 'assistant', model: 'm', content: { type: 'text', text: 'hi' } };
  await peer.callAnswering('test_sampling', { prompt: 'p' }, reply);
  if (revision >= '2025-06-18') {
    const form = { action: 'accept', content: { username: 'u', email: 'e' } };
    await peer.callAnswering('test_elicitation', { message: 'm' }, form);
  }
  if (revision >= '2025-11-25') {
    for (const name of ['test_elicitation_sep1034_defaults', 'test_elicitation_sep1330_enums']) {
      await peer.callAnswering(name, {}, { action: 'decline' });
    }
    await sessionTasks(peer);
  }
  console.log(`${revision} over HTTP: ${peer.checker.finish('wire')}`);
}

async function modern() {
  const peer = new ModernPeer();
  assert.ok((await peer.call('server/discover')).result);
  await common(peer);
  await peer.call('tools/call', { name: 'test_tool_with_progress', arguments: {} }, { meta: { progressToken: 1 } });
  await peer.call('tools/call', { name: 'test_logging_tool', arguments: {} }, { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } });
  await peer.call('tools/call', { name: 'test_x_mcp_header', arguments: { region: 'eu', level: 3 } });
  for (const kind of ['elicitation', 'sampling', 'list_roots', 'request_state', 'multiple_inputs', 'multi_round']) {
    const { result } = await peer.call('tools/call', { name: `test_input_required_result_${kind}`, arguments: {} });
    assert.equal(result.resultType, 'input_required', kind);
  }
  assert.equal((await peer.call('prompts/get', { name: 'test_input_required_result_prompt' })).result.resultType, 'input_required');
  assert.equal((await peer.call('tools/call', { name: 'test_missing_capability', arguments: {} }, { capabilities: {} })).error.code, -32021);
  assert.equal((await peer.call('initialize')).error.code, -32601);
  const { taskId } = (await peer.call('tools/call', { name: 'confirm_delete', arguments: {} }, { capabilities: TASKS })).result;
  assert.ok((await peer.call('tasks/get', { taskId }, { capabilities: TASKS })).result);
  assert.ok((await peer.call('tasks/cancel', { taskId }, { capabilities: TASKS })).result);
  const filter = { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: ['test://watched-resource'] };
  await peer.listen(filter, async () => {
    for (const name of ['test_trigger_tool_change', 'test_trigger_prompt_change', 'test_trigger_resource_update']) {
      await peer.call('tools/call', { name, arguments: {} });
    }
  }, 3);
  console.log(`${MODERN} over HTTP: ${peer.checker.finish('wire')}`);
}

await modern();
for (const revision of ['2025-11-25', '2025-06-18', '2025-03-26']) await legacy(revision);
