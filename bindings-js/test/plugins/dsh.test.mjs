/** The plugin in the agent loop of the published deepseek-harness packages, under all of their own checks. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import Loader from '@deepseek-ai/cordis-plugin-loader';
import BasicCompactionEngine from '@deepseek-ai/dsh-compaction-basic';
import ToolResultPruner from '@deepseek-ai/dsh-compaction-tool-result-pruner';
import { CompactError } from 'harness-compact';
import HarnessCompact from 'harness-compact/dsh';

import { mount, mountCompaction, route, say } from './dsh-app.mjs';

const SUMMARY = '## Primary Request and Intent\n- read every file, in order';
const summarises = (options) => options.purpose === 'compaction';
const reading = (n) => ({ text: `step ${n}`, calls: [{ id: `call-${n}`, name: 'read', arguments: { path: `file-${n}` } }] });

/** A model that reads `steps` files and is done, and summarises when asked to. */
const reader = (steps) => {
  let step = 0;
  return (options) => {
    if (summarises(options)) return { text: SUMMARY };
    step += 1;
    return step % (steps + 1) ? reading(step) : { text: 'Done.' };
  };
};

const overflows = { message: 'the prompt is too long', code: 'CONTEXT_WINDOW_EXCEEDED', status: 400 };

async function start(options, plugin = HarnessCompact, config = {}) {
  const app = await mount(options);
  await mountCompaction(app.ctx, plugin, config);
  const { agent, dispose } = await app.ctx.agents.create({ sessionId: options.sessionId ?? 'session', agentOptions: route });
  return { ...app, agent, dispose };
}

async function turn(agent, text) {
  agent.followup(say(text));
  await agent.whenIdle();
}

const compact = (app, signal = new AbortController().signal, line = '/compact') =>
  app.ctx.commands.execute(app.agent, line, [], signal).then((done) => done.result);

const types = (session) => session.events.map((event) => event.type);
const count = (session, type) => types(session).filter((other) => other === type).length;
const size = (request) => JSON.stringify(request.messages).length;
const ended = (session) => session.events.findLast((event) => event.type === 'turn/end').data.reason.kind;

/** Every call of a request is answered in it, and every answer was called for. */
function assertPaired(messages) {
  const blocks = messages.flatMap((message) => message.content);
  const calls = blocks.filter((block) => block.type === 'tool-call').map((block) => block.id);
  const results = blocks.filter((block) => block.type === 'tool-result').map((block) => block.toolCallId);
  assert.deepEqual(results.toSorted(), calls.toSorted());
}

function compactions(session) {
  return session.events.filter((event) => event.type === 'compaction/end').map((event) => event.data.error);
}

test('a turn full of tools is compacted in its middle and goes on', async () => {
  const app = await start({ answer: reader(30), contextWindow: 16_000 }, HarnessCompact, { maxTokens: 1024 });
  await turn(app.agent, 'Read every file.');
  const { session } = app.agent;
  assert.equal(ended(session), 'completed');
  assert.equal(count(session, 'turn/start'), 1);
  assert.ok(compactions(session).length >= 1);
  assert.deepEqual(compactions(session).filter(Boolean), []);
  assert.deepEqual(app.warnings, []);
  const own = app.adapter.requests.filter((request) => !summarises(request));
  assert.equal(own.length, 31);
  for (const request of own) {
    assertPaired(request.messages);
    assert.ok(size(request) < 16_000 * 4);
  }
  const checkpoint = session.deriveMessages()[0];
  assert.equal(checkpoint.source.plugin, 'compact');
  assert.ok(JSON.stringify(checkpoint).includes('read every file, in order'));
  // One call made the summary: the log says so, and what it answered.
  const made = session.events.find((event) => event.type === 'compaction/summary').data;
  assert.equal(made.llmStreamCall, true);
  assert.deepEqual(made.rawOutput, [{ type: 'text', text: SUMMARY }]);
  assert.equal(made.model, route.model);
  await app.ctx.fiber.dispose();
});

test('the price in the log is that of the harness\'s own meter', async () => {
  const app = await start({ answer: reader(30), contextWindow: 16_000 });
  // What the engine weighs by its script, the meter weighs by its length.
  await turn(app.agent, '请按顺序阅读每一个文件。'.repeat(100));
  const { session } = app.agent;
  const made = session.events.find((event) => event.type === 'compaction/summary').data;
  const price = (seq) => app.ctx.tokenMeter.estimateMessage(session.deriveEventMessage(session.events[seq]));
  assert.equal(made.shadowedTokenCount, made.shadowedSeqs.reduce((sum, seq) => sum + price(seq), 0));
  await app.ctx.fiber.dispose();
});

