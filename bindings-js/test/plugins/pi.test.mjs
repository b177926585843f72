/** The extension in the published pi coding agent: its agent loop, its loader, its session manager. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { convertToLlm, SessionManager } from '@earendil-works/pi-coding-agent';
import extension, { harnessCompact } from 'harness-compact/pi';

import { fauxAssistantMessage, fauxText, fauxToolCall, mount } from './pi-app.mjs';

const SUMMARY = '## Primary Request and Intent\n- read every file, in order';
/** The loop's requests declare its tool. */
const summarises = (context) => !JSON.stringify(context).includes('"description":"Read a file."');

/** Reads `steps` files and is done; summarises when asked to. */
function reader(steps, otherwise = () => undefined) {
  let step = 0;
  return async (context, request, options) => {
    const other = await otherwise(context, request, options);
    if (other) return other;
    if (summarises(context)) return fauxAssistantMessage(SUMMARY);
    step += 1;
    if (step % (steps + 1) === 0) return fauxAssistantMessage('Done.');
    const call = fauxToolCall('read_file', { path: `file-${step}` }, { id: `call-${step}` });
    return fauxAssistantMessage([fauxText(`step ${step}`), call], { stopReason: 'toolUse' });
  };
}

const overflow = () =>
  fauxAssistantMessage('', { stopReason: 'error', errorMessage: 'prompt is too long: 200001 tokens > 200000 maximum' });

function assertPaired(messages) {
  const calls = messages.flatMap((message) =>
    message.role === 'assistant' ? message.content.filter((block) => block.type === 'toolCall').map((block) => block.id) : [],
  );
  const results = messages.filter((message) => message.role === 'toolResult').map((message) => message.toolCallId);
  assert.deepEqual(results.toSorted(), calls.toSorted());
}

const ends = (app) => app.events.filter((event) => event.type === 'compaction_end');
const compactions = (app) => app.session.sessionManager.getEntries().filter((entry) => entry.type === 'compaction');
const here = fileURLToPath(new URL('../..', import.meta.url));
/** The package alone, as `pi install` puts it: pi's own packages are nowhere beside it. */
const installed = mkdtempSync(join(tmpdir(), 'installed-'));
for (const part of ['package.json', 'dist']) cpSync(join(here, part), join(installed, part), { recursive: true });

for (const [how, loaded] of [
  ['handed over', { extensions: [extension] }],
  ['loaded from its file', { paths: [`${here}dist/pi/index.js`] }],
  ['loaded from the installed package', { paths: [installed] }],
]) {
  test(`a run full of tools is compacted in its middle and goes on: ${how}`, async () => {
    const app = await mount({ ...loaded, answer: reader(30) });
    assert.deepEqual(app.errors, []);
    await app.session.prompt('Read every file.');
    const { sessionManager: manager } = app.session;
    assert.equal(app.session.getLastAssistantText(), 'Done.');
    assert.ok(compactions(app).length >= 1);
    for (const entry of compactions(app)) {
      assert.equal(entry.fromHook, true);
      assert.equal(entry.summary, SUMMARY);
      assert.ok(entry.details.tokensAfter < entry.details.tokensBefore);
      assert.ok(entry.usage.output > 0);
      assert.ok(manager.getEntry(entry.firstKeptEntryId));
    }
    assert.deepEqual(ends(app).map((event) => event.errorMessage), Array(compactions(app).length).fill(undefined));
    for (const request of app.requests.filter((request) => !summarises(request))) assertPaired(request.messages);

    // What is sent is what pi's own session manager reads from its file.
    const { messages } = manager.buildSessionProjection();
    const reopened = SessionManager.open(manager.getSessionFile());
    assert.deepEqual(reopened.buildSessionProjection().messages, JSON.parse(JSON.stringify(messages)));
    assertPaired(convertToLlm(messages));
    app.session.dispose();
  });
}

test('the next summary merges the one before', async () => {
  const app = await mount({ extensions: [extension], answer: reader(60) });
  await app.session.prompt('Read every file.');
  assert.ok(compactions(app).length >= 2);
  const second = app.requests.filter(summarises)[1];
  assert.ok(JSON.stringify(second).includes('compacted-summary'));
  assert.ok(JSON.stringify(second).includes('read every file, in order'));
  app.session.dispose();
});

