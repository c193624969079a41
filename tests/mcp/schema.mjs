// SPDX-License-Identifier: MIT
// Checks messages of the server against the published MCP schema of a revision. Without the schemas (SCHEMAS=folder) nothing is checked, and
// that is said.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const need = createRequire(join(process.env.NPM_ROOT ?? process.cwd(), 'node_modules', 'x.js'));
const addFormats = need('ajv-formats').default ?? need('ajv-formats');
const Ajv = need('ajv').default ?? need('ajv');
const Ajv2020 = need('ajv/dist/2020').default ?? need('ajv/dist/2020');

const RESULTS = {
  initialize: 'InitializeResult', ping: 'EmptyResult', 'tools/list': 'ListToolsResult', 'tools/call': 'CallToolResult',
  'resources/list': 'ListResourcesResult', 'resources/templates/list': 'ListResourceTemplatesResult', 'resources/read': 'ReadResourceResult',
  'resources/subscribe': 'EmptyResult', 'resources/unsubscribe': 'EmptyResult', 'prompts/list': 'ListPromptsResult',
  'prompts/get': 'GetPromptResult', 'completion/complete': 'CompleteResult', 'logging/setLevel': 'EmptyResult',
  'server/discover': 'DiscoverResult', 'subscriptions/listen': 'SubscriptionsListenResult',
};
// The tasks of 2025-11-25. Those of later revisions are an extension: not in the schema. A task wraps nothing but tools/call.
const TASK_RESULTS = {
  'tasks/get': 'GetTaskResult', 'tasks/list': 'ListTasksResult', 'tasks/cancel': 'CancelTaskResult', 'tasks/result': 'CallToolResult',
};

function load(folder, revision) {
  const file = join(folder, `schema-${revision}.json`);
  if (!existsSync(file)) return null;
  const schema = JSON.parse(readFileSync(file, 'utf8'));
  const key = schema.$defs ? '$defs' : 'definitions';
  // The dated legacy schemas say integer where the specification's source says number.
  for (const member of ['minimum', 'maximum', 'default']) {
    const found = schema[key].NumberSchema?.properties?.[member];
    if (found) found.type = 'number';
  }
  return { schema, key };
}

export class Checker {
  constructor(revision, folder = process.env.SCHEMAS ?? '../shared/data/mcp') {
    this.revision = revision;
    this.checked = 0;
    this.failures = [];
    const loaded = load(folder, revision);
    if (!loaded) return;
    this.key = loaded.key;
    this.names = new Set(Object.keys(loaded.schema[loaded.key]));
    const Class = loaded.key === '$defs' ? Ajv2020 : Ajv;
    this.ajv = new Class({ strict: false, allErrors: true });
    addFormats(this.ajv);
    this.ajv.addSchema(loaded.schema, 'mcp');
    this.validators = new Map();
  }

  get active() { return this.ajv !== undefined; }

  against(name, value) {
    if (!this.active || !this.names.has(name)) return null;
    if (!this.validators.has(name)) this.validators.set(name, this.ajv.compile({ $ref: `mcp#/${this.key}/${name}` }));
    const validate = this.validators.get(name);
    return validate(value) ? null : validate.errors.slice(0, 3).map((e) => `${e.instancePath} ${e.message}`).join('; ');
  }

  // The definition that a message must fit. method: of the request that a response answers.
  static definition(message, method) {
    if (message.method !== undefined) return message.id === undefined ? 'ServerNotification' : 'ServerRequest';
    return message.error !== undefined ? 'JSONRPCErrorResponse' : RESULTS[method];
  }

  /** Checks one message; method is that of the request which a response answers. */
  message(message, method) {
    if (!this.active) return;
    this.checked += 1;
    const note = (why) => { if (why) this.failures.push(`${method ?? message.method}: ${why}: ${JSON.stringify(message).slice(0, 300)}`); };
    if (message.error !== undefined) {
      note(this.against(this.names.has('JSONRPCErrorResponse') ? 'JSONRPCErrorResponse' : 'JSONRPCError', message));
      return;
    }
    if (message.method !== undefined) {
      if (message.method === 'notifications/tasks') return; // of an extension: not in the schema
      note(this.against(Checker.definition(message), message));
      return;
    }
    note(this.against(this.names.has('JSONRPCResultResponse') ? 'JSONRPCResultResponse' : 'JSONRPCResponse', message));
    const kind = message.result.resultType;
    if (kind === undefined && this.names.has('CreateTaskResult')) {
      const name = method === 'tools/call' && message.result.task ? 'CreateTaskResult' : TASK_RESULTS[method];
      if (name) return note(this.against(name, message.result));
    }
    if (kind === 'task' || method?.startsWith('tasks/')) return;
    note(this.against(kind === 'input_required' ? 'InputRequiredResult' : RESULTS[method], message.result));
  }

  /** Throws when a message did not fit. */
  finish(what) {
    if (this.failures.length > 0) throw new Error(`${what}: messages that do not fit the schema of ${this.revision}:\n${this.failures.join('\n')}`);
    return this.active ? `${this.checked} messages fit the schema of ${this.revision}` : `schema of ${this.revision} not here: not checked`;
  }
}

/** Puts a checker between a transport of the TypeScript SDK and its client. */
export function watch(transport, checker) {
  const methods = new Map();
  let handler;
  const send = transport.send.bind(transport);
  transport.send = (message, ...more) => {
    for (const one of [message].flat()) if (one.method !== undefined && one.id !== undefined) methods.set(one.id, one.method);
    return send(message, ...more);
  };
  Object.defineProperty(transport, 'onmessage', {
    get: () => handler && ((message, ...more) => {
      checker.message(message, message.method === undefined ? methods.get(message.id) : undefined);
      return handler(message, ...more);
    }),
    set: (fn) => { handler = fn; },
  });
  return transport;
}
