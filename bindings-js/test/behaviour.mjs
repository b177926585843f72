// What the package does, on whichever runtime runs this. `heap` measures the memory
// in use where it can be measured.
export async function run({ package: harness, assert, runtime, heap }) {
const { Compactor, CompactError, createCompactor, fromMessages, MemoryLog, ModelError, toMessages } = harness;
const tests = [];
const test = (name, body) => tests.push([name, body]);

const user = (text) => ({ tag: 'user-message', val: { content: [{ tag: 'text', val: text }], source: 'user', pinned: false } });
const assistant = (text) => ({ tag: 'assistant-message', val: { content: [{ tag: 'text', val: text }] } });

function session(id = 's', turns = 12) {
  const log = new MemoryLog(id);
  for (let turn = 1; turn <= turns; turn++) {
    log.note({ tag: 'turn-start', val: turn });
    log.push(user('please '.repeat(40)));
    log.push(assistant('done '.repeat(80)));
    log.note({ tag: 'turn-end', val: turn });
  }
  return log;
}

const finish = { type: 'finish', reason: 'stop' };
const window = { describeModel: () => ({ contextWindow: 1_000_000 }) };
const says = (text) => ({
  ...window,
  async *stream() {
    yield { type: 'text', text };
    yield finish;
  },
});
const make = (options = {}) => createCompactor({ runtime, model: says('short'), ...options });

/** The surface, folded here. */
function surface(log) {
  const nodes = [];
  for (const { seq, surface: op } of log.events) {
    if (op?.tag === 'append') nodes.push(seq);
    if (op?.tag === 'replace') {
      const first = nodes.indexOf(op.val.start);
      nodes.splice(first, nodes.indexOf(op.val.end) - first + 1, seq);
    }
  }
  return nodes;
}

async function fails(promise, code) {
  const error = await promise.then(() => assert.fail('it did not fail'), (error) => error);
  assert.ok(CompactError.isInstance(error), String(error?.stack ?? error));
  assert.equal(error.code, code, error.message);
  return error;
}

test('compacts, and tells how it goes on', async () => {
  const log = session();
  const events = [];
  const compactor = await make({ onEvent: (event) => events.push(event) });
  assert.equal(compactor.runtime, runtime);
  const agent = { session: log, contextWindow: 2600 };
  const before = await compactor.measure(agent);
  assert.equal(before.nodes, 24);
  const result = await compactor.compactIfNeeded(agent, '');
  assert.deepEqual(result.before, before);
  assert.deepEqual(result.summary, [{ tag: 'text', val: 'short' }]);
  assert.equal(surface(log)[0], result.summarySeq + 1);
  assert.deepEqual(await compactor.measure(agent), result.after);
  assert.equal(await compactor.compactIfNeeded(agent, ''), null);
  assert.deepEqual(events.map((event) => event.type), ['started', 'summarising', 'summarising', 'landed']);
  assert.equal(events[2].characters, 5);
  assert.equal((await compactor.compactNow(agent)).after.nodes, 2);
  assert.equal(await compactor.compactNow(agent), null);
  compactor.dispose();
  await fails(compactor.measure(agent), 'disposed');
});

test('names what is wrong with settings and arguments', async () => {
  const wrong = async (config, told) => assert.match((await fails(make({ config }), 'config')).message, told);
  await wrong({ retainRatio: 0.9 }, /policy\.retain-ratio/);
  await wrong({ retainToken: 1 }, /retainToken: there is no such setting/);
  await wrong({ retainTokens: -1 }, /retainTokens/);
  await wrong({ retainTokens: '5' }, /retainTokens/);
  await wrong({ usageAnchor: 'on' }, /usageAnchor/);
  await wrong({ modelPolicies: [{ provider: 'p', model: 'm', nope: 1 }] }, /modelPolicies\[0\]\.nope/);
  const compactor = await make();
  const log = session();
  await fails(compactor.compactRegion(log, 0, 999), 'not-on-surface');
  await fails(compactor.compactRegion(log, -1, 2), 'host');
  await fails(compactor.compactIfNeeded({ session: log }, '', [{ role: 'system', content: [] }]), 'host');
  compactor.dispose();
});

test('a model that fails before, in and after its stream leaves the session', async () => {
  const boom = new Error('boom');
  const models = [
    () => { throw boom; },
    async () => { throw boom; },
    async () => ({}),
    async function* () { yield { type: 'text', text: 'half' }; throw boom; },
    async function* () { yield { type: 'text', text: 'half' }; yield finish; throw boom; },
    async function* () { yield { type: 'text', text: 'half' }; },
    async function* () { yield { type: 'text', text: 5 }; yield finish; },
    async function* () { yield { type: 'nonsense' }; yield finish; },
    async function* () { throw new ModelError({ tag: 'rate-limited', val: 7000 }); },
  ];
  for (const [index, stream] of models.entries()) {
    const log = session();
    const before = surface(log);
    const compactor = await make({ model: { ...window, stream } });
    const error = await fails(compactor.compactNow({ session: log }), 'model');
    if ([0, 1, 3, 4].includes(index)) assert.equal(error.cause, boom, String(index));
    if (index === 6) assert.match(error.message, /model\.stream .*val is 5, expected a text/);
    if (index === 8) assert.deepEqual([error.failure.val, error.retryable], [{ tag: 'rate-limited', val: 7000 }, true]);
    assert.deepEqual(surface(log), before);
    assert.deepEqual(log.events.slice(-2).map((event) => event.payload.tag), ['compact-start', 'compact-end']);
    // And the same compactor goes on.
    assert.equal((await compactor.measure({ session: log })).nodes, 24);
    compactor.dispose();
  }
});

test('a log that throws, conflicts or answers nonsense leaves the session', async () => {
  const faults = {
    head: [() => { throw new Error('gone'); }, () => 'x', () => -1, () => 1e12, async () => undefined],
    read: [() => { throw new Error('gone'); }, () => null, () => [], () => [{ seq: 0 }], () => [{ seq: 0, payload: { tag: 'nope' }, sources: [] }]],
    append: [() => { throw new Error('full'); }, () => 'x', () => undefined],
    flush: [() => { throw new Error('disk'); }],
  };
  for (const [name, answers] of Object.entries(faults)) {
    for (const answer of answers) {
      const log = session();
      const broken = { id: 's', head: () => log.head(), read: (...a) => log.read(...a), append: (...a) => log.append(...a), [name]: answer };
      const compactor = await make();
      const error = await fails(compactor.compactNow({ session: broken }), 'session');
      assert.ok(name === 'flush' || surface(log).length === 24, name);
      assert.ok(error.cause || error.failure.val.tag === 'corrupt', name);
      compactor.dispose();
    }
  }
  // A field that is wrong is named.
  const log = session();
  const compactor = await make();
  const events = log.events.map((event) => structuredClone(event));
  events[1].payload.val.content[0].val = 7;
  const error = await fails(compactor.measure({ session: { ...log, id: 's', head: () => 48, read: (s, l) => events.slice(s, s + l) } }), 'session');
  assert.match(error.message, /session\.read .*\[1\]\.payload\.val\.content\[0\]\.val is 7, expected a text/);
  // Somebody else writes between every two calls: tried again until it lands.
  let busy = 0;
  const contended = { id: 'c', head: () => log.head(), read: (...a) => log.read(...a), append(drafts, expected) {
    if (busy++ < 3) log.note({ tag: 'other', val: 'noise' });
    return log.append(drafts, expected);
  } };
  assert.ok(await compactor.compactNow({ session: contended }));
  compactor.dispose();
});

test('an abort at any await leaves the session', async () => {
  const points = ['head', 'read', 'append', 'describe', 'stream', 'chunk'];
  for (const point of points) {
    const log = session();
    const before = surface(log);
    const abort = new AbortController();
    const at = (here, value) => {
      if (here === point) abort.abort(new Error('enough'));
      return value;
    };
    const slow = {
      id: 's',
      head: async () => at('head', log.head()),
      read: async (...a) => at('read', log.read(...a)),
      append: async (...a) => at('append', log.append(...a)),
    };
    const model = {
      describeModel: async () => at('describe', { contextWindow: 1_000_000 }),
      stream: async () => at('stream', (async function* () {
        yield { type: 'text', text: 'a' };
        at('chunk');
        await new Promise(() => {});
      })()),
    };
    const compactor = await make({ model });
    await fails(compactor.compactNow({ session: slow, options: { provider: 'p', model: 'm' } }, { signal: abort.signal }), 'aborted');
    assert.deepEqual(surface(log), before, point);
    const open = log.events.filter((event) => event.payload.tag === 'compact-start').length;
    assert.equal(log.events.filter((event) => event.payload.tag === 'compact-end').length, open, point);
    compactor.dispose();
  }
});

test('fifty sessions at once, in a bounded number of instances', async () => {
  let under = 0;
  let most = 0;
  const model = {
    ...window,
    async *stream() {
      most = Math.max(most, ++under);
      await new Promise((later) => setTimeout(later, 2));
      under--;
      yield { type: 'text', text: 'short' };
      yield finish;
    },
  };
  const compactor = await make({ model, maxInstances: 6 });
  const logs = Array.from({ length: 50 }, (_, index) => session(`session-${index}`));
  const results = await Promise.all(logs.map((log) => compactor.compactNow({ session: log })));
  assert.ok(results.every((result) => result.after.nodes === 2));
  assert.ok(most > 1 && most <= 6, String(most));
  // Calls on one session come one after the other.
  const log = session('one');
  const outcomes = await Promise.all([1, 2, 3].map(() => compactor.compactNow({ session: log })));
  assert.deepEqual(outcomes.map((outcome) => outcome !== null), [true, false, false]);
  compactor.dispose();
});

test('hooks take over, and their nonsense changes nothing', async () => {
  const log = session();
  const compactor = await make({ hooks: { estimateContentTokens: (groups) => groups.map(() => 300), summarize: (transcript) => `of ${transcript.length}` } });
  const result = await compactor.compactNow({ session: log });
  assert.equal(result.before.surfaceTokens, 24 * 304);
  assert.match(result.summary[0].val, /^of \d+$/);
  compactor.dispose();
  for (const estimateContentTokens of [() => [1], () => 'x', () => { throw new Error('no'); }, (groups) => groups.map(() => 4e9)]) {
    const log = session();
    const compactor = await make({ hooks: { estimateContentTokens } });
    await fails(compactor.compactNow({ session: log }), 'hook');
    assert.equal(log.events.length, 48);
    compactor.dispose();
  }
});

test('a replay is made of the session’s own messages', async () => {
  const messages = [{ role: 'user', content: 'please '.repeat(400) }, { role: 'assistant', content: 'yes', x: 1 }, { role: 'user', content: 'more' }];
  const log = fromMessages(messages, 'openai');
  let asked;
  const model = { ...window, async *stream(request) { asked = request; yield { type: 'text', text: 'short' }; yield finish; } };
  const compactor = await make({ model });
  await compactor.compactNow({ session: log, contextWindow: 100_000 });
  assert.equal(asked.replay, true);
  assert.equal(asked.messages[0], messages[0]);
  assert.equal(asked.messages[1], messages[1]);
  assert.match(asked.messages[2].content, /## Primary Request and Intent/);
  compactor.dispose();
});

const conversations = {
  openai: [
    { role: 'system', content: 'You are an agent.' },
    { role: 'user', content: [{ type: 'text', text: 'go '.repeat(200) }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
    { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'read', arguments: '{"p":1}' } }, { id: 'b', type: 'function', function: { name: 'read', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'b', content: 'two '.repeat(100) },
    { role: 'tool', tool_call_id: 'a', content: 'one' },
    { role: 'assistant', content: 'Done.', annotations: [] },
    { role: 'user', content: 'And now?' },
  ],
  anthropic: [
    { role: 'user', content: 'go '.repeat(300) },
    { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm', signature: 'EqQB' }, { type: 'tool_use', id: 'a', name: 'read', input: { p: 1 } }, { type: 'tool_use', id: 'b', name: 'read', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'one' }] }, { type: 'tool_result', tool_use_id: 'b', content: 'two '.repeat(100), cache_control: { type: 'ephemeral' } }] },
    { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
    { role: 'user', content: [{ type: 'text', text: 'And now?', cache_control: { type: 'ephemeral' } }] },
  ],
  'ai-sdk': [
    { role: 'system', content: 'You are an agent.', providerOptions: {} },
    { role: 'user', content: [{ type: 'text', text: 'go '.repeat(300) }, { type: 'file', mediaType: 'image/png', data: new Uint8Array(12) }] },
    { role: 'assistant', content: [{ type: 'reasoning', text: 'hm' }, { type: 'tool-call', toolCallId: 'a', toolName: 'read', input: { p: 1 } }] },
    { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'read', output: { type: 'text', value: 'one '.repeat(100) } }] },
    { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
    { role: 'user', content: 'And now?' },
  ],
};

for (const [format, messages] of Object.entries(conversations)) {
  test(`${format} messages come back as the same objects`, async () => {
    const log = fromMessages(messages, format);
    assert.ok(toMessages(log).every((message, index) => message === messages[index]));
    const compactor = await make();
    const nodes = await compactor.surface(log);
    assert.ok(nodes.every((node) => !node.openCalls.length && !node.deadCalls.length && !node.orphanedResults.length));
    assert.ok(nodes.some((node) => !node.balancedBefore));
    const result = await compactor.compactNow({ session: log });
    const after = toMessages(log);
    const system = messages.filter((message) => message.role === 'system');
    assert.equal(result.shadowedSeqs.length, nodes.length - 1);
    assert.equal(after.at(-1), messages.at(-1));
    assert.equal(after.length, system.length + 2);
    for (const message of system) assert.ok(after.includes(message));
    const checkpoint = after.find((message) => JSON.stringify(message).includes('<compacted-summary>'));
    assert.equal(checkpoint.role, 'user');
    const next = { role: 'assistant', content: format === 'openai' ? 'Well.' : [{ type: 'text', text: 'Well.' }] };
    log.push(next);
    assert.equal(toMessages(log).at(-1), next);
    compactor.dispose();
  });

  test(`${format}: an oversized result is rewritten, the rest of it kept`, async () => {
    const long = 'row '.repeat(4000);
    const call = { openai: [{ role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'r', arguments: '{}' } }] }, { role: 'tool', tool_call_id: 'a', content: long, name: 'kept' }],
      anthropic: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'r', input: {} }] }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'image', source: { media_type: 'image/png', data: 'AAAA' } }, { type: 'text', text: long }], name: 'kept' }] }],
      'ai-sdk': [{ role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'r', input: {} }] }, { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'r', output: { type: 'text', value: long }, name: 'kept' }] }] }[format];
    const log = fromMessages(call, format);
    const compactor = await make();
    const [pruned] = await compactor.prune(log);
    assert.equal(pruned.callId, 'a');
    const [, after] = toMessages(log);
    const text = JSON.stringify(after);
    assert.ok(text.length < 6000 && text.includes('kept') && text.includes('pruned'));
    if (format === 'anthropic') assert.equal(after.content[0].content[0], call[1].content[0].content[0]);
    compactor.dispose();
  });
}