test('/compact hands on what the user wants, and keeps what pi is set to keep', async () => {
  const app = await mount({ extensions: [extension], contextWindow: 1_000_000, answer: reader(20) });
  await app.session.prompt('Read every file.');
  const before = app.session.sessionManager.buildSessionProjection().messages;
  const result = await app.session.compact('Dwell on file 3.');
  assert.equal(result.summary, SUMMARY);
  assert.ok(JSON.stringify(app.requests.at(-1)).includes('Dwell on file 3.'));
  const after = app.session.sessionManager.buildSessionProjection().messages;
  const kept = after.slice(after.findIndex((message) => message.role === 'compactionSummary') + 1);
  assert.deepEqual(kept, before.slice(-kept.length));
  const characters = JSON.stringify(kept).length;
  assert.ok(characters > 3_000 * 3 && characters < 3_000 * 8, `${characters} characters kept`);
  await app.session.prompt('Go on.');
  app.session.dispose();
});

test('an overflow is recovered from', async () => {
  let refused = 0;
  const app = await mount({
    extensions: [extension],
    contextWindow: 1_000_000,
    answer: reader(12, (context) => {
      if (summarises(context) || JSON.stringify(context.messages).length < 30_000) return undefined;
      refused += 1;
      return overflow();
    }),
  });
  await app.session.prompt('Read every file.');
  assert.equal(refused, 1);
  assert.equal(app.session.getLastAssistantText(), 'Done.');
  assert.deepEqual(ends(app).map(({ reason, aborted }) => [reason, aborted]), [['overflow', false]]);
  assert.equal(compactions(app)[0].fromHook, true);
  app.session.dispose();
});

test('an abort in the middle of a summary leaves the session whole', async () => {
  let asked;
  const waiting = new Promise((resolve) => (asked = resolve));
  let stuck = true;
  const app = await mount({
    extensions: [extension],
    contextWindow: 1_000_000,
    answer: reader(20, (context) => {
      if (!summarises(context) || !stuck) return undefined;
      asked();
      return new Promise(() => {});
    }),
  });
  await app.session.prompt('Read every file.');
  const before = app.session.sessionManager.getEntries().length;
  const compaction = app.session.compact();
  await waiting;
  app.session.abortCompaction();
  await assert.rejects(compaction, /cancelled/i);
  assert.equal(app.session.sessionManager.getEntries().length, before);
  assert.equal(ends(app)[0].aborted, true);
  stuck = false;
  assert.equal((await app.session.compact()).summary, SUMMARY);
  app.session.dispose();
});

test('where no summary comes of it, pi compacts by itself', async () => {
  let asked = 0;
  const app = await mount({
    extensions: [extension],
    contextWindow: 1_000_000,
    answer: reader(20, (context) => {
      if (!summarises(context)) return undefined;
      asked += 1;
      // Ours is asked for, and once more; then pi's own.
      return asked <= 2 ? fauxAssistantMessage(' ') : undefined;
    }),
  });
  await app.session.prompt('Read every file.');
  await app.session.compact();
  assert.ok(asked > 2);
  assert.notEqual(compactions(app)[0].fromHook, true);
  app.session.dispose();
});

test('settings are taken, and one that cannot be used is told', async () => {
  const other = { summarizationProvider: 'scripted', summarizationModel: 'unknown' };
  const app = await mount({ extensions: [harnessCompact(other)], contextWindow: 1_000_000, answer: reader(20) });
  await app.session.prompt('Read every file.');
  // The model is not there: pi's own compaction steps in.
  await app.session.compact();
  assert.notEqual(compactions(app)[0].fromHook, true);
  app.session.dispose();
});

const command = `${process.env.CARGO_TARGET_DIR ?? `${here}../target`}/debug/harness-compact`;

test('the harness-compact command reads pi\'s session file as pi does', { skip: !existsSync(command) && 'it is not built' }, async () => {
  const app = await mount({ extensions: [extension], answer: reader(30) });
  await app.session.prompt('Read every file.');
  const { sessionManager: manager } = app.session;
  const kinds = { compactionSummary: 'checkpoint', user: 'user', assistant: 'assistant', toolResult: 'tool-result' };
  const read = () => {
    const output = execFileSync(command, ['measure', manager.getSessionFile(), '--json'], { encoding: 'utf8' });
    const said = manager.buildSessionProjection().messages.filter((message) => message.role !== 'system');
    assert.deepEqual(JSON.parse(output).surface.map((node) => node.kind), said.map((message) => kinds[message.role]));
    return said.length;
  };
  const whole = read();
  // The session goes back, and on from there: what was left behind is not its any more.
  const answers = manager.getBranch().filter((entry) => entry.type === 'message' && entry.message.role === 'toolResult');
  manager.branch(answers.at(-4).id);
  manager.appendMessage({ role: 'user', content: 'Another way.', timestamp: Date.now() });
  assert.ok(read() < whole);
  app.session.dispose();
});
