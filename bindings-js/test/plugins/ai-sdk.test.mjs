/** The plugin in the tool loops of the published AI SDK, with its own mock provider. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { APICallError, generateText, isStepCount, jsonSchema, streamText, tool, ToolLoopAgent } from 'ai';
import { MockLanguageModelV4, simulateReadableStream } from 'ai/test';
import { createCompaction } from 'harness-compact/ai-sdk';

const SUMMARY = '## Primary Request and Intent\n- read every file, in order';
const usage = { inputTokens: {}, outputTokens: {} };
const summarises = ({ prompt }) => prompt[0].role === 'system' && !String(prompt[0].content).startsWith('You read files');
const size = ({ prompt }) => JSON.stringify(prompt).length;

const tools = {
  read: tool({
    description: 'Read a file.',
    inputSchema: jsonSchema({ type: 'object', properties: { path: { type: 'string' } } }),
    execute: async ({ path }) => `${path}: ${'a line of the file. '.repeat(120)}`,
  }),
};

/** What a model says, in both of the forms that the SDK asks for. */
function scripted(answer) {
  const calls = [];
  const say = async (options) => {
    calls.push(options);
    const { text, call } = await answer(options, calls.length);
    const content = [
      ...(text === undefined ? [] : [{ type: 'text', text }]),
      ...(call ? [{ type: 'tool-call', toolCallId: call.id, toolName: 'read', input: JSON.stringify({ path: call.path }) }] : []),
    ];
    return { content, finishReason: { unified: call ? 'tool-calls' : 'stop' }, usage, warnings: [] };
  };
  const model = new MockLanguageModelV4({
    doGenerate: say,
    doStream: async (options) => {
      const { content, finishReason } = await say(options);
      const chunks = content.flatMap((part) =>
        part.type === 'text'
          ? [{ type: 'text-start', id: '1' }, { type: 'text-delta', id: '1', delta: part.text }, { type: 'text-end', id: '1' }]
          : [part],
      );
      return {
        stream: simulateReadableStream({
          chunks: [{ type: 'stream-start', warnings: [] }, ...chunks, { type: 'finish', finishReason, usage }],
        }),
      };
    },
  });
  return { model, calls };
}

/** Reads `steps` files and is done; summarises when asked to. */
function reader(steps, otherwise = () => undefined) {
  let step = 0;
  return scripted(async (options, call) => {
    const other = await otherwise(options, call);
    if (other) return other;
    if (summarises(options)) return { text: SUMMARY };
    step += 1;
    return step % (steps + 1) ? { text: `step ${step}`, call: { id: `call-${step}`, path: `file-${step}` } } : { text: 'Done.' };
  });
}

const overflow = () =>
  new APICallError({
    message: 'prompt is too long: 200001 tokens > 200000 maximum',
    url: 'http://localhost',
    requestBodyValues: {},
    statusCode: 400,
    isRetryable: false,
  });

const config = { retainTokens: 2_000, summarizationMaxTokens: 1_000 };
const loop = (compaction, messages) => ({
  model: compaction.model,
  prepareStep: compaction.prepareStep,
  instructions: 'You read files.',
  messages,
  tools,
  stopWhen: isStepCount(100),
});
const question = { role: 'user', content: 'Read every file.' };

/** Every call of a request is answered in it, and every answer was called for. */
function assertPaired({ prompt }) {
  const parts = prompt.flatMap((message) => (Array.isArray(message.content) ? message.content : []));
  const ids = (type) => parts.filter((part) => part.type === type).map((part) => part.toolCallId).toSorted();
  assert.deepEqual(ids('tool-result'), ids('tool-call'));
}