test('where it fits, a summary is the session\'s own request replayed', async () => {
  const app = await start({ answer: reader(12), contextWindow: 1_000_000 });
  await turn(app.agent, 'Read every file.');
  const last = app.adapter.requests.at(-1);
  assert.equal((await compact(app)).kind, 'success');
  const replayed = app.adapter.requests.at(-1);
  assert.equal(replayed.purpose, 'compaction');
  assert.equal(replayed.system, last.system);
  assert.deepEqual(replayed.tools, last.tools);
  const shared = replayed.messages.slice(0, -1);
  assert.ok(shared.length > 10);
  // To the letter, ids and all: the provider has it in its cache.
  assert.deepEqual(shared, last.messages.slice(0, shared.length));
  await app.ctx.fiber.dispose();
});

test('an overflow is recovered from within the step', async () => {
  let refused = 0;
  const answer = reader(12);
  const app = await start({
    contextWindow: 1_000_000,
    answer: (options) => {
      if (summarises(options) || size(options) < 20_000) return answer(options);
      refused += 1;
      return { failure: overflows };
    },
  });
  await turn(app.agent, 'Read every file.');
  const { session } = app.agent;
  assert.equal(ended(session), 'completed');
  assert.ok(refused >= 1);
  assert.deepEqual(compactions(session), Array(refused).fill(undefined));
  assert.equal(count(session, 'step/start'), 13);
  // Between the compaction's end and the answer no step ended: it was the same one.
  const end = types(session).indexOf('compaction/end');
  const next = session.events.slice(end).find((event) => event.type === 'step/end' || event.type === 'assistant/message');
  assert.equal(next.type, 'assistant/message');
  app.adapter.requests.forEach((request) => assertPaired(request.messages));
  assert.deepEqual(app.warnings, []);
  await app.ctx.fiber.dispose();
});

test('an overflow that stays ends the turn, after the retries that were allowed', async () => {
  // A third request would be the second once more: nothing is left to be compacted.
  for (const [maxOverflowRetries, requests] of [[0, 1], [1, 2], [2, 2]]) {
    const answer = reader(4);
    let full = false;
    const app = await start(
      { contextWindow: 1_000_000, answer: (options) => (summarises(options) ? { text: SUMMARY } : full ? { failure: overflows } : answer(options)) },
      HarnessCompact,
      { maxOverflowRetries },
    );
    await turn(app.agent, 'Read every file.');
    await turn(app.agent, 'And again.');
    full = true;
    const before = app.adapter.requests.filter((request) => !summarises(request)).length;
    await turn(app.agent, 'And now?');
    assert.equal(ended(app.agent.session), 'error');
    const made = app.adapter.requests.filter((request) => !summarises(request)).length - before;
    assert.equal(made, requests);
    await app.ctx.fiber.dispose();
  }
});

test('/compact compacts an idle session, and what it says is stored', async () => {
  const app = await start({ answer: reader(4), contextWindow: 1_000_000 });
  assert.deepEqual(await compact(app), { kind: 'success', text: 'No compactable history yet.' });
  await turn(app.agent, 'Read every file.');
  await turn(app.agent, 'And again.');
  assert.equal((await compact(app, undefined, '/compact now')).kind, 'error');
  const done = await compact(app);
  assert.match(done.text, /^Compacted \d+ history items/);
  const { session } = app.agent;
  const summary = session.events[done.sourceEventSeq];
  assert.equal(summary.type, 'compaction/summary');
  const ran = session.events.findLast((event) => event.type === 'command/run');
  assert.equal(summary.data.sourceCommandId, ran.data.commandId);
  const started = session.events.find((event) => event.type === 'compaction/start');
  assert.equal(started.data.turn, null);
  const [file] = readdirSync(app.root, { recursive: true }).filter((name) => name.endsWith('session.jsonl'));
  assert.ok(readFileSync(join(app.root, file), 'utf8').includes('"compaction/end"'));
  await turn(app.agent, 'Go on.');
  assert.equal(ended(session), 'completed');
  assert.deepEqual(app.warnings, []);
  await app.ctx.fiber.dispose();
});

