// Drives the package for the conformance tests: `runner.mjs component|bindgen [BACKEND]`,
// the last a module of somebody else's backend. One JSON object a line each way. Values are postcard, in base64. Whoever started it keeps the log
// and answers for the model.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { CompactError, createCompactor, ModelError, SessionError } from '../dist/index.js';
import { decode, encode, nothing, option, result, u32 } from '../dist/schema.js';
import * as types from '../dist/types-schema.js';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64'));
const base64 = (value) => Buffer.from(value).toString('base64');

async function ask(question) {
  process.stdout.write(`${JSON.stringify(question)}\n`);
  const { value } = await lines.next();
  return bytes(JSON.parse(value).reply);
}

async function asked(question, ok, failure, Failure) {
  const answer = decode(result(ok, failure), await ask(question));
  if (answer.tag === 'ok') return answer.val;
  throw Failure(answer.val);
}

const fail = (failure) => new SessionError(failure);
const session = {
  id: 'conformance',
  head: () => asked({ call: 'head' }, u32, types.sessionFailure, fail),
  read: (start, limit) => asked({ call: 'read', start, limit }, types.events, types.sessionFailure, fail),
  append: (drafts, expected) =>
    asked(
      { call: 'append', drafts: base64(encode(types.drafts, drafts)), expected: expected ?? null },
      u32,
      types.sessionFailure,
      fail,
    ),
  flush: () => asked({ call: 'flush' }, nothing, types.sessionFailure, fail),
  messages(seqs, deadCalls) {
    session.deadCalls = deadCalls;
    return seqs.map((seq) => ({ seq }));
  },
};

/** What the engine asked for, made anew from what the package made of it. */
function prompt(request) {
  if (!request.replay) {
    return { tag: 'standalone', val: { system: request.system, user: request.messages[0].content, nodes: [] } };
  }
  const nodes = request.messages.slice(0, -1).map((message) => message.seq);
  return { tag: 'replay', val: { nodes, deadCalls: session.deadCalls, instruction: request.messages.at(-1).content } };
}

function toChunk(chunk) {
  switch (chunk.tag) {
    case 'text':
    case 'reasoning':
      return { type: chunk.tag, text: chunk.val };
    case 'tool-call':
      return { type: 'tool-call', id: chunk.val.callId, name: chunk.val.name, arguments: chunk.val.arguments };
    case 'other':
      return { type: 'other', kind: chunk.val };
    case 'finish':
      return { type: 'finish', ...chunk.val };
  }
}

const model = {
  async describeModel(route) {
    const answer = await ask({ call: 'describe', route: base64(encode(types.route, route)) });
    return decode(option(types.modelInfo), answer);
  },
  async stream(request) {
    const options = {
      route: { provider: request.provider, model: request.model },
      prompt: prompt(request),
      maxTokens: request.maxTokens,
      purpose: request.purpose,
      part: request.part,
    };
    const call = { call: 'stream', options: base64(encode(types.generateOptions, options)) };
    const answer = decode(result(types.chunks, types.modelFailure), await ask(call));
    if (answer.tag === 'err') throw new ModelError(answer.val);
    return (async function* () {
      for (const chunk of answer.val) yield toChunk(chunk);
    })();
  },
};

/** The public settings that a contract's configuration comes of. */
function settings(config) {
  const policy = ({ summarizationRoute: route, ...rest }) => ({
    ...rest,
    ...(route ? { summarizationProvider: route.provider, summarizationModel: route.model } : {}),
  });
  const { policy: own, modelPolicies, hooks, ...rest } = config;
  return {
    ...rest,
    ...policy(own),
    modelPolicies: modelPolicies.map((entry) => ({ ...entry.route, ...policy(entry.policy) })),
  };
}

const answers = {
  measure: types.measurement,
  surface: types.surfaceNodes,
  'compact-if-needed': option(types.compactionResult),
  'compact-region': types.compactionResult,
  'compact-now': option(types.compactionResult),
  prune: types.pruned,
};

let compactor;
const operations = {
  measure: ({ agent, prompt, prefix }) => compactor.measure(agent, prompt, prefix),
  surface: () => compactor.surface(session),
  'compact-if-needed': ({ agent, prompt, prefix, trigger, signal }) =>
    compactor.compactIfNeeded(agent, prompt, prefix, signal, trigger),
  'compact-region': ({ agent, range, signal }) =>
    compactor.compactRegion(session, range.start, range.end, agent, signal),
  'compact-now': ({ agent, options, signal }) => compactor.compactNow(agent, { ...options, signal }),
  prune: () => compactor.prune(session),
};

for (;;) {
  const { value: line, done } = await lines.next();
  if (done) break;
  const request = JSON.parse(line);
  const respond = (schema, outcome) =>
    process.stdout.write(`${JSON.stringify({ result: base64(encode(result(schema, types.compactFailure), outcome)) })}\n`);
  const schema = request.op === 'create' ? nothing : answers[request.op];
  try {
    if (request.op === 'create') {
      compactor?.dispose();
      const [runtime, module] = process.argv.slice(2);
      compactor = await createCompactor({
        runtime,
        ...(module ? { backend: (await import(pathToFileURL(module))).default } : {}),
        config: settings(decode(types.config, bytes(request.config))),
        model,
      });
      respond(schema, { tag: 'ok', val: undefined });
      continue;
    }
    const agent = request.agent && decode(types.agent, bytes(request.agent));
    const given = {
      agent: agent && {
        session,
        options: agent.route,
        contextWindow: agent.contextWindow,
        outputTokens: agent.outputTokens,
        toolsTokens: agent.toolsTokens,
      },
      prompt: request.prompt,
      prefix: request.prefix && decode(types.messages, bytes(request.prefix)),
      trigger: request.trigger,
      range: request.range,
      signal: request.aborted ? AbortSignal.abort() : undefined,
      options: request.options && decode(types.nowOptions, bytes(request.options)),
    };
    respond(schema, { tag: 'ok', val: (await operations[request.op](given)) ?? undefined });
  } catch (error) {
    const failure = CompactError.isInstance(error) && error.failure;
    if (!failure) {
      process.stderr.write(`${error?.stack ?? error}\n`);
      process.exit(1);
    }
    respond(schema, { tag: 'err', val: failure });
  }
}
process.exit(0);