for (const [name, run] of [
  ['generateText', (options) => generateText(options)],
  [
    'streamText',
    async (options) => {
      const result = streamText(options);
      await result.consumeStream();
      return { text: await result.text, responseMessages: await result.responseMessages };
    },
  ],
  [
    'an agent',
    ({ messages, ...settings }) => new ToolLoopAgent(settings).generate({ messages }),
  ],
]) {
  test(`a loop full of tools is compacted in its middle and goes on, in ${name}`, async () => {
    const { model, calls } = reader(30);
    const events = [];
    const compaction = await createCompaction({ model, contextWindow: 16_000, config, onEvent: ({ type }) => events.push(type) });
    const { text } = await run(loop(compaction, [question]));
    assert.equal(text, 'Done.');
    assert.ok(events.includes('landed'));
    assert.ok(!events.includes('failed'));
    const own = calls.filter((call) => !summarises(call));
    assert.equal(own.length, 31);
    for (const call of own) {
      assertPaired(call);
      assert.ok(size(call) < 16_000 * 4);
    }
    // Carried forward by the loop: each compaction was made once.
    assert.equal(calls.length - own.length, events.filter((type) => type === 'landed').length);
    compaction.dispose();
  });

  test(`an overflow is recovered from within the step, in ${name}`, async () => {
    let refused = 0;
    const { model, calls } = reader(12, (options) => {
      if (summarises(options) || size(options) < 20_000) return undefined;
      refused += 1;
      throw overflow();
    });
    const events = [];
    const compaction = await createCompaction({ model, contextWindow: 1_000_000, config, onEvent: ({ type }) => events.push(type) });
    const { text } = await run(loop(compaction, [question]));
    assert.equal(text, 'Done.');
    assert.ok(refused >= 1);
    assert.equal(events.filter((type) => type === 'landed').length, refused);
    assert.equal(calls.filter((call) => !summarises(call)).length, 13 + refused);
    calls.forEach(assertPaired);
    compaction.dispose();
  });
}

test('an overflow that comes in the stream is recovered from', async () => {
  let refused = 0;
  const { model } = reader(6);
  const streamed = model.doStream;
  model.doStream = async (options) => {
    if (summarises(options) || size(options) < 10_000) return streamed(options);
    refused += 1;
    return {
      stream: simulateReadableStream({
        chunks: [{ type: 'stream-start', warnings: [] }, { type: 'error', error: { code: 'context_length_exceeded' } }],
      }),
    };
  };
  const compaction = await createCompaction({ model, contextWindow: 1_000_000, config });
  const result = streamText(loop(compaction, [question]));
  assert.equal(await result.text, 'Done.');
  assert.ok(refused >= 1);
});

test('an overflow that nothing can be done about is told as it came', async () => {
  const { model } = scripted(() => {
    throw overflow();
  });
  const compaction = await createCompaction({ model, contextWindow: 1_000_000, config });
  await assert.rejects(generateText(loop(compaction, [question])), /prompt is too long/);
});

test('a rate limit that speaks of tokens is no overflow', async () => {
  const events = [];
  const { model } = reader(6, (options) => {
    if (size(options) < 10_000) return undefined;
    throw new APICallError({ message: 'too many tokens per minute', url: '', requestBodyValues: {}, statusCode: 429, isRetryable: false });
  });
  const compaction = await createCompaction({ model, contextWindow: 1_000_000, config, onEvent: ({ type }) => events.push(type) });
  await assert.rejects(generateText(loop(compaction, [question])), /too many tokens per minute/);
  assert.deepEqual(events, []);
});

test('the conversation goes on from its owner\'s own array, and is not summarised again', async () => {
  const { model, calls } = reader(8);
  const landed = [];
  const compaction = await createCompaction({
    model,
    contextWindow: 8_000,
    config,
    onEvent: (event) => event.type === 'landed' && landed.push(event),
  });
  const messages = [question];
  for (let turn = 1; turn <= 3; turn += 1) {
    const { responseMessages } = await generateText(loop(compaction, messages));
    messages.push(...responseMessages, { role: 'user', content: `Turn ${turn}: again.` });
    // As if it had come out of a database.
    messages.splice(0, messages.length, ...structuredClone(messages));
  }
  assert.ok(landed.length >= 3);
  assert.equal(calls.filter(summarises).length, landed.length);
  const compacted = compaction.compacted(messages);
  assert.ok(compacted.length < messages.length);
  assert.deepEqual(compacted.at(-1), messages.at(-1));
  assert.match(JSON.stringify(compacted[0]), /compacted-summary/);

  // Another conversation is another one.
  const other = [{ role: 'user', content: 'Something else.' }];
  assert.deepEqual(compaction.compacted(other), other);
});