test('/compact is refused while the agent works, and prompts wait while it compacts', async () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const answer = reader(4);
  let hold;
  const app = await start({
    contextWindow: 1_000_000,
    answer: async (options) => {
      if (hold?.(options)) await held;
      return answer(options);
    },
  });
  await turn(app.agent, 'Read every file.');
  hold = (options) => !summarises(options);
  app.agent.followup(say('And again.'));
  await new Promise((resolve) => setTimeout(resolve, 50));
  const refused = await compact(app);
  assert.equal(refused.kind, 'error');
  assert.match(refused.text, /unavailable/);
  release();
  await app.agent.whenIdle();

  let open;
  const gate = new Promise((resolve) => (open = resolve));
  const original = app.adapter.answer;
  app.adapter.answer = async (options) => {
    if (summarises(options)) await gate;
    return original(options);
  };
  const compaction = compact(app);
  await new Promise((resolve) => setTimeout(resolve, 50));
  app.agent.followup(say('Are you there?'));
  const turns = count(app.agent.session, 'turn/start');
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(count(app.agent.session, 'turn/start'), turns);
  assert.equal((await compact(app)).kind, 'error');
  open();
  assert.equal((await compaction).kind, 'success');
  await app.agent.whenIdle();
  assert.equal(count(app.agent.session, 'turn/start'), turns + 1);
  await app.ctx.fiber.dispose();
});

test('an abort in the middle of a summary leaves the session whole', async () => {
  for (const by of ['the agent', 'the command']) {
    let asked;
    const waiting = new Promise((resolve) => (asked = resolve));
    const answer = reader(by === 'the agent' ? 30 : 6);
    let stuck = true;
    const app = await start({
      contextWindow: by === 'the agent' ? 16_000 : 1_000_000,
      answer: (options) => {
        if (!summarises(options) || !stuck) return answer(options);
        asked();
        // The provider does not answer; the caller's signal is all there is.
        return new Promise(() => {});
      },
    });
    const { agent } = app;
    const reason = new Error('the user pressed a key');
    if (by === 'the agent') {
      agent.followup(say('Read every file.'));
      await waiting;
      agent.cancel({ kind: 'user' });
      await agent.whenIdle();
      assert.equal(ended(agent.session), 'aborted');
    } else {
      await turn(agent, 'Read every file.');
      const controller = new AbortController();
      const compaction = compact(app, controller.signal);
      await waiting;
      controller.abort(reason);
      await assert.rejects(compaction, (error) => error === reason);
      await agent.whenIdle();
    }
    const { session } = agent;
    assert.equal(session.surface.replaceGeneration, 0);
    assert.equal(compactions(session).length, 1);
    assert.ok(compactions(session)[0]);
    assertPaired(session.deriveMessages());
    // And the lock is free.
    stuck = false;
    await turn(agent, 'Go on.');
    assert.equal((await compact(app)).kind, 'success');
    assert.deepEqual(app.warnings, []);
    await app.ctx.fiber.dispose();
  }
});

test('compactNow throws the very reason of the signal', async () => {
  const app = await start({ answer: reader(4), contextWindow: 1_000_000 });
  const reason = new Error('no');
  assert.throws(() => app.ctx.compaction.compactNow(app.agent, AbortSignal.abort(reason)), (error) => error === reason);
  await app.ctx.fiber.dispose();
});

test('a summary that is no use leaves the session as it was', async () => {
  const answer = reader(6);
  const app = await start({ contextWindow: 1_000_000, answer: (options) => (summarises(options) ? { text: ' ' } : answer(options)) });
  await turn(app.agent, 'Read every file.');
  const before = app.agent.session.deriveMessages();
  const failed = await compact(app);
  assert.equal(failed.kind, 'error');
  assert.match(failed.text, /could not produce a useful summary/);
  assert.deepEqual(app.agent.session.deriveMessages(), before);
  await app.ctx.fiber.dispose();
});