test('an instance that breaks off is replaced', async () => {
  const log = session();
  let made = 0;
  const measured = { totalTokens: 1, surfaceTokens: 1, thresholdTokens: 1, retainTokens: 1, contextWindow: 1, nodes: 24 };
  const backend = {
    kind: runtime,
    async instantiate() {
      const broken = ++made === 1;
      const measure = async () => {
        if (broken) throw new WebAssembly.RuntimeError('unreachable');
        return { tag: 'ok', val: measured };
      };
      return { tag: 'ok', val: { measure, forget() {}, dispose() {} } };
    },
  };
  const compactor = new Compactor(backend, { model: says('short') });
  const error = await fails(compactor.measure({ session: log }), 'trap');
  assert.ok(error.cause instanceof WebAssembly.RuntimeError && error.retryable);
  assert.deepEqual(await compactor.measure({ session: log }), measured);
  assert.equal(made, 2);
});

test('small deltas cross in batches', async () => {
  const log = session();
  const events = [];
  const model = { ...window, async *stream() { for (let i = 0; i < 3000; i++) yield { type: 'text', text: 'x' }; yield finish; } };
  const compactor = await make({ model, onEvent: (event) => events.push(event) });
  const result = await compactor.compactRegion(log, 1, 46, {});
  assert.equal(result.summary[0].val.length, 3000);
  assert.equal(events.at(-2).characters, 3000);
  compactor.dispose();
});

test('two thousand compactions do not fill the memory', async () => {
  if (!heap) return;
  const compactor = await make();
  let settled;
  for (let round = 0; round < 2000; round++) {
    const log = session(`m-${round % 40}-${round}`, 4);
    assert.ok(await compactor.compactNow({ session: log }));
    if (round === 199) settled = heap();
  }
  const grown = (heap() - settled) / 1e6;
  assert.ok(grown < 20, `${grown.toFixed(1)} MB`);
  compactor.dispose();
});

const failures = [];
for (const [name, body] of tests) {
  try {
    await body();
  } catch (error) {
    failures.push(`not ok: ${name}\n${error?.stack ?? error}`);
  }
}
return { passed: tests.length - failures.length, failures };
}