test('a user can ask for it', async () => {
  const { model } = reader(8);
  const compaction = await createCompaction({ model, contextWindow: 1_000_000, config });
  const messages = [question];
  assert.equal(await compaction.compactNow(messages), null);
  messages.push(...(await generateText(loop(compaction, messages))).responseMessages);
  const result = await compaction.compactNow(messages, { instructions: 'Dwell on file 3.' });
  assert.ok(result.after.totalTokens < result.before.totalTokens);
  messages.push({ role: 'user', content: 'Go on.' });
  assert.ok(compaction.compacted(messages).length < messages.length);
});

test('an abort in the middle of a summary leaves the conversation whole', async () => {
  const controller = new AbortController();
  let asked;
  const waiting = new Promise((resolve) => (asked = resolve));
  let stuck = true;
  const { model } = reader(30, (options) => {
    if (!summarises(options) || !stuck) return undefined;
    asked();
    return new Promise(() => {});
  });
  const told = [];
  const compaction = await createCompaction({ model, contextWindow: 8_000, config, onError: (error) => told.push(error) });
  const messages = [question];
  const run = generateText({
    ...loop(compaction, messages),
    prepareStep: compaction.prepareStepUntil(controller.signal),
    abortSignal: controller.signal,
  });
  await waiting;
  controller.abort(new Error('enough'));
  await assert.rejects(run, /enough/);
  assert.deepEqual(told, []);
  assert.deepEqual(compaction.compacted(messages), messages);
  stuck = false;
  assert.equal((await generateText(loop(compaction, messages))).text, 'Done.');
});

test('a summary that fails does not end the loop, and is told', async () => {
  const { model } = reader(30, (options) => {
    if (summarises(options)) throw new APICallError({ message: 'out of order', url: '', requestBodyValues: {}, statusCode: 401, isRetryable: false });
    return undefined;
  });
  const told = [];
  const compaction = await createCompaction({ model, contextWindow: 16_000, config, onError: (error) => told.push(error) });
  const { text } = await generateText(loop(compaction, [question]));
  assert.equal(text, 'Done.');
  // After three attempts in a row it is not tried before every step.
  assert.ok(told.length >= 1);
  assert.equal(told[0].code, 'model');
  assert.match(told[0].message, /out of order/);
});

test('with the tools, a summary is the loop\'s own request replayed', async () => {
  let replayed;
  const { model, calls } = reader(12, (options) => {
    const last = options.prompt.at(-1);
    const asks = last.role === 'user' && /checkpoint|summar/i.test(JSON.stringify(last.content)) && options.prompt.length > 2;
    if (!asks) return undefined;
    replayed = options;
    return { text: SUMMARY };
  });
  const compaction = await createCompaction({
    model,
    contextWindow: 16_000,
    tools,
    config: { ...config, summarizationInput: 'replay', thresholdRatio: 0.4 },
  });
  await generateText(loop(compaction, [question]));
  assert.ok(replayed);
  const before = calls[calls.indexOf(replayed) - 1];
  assert.deepEqual(replayed.tools, before.tools);
  // Message for message what the loop sent.
  const shared = replayed.prompt.slice(0, -1);
  assert.deepEqual(shared, before.prompt.slice(0, shared.length));
});

test('a model of its own makes the summaries', async () => {
  const { model, calls } = reader(30);
  const small = scripted(() => ({ text: SUMMARY }));
  const compaction = await createCompaction({ model, summarizationModel: small.model, contextWindow: 16_000, config });
  await generateText(loop(compaction, [question]));
  assert.ok(small.calls.length >= 1);
  assert.equal(calls.filter(summarises).length, 0);
});

test('what the provider counts corrects the estimate', async () => {
  const compacts = async (perCharacter) => {
    const { model, calls } = reader(40);
    const said = model.doGenerate;
    model.doGenerate = async (options) => {
      const total = Math.round(size(options) * perCharacter);
      return { ...(await said(options)), usage: { inputTokens: { total, noCache: total }, outputTokens: { total: 10 } } };
    };
    const compaction = await createCompaction({ model, contextWindow: 20_000, config });
    await generateText(loop(compaction, [question]));
    return calls.findIndex(summarises);
  };
  const usual = await compacts(0.25);
  const dear = await compacts(0.5);
  assert.ok(dear > 0 && dear < usual, `${dear} and ${usual}`);
});