test('sessions go from this backend to the harness\'s own and back', async () => {
  const root = mkdtempSync(join(tmpdir(), 'dsh-'));
  const order = [HarnessCompact, BasicCompactionEngine, HarnessCompact];
  let known;
  for (const [at, plugin] of order.entries()) {
    const app = await mount({ answer: reader(6), contextWindow: 1_000_000, root });
    await mountCompaction(app.ctx, plugin, { retainRatio: 0.1 });
    const { agent, dispose } = at
      ? await app.ctx.agents.resume({ resumeSessionId: 'handed-on', agentOptions: route })
      : await app.ctx.agents.create({ sessionId: 'handed-on', agentOptions: route });
    if (known) assert.deepEqual(agent.session.deriveMessages(), known);
    await turn(agent, 'Read every file.');
    const done = await compact({ ...app, agent });
    assert.match(done.text, /^Compacted/);
    await turn(agent, 'Go on.');
    assert.equal(ended(agent.session), 'completed');
    assert.deepEqual(app.warnings, []);
    known = agent.session.deriveMessages();
    await dispose();
    await app.ctx.fiber.dispose();
  }
});

test('a session whose process ended in the middle of a compaction can be compacted again', async () => {
  const root = mkdtempSync(join(tmpdir(), 'dsh-'));
  const first = await mount({ answer: reader(6), contextWindow: 1_000_000, root });
  await mountCompaction(first.ctx, BasicCompactionEngine, {});
  const { agent } = await first.ctx.agents.create({ sessionId: 'killed', agentOptions: route });
  await turn(agent, 'Read every file.');
  agent.session.append('compaction/start', { compactionId: 'lost', turn: null });
  await first.ctx.sessions.flush(agent.session);

  const app = await mount({ answer: reader(6), contextWindow: 1_000_000, root });
  await mountCompaction(app.ctx, HarnessCompact, {});
  const resumed = await app.ctx.agents.resume({ resumeSessionId: 'killed', agentOptions: route });
  assert.equal((await compact({ ...app, agent: resumed.agent })).kind, 'success');
  assert.deepEqual(app.warnings, []);
  await app.ctx.fiber.dispose();
});

test('a composition loads it by its name', async () => {
  const app = await mount({ answer: reader(30), contextWindow: 16_000 });
  await app.ctx.plugin(Loader, { baseUrl: import.meta.url });
  // As `harness-compact/dsh` where the package is installed beside the harness.
  await app.ctx.loader.create({ name: import.meta.resolve('harness-compact/dsh'), config: { maxTokens: 1024 } });
  await app.ctx.loader.await();
  assert.ok(app.ctx.get('compaction') instanceof HarnessCompact);
  const { agent } = await app.ctx.agents.create({ sessionId: 'composed', agentOptions: route });
  await turn(agent, 'Read every file.');
  assert.ok(compactions(agent.session).length >= 1);
  await app.ctx.fiber.dispose();
});

test('a range is compacted within a turn, one at a time', async () => {
  let inside;
  let failure;
  const answer = reader(8);
  const app = await start({
    contextWindow: 1_000_000,
    answer: async (options, request) => {
      if (request === 8) failure = await inside().then(() => undefined, (error) => error);
      return answer(options);
    },
  });
  const { agent } = app;
  const { compaction } = app.ctx;
  let outcome;
  inside = async () => {
    const nodes = [...agent.session.surface.nodes];
    const first = compaction.compactRegion(nodes[1], nodes[6], agent);
    while (count(agent.session, 'compaction/start') === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await assert.rejects(compaction.compactRegion(nodes[7], nodes[8], agent), { name: 'ManualCompactionError', code: 'busy' });
    outcome = await first;
    assert.deepEqual(outcome.shadowedSeqs, nodes.slice(1, 7));
    await assert.rejects(compaction.compactRegion(nodes[1], nodes[6], agent), { code: 'not-on-surface' });
    await assert.rejects(compaction.compactRegion(nodes[7], nodes[7], agent), { code: 'unbalanced' });
  };
  await turn(agent, 'Read every file.');
  if (failure) throw failure;
  assert.equal(ended(agent.session), 'completed');
  const end = agent.session.events[outcome.endSeq];
  assert.equal(end.type, 'compaction/end');
  assert.equal(end.data.compactionId, outcome.compactionId);
  assertPaired(agent.session.deriveMessages());
  await assert.rejects(compaction.compactRegion(0, 1, agent), /within a turn/);
  await app.ctx.fiber.dispose();
});

test('a compaction that cannot be stored is told so', async () => {
  const app = await start({ answer: reader(4), contextWindow: 1_000_000 });
  await turn(app.agent, 'Read every file.');
  app.ctx.on('session/flush', () => {
    throw new Error('the disk is full');
  });
  assert.deepEqual(await compact(app), { kind: 'error', text: 'Compaction finished, but the session could not be saved.' });
  assert.ok(app.agent.session.surface.replaceGeneration > 0);
  await app.ctx.fiber.dispose();
});

test('auto: false leaves the loop alone', async () => {
  const app = await start({ answer: reader(30), contextWindow: 16_000 }, HarnessCompact, { auto: false });
  await turn(app.agent, 'Read every file.');
  assert.deepEqual(compactions(app.agent.session), []);
  assert.equal((await compact(app)).kind, 'success');
  await app.ctx.fiber.dispose();
});

test('the harness\'s own pruner comes first, where it is mounted', async () => {
  const app = await mount({ answer: reader(10), contextWindow: 16_000 });
  await app.ctx.plugin(ToolResultPruner, { thresholdChars: 600, headChars: 100, tailChars: 100 });
  await mountCompaction(app.ctx, HarnessCompact, { thresholdRatio: 0.3 });
  const { agent } = await app.ctx.agents.create({ sessionId: 'pruned', agentOptions: route });
  await turn(agent, 'Read every file.');
  assert.ok(count(agent.session, 'compaction/prune') > 0);
  assert.deepEqual(compactions(agent.session), []);
  assert.deepEqual(app.warnings, []);
  await app.ctx.fiber.dispose();
});

test('our own pruning is accepted by the harness', async () => {
  const app = await start({ answer: reader(10), contextWindow: 16_000 }, HarnessCompact, {
    thresholdRatio: 0.3,
    prune: { thresholdChars: 600, headChars: 100, tailChars: 100 },
  });
  await turn(app.agent, 'Read every file.');
  assert.ok(count(app.agent.session, 'compaction/prune') > 0);
  assert.deepEqual(app.warnings, []);
  await app.ctx.fiber.dispose();
});

test('a window that nobody knows is said once, and fills up', async () => {
  const app = await start({ answer: reader(20), contextWindow: 0 });
  await turn(app.agent, 'Read every file.');
  assert.equal(app.warnings.length, 1);
  assert.match(app.warnings[0], /window of scripted\/scripted-1 is not known/);
  assert.equal(ended(app.agent.session), 'completed');
  await app.ctx.fiber.dispose();

  const told = await start({ answer: reader(30), contextWindow: 0 }, HarnessCompact, { contextWindow: 16_000 });
  await turn(told.agent, 'Read every file.');
  assert.ok(compactions(told.agent.session).length >= 1);
  await told.ctx.fiber.dispose();
});

test('a policy is for its model alone', async () => {
  const policy = { ...route, thresholdRatio: 0.2, retainTokens: 500 };
  const other = { ...policy, model: 'another' };
  for (const [modelPolicies, compacts] of [[[policy], true], [[other], false]]) {
    const app = await start({ answer: reader(10), contextWindow: 32_000 }, HarnessCompact, { modelPolicies });
    await turn(app.agent, 'Read every file.');
    assert.equal(compactions(app.agent.session).length > 0, compacts);
    await app.ctx.fiber.dispose();
  }
});

test('a setting that cannot be used fails the plugin, by its name', async () => {
  const cases = [
    [{ thresholdRation: 0.5 }, 'thresholdRation'],
    [{ summarizationMaxTokens: 5 }, 'summarizationMaxTokens'],
    [{ thresholdRatio: 2 }, 'threshold'],
    [{ retainRatio: 0.9 }, 'retainRatio'],
    [{ retainRatio: 0.1, retainTokens: 5 }, 'retain'],
    [{ maxTokens: 0 }, 'summarization-max-tokens'],
    [{ maxOverflowRetries: -1 }, 'maxOverflowRetries'],
    [{ auto: 'yes' }, 'auto'],
    [{ summarizationModel: 'small' }, 'summarizationModel'],
    [{ modelPolicies: {} }, 'modelPolicies'],
    [{ modelPolicies: [{ provider: 'p' }] }, 'modelPolicies[0].model'],
    [{ modelPolicies: [{ ...route }, { ...route }] }, 'modelPolicies[1]'],
    [{ modelPolicies: [{ ...route, retainRatio: 0.85 }] }, 'modelPolicies[0].retainRatio'],
  ];
  for (const [config, key] of cases) {
    const app = await mount({ answer: reader(1) });
    await assert.rejects(
      async () => app.ctx.plugin(HarnessCompact, config),
      (error) => CompactError.isInstance(error) && error.code === 'config' && error.message.includes(key),
      JSON.stringify(config),
    );
    await app.ctx.fiber.dispose();
  }
});
