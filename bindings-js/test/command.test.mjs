// The two commands, the Rust host's and this package's, on the same files: the same words,
// the same status, the same bytes (ids and times aside).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '../..');
const target = process.env.CARGO_TARGET_DIR ?? join(root, 'target');
const rust = process.env.HARNESS_COMPACT ?? join(target, 'debug/harness-compact');
const npm = join(here, '../dist/command/index.js');
const made = join(root, 'tests/data/sessions');
const folder = mkdtempSync(join(tmpdir(), 'commands-'));
after(() => rmSync(folder, { recursive: true, force: true }));
assert.ok(existsSync(rust), `${rust} is not built: cargo build --package harness-compact-host`);

const commands = {
  rust: (args, options) => spawnSync(rust, args, options),
  npm: (args, options) => spawnSync(process.execPath, [npm, ...args], options),
};

/** What is new with every run. */
const settled = (text) =>
  text
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'UUID')
    .replace(/20\d\d-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/("id":"|firstKeptEntryId":")[0-9a-f]{8}"/g, '$1ID"')
    .replace(/((?:msg|prt)_[0-9a-f]{12})[0-9A-Za-z]{14}/g, '$1RANDOM')
    .replace(/"(created|completed|time)":\d{13}/g, '"$1":MS');

/** Run a command of each kind on a file of these bytes; answers what both did. */
function both(name, bytes, ...args) {
  const [first, second] = Object.keys(commands).map((kind) => {
    const cwd = join(folder, kind);
    rmSync(cwd, { recursive: true, force: true });
    mkdirSync(cwd);
    if (bytes !== undefined) writeFileSync(join(cwd, name), bytes);
    const env = { ...process.env, HOME: join(folder, 'home'), XDG_CACHE_HOME: join(folder, 'cache') };
    const { status, stdout, stderr } = commands[kind](args, { cwd, env, encoding: 'utf8', maxBuffer: 1e9 });
    const files = readdirSync(cwd).sort().map((file) => [file, settled(readFileSync(join(cwd, file), 'latin1'))]);
    return { status, stdout: settled(stdout), stderr, files };
  });
  assert.deepEqual(second, first, `${name}: ${args.join(' ')}`);
  return first;
}

const names = readdirSync(made).sort();
const text = (name) => readFileSync(join(made, name), 'utf8');
const sample = readFileSync(join(root, 'tests/data/sample-session.jsonl'), 'utf8').split('\n').slice(0, 120).join('\n') + '\n';
const documents = [...names.map((name) => [name, text(name)]), ['log.jsonl', sample]];

for (const [name, document] of documents) {
  test(`${name}: measured, compacted in place and beside, taken back`, () => {
    assert.equal(both(name, document, 'measure', name).status, 0);
    assert.equal(both(name, document, 'measure', '--json', name, '--context-window', '30000').status, 0);
    const inPlace = both(name, document, 'compact', name, '--in-place', '--retain-tokens', '3000');
    assert.equal(inPlace.status, 0, inPlace.stderr);
    assert.equal(both(name, document, 'compact', name, '--json', '--retain-tokens', '3000').status, 0);
    assert.equal(both(name, document, 'compact', name, '-o', 'out', '--retain-tokens', '3000', '--context-window', '20000').status, 0);
    assert.equal(both(name, document, 'compact', name, '--if-needed', '--context-window', '500000').status, 3);
    assert.equal(both(name, document, 'undo', name).status, 1);
    // What the one wrote the other takes back.
    for (const [writer, other] of [['rust', 'npm'], ['npm', 'rust']]) {
      const path = join(folder, name);
      writeFileSync(path, document);
      assert.equal(commands[writer](['compact', path, '--in-place', '--retain-tokens', '3000']).status, 0);
      const undone = commands[other](['undo', path], { encoding: 'utf8' });
      assert.equal(undone.status, 0, undone.stderr);
      assert.equal(readFileSync(path, 'utf8'), document);
    }
  });
}

const insert = (document, at, line) => {
  const lines = document.split('\n');
  lines.splice(at, 0, line);
  return lines.join('\n');
};
const nul = '\0'.repeat(300);
const deep = `${'['.repeat(10_000)}${']'.repeat(10_000)}`;
const damages = {
  'a byte-order mark': (document) => `\ufeff${document}`,
  CRLF: (document) => document.replaceAll('\n', '\r\n'),
  'NUL bytes alone': (document) => insert(document, 2, nul),
  'NUL bytes glued to a line': (document) => document.replace('\n', `${nul}\n`),
  'a torn last line': (document) => `${document}{"type":"user","mess`,
  'two lines glued together': (document) => document.split('\n').map((line, at) => (at === 3 ? line : `${line}\n`)).join('').slice(0, -1),
  'half a line': (document) => insert(document, 3, document.split('\n')[2].slice(0, 40)),
  'no JSON': (document) => insert(document, 3, 'not json'),
  'no object': (document) => insert(document, 3, '[1,2]'),
  'another program’s line': (document) => insert(document, 4, '{"timestamp":"t","type":"session_meta","payload":{"id":"x"}}'),
  'a line of gemini’s': (document) => insert(document, 4, '{"sessionId":"x","projectHash":"y"}'),
  'an unknown record': (document) => insert(document, 2, '{"type":"of-tomorrow","value":[]}'),
  'deep nesting': (document) => insert(document, 2, `{"type":"of-tomorrow","value":${deep}}`),
  'lone surrogates': (document) => document.replaceAll('TURN-1', 'TURN\\ud83d'),
  'a line separator': (document) => document.replaceAll('TURN-1', 'TURN\u2028'),
  'every line twice': (document) => document.split('\n').flatMap((line) => (line ? [line, line] : [])).join('\n') + '\n',
  'the end missing': (document) => document.slice(0, document.length * 0.6),
};

for (const [what, damage] of Object.entries(damages)) {
  test(`damaged files: ${what}`, () => {
    for (const [name, document] of documents) {
      const bytes = damage(document);
      const { status } = both(name, bytes, 'compact', name, '--in-place', '--json', '--retain-tokens', '3000');
      if (status === 1) both(name, bytes, 'compact', name, '--in-place', '--skip-damaged', '--retain-tokens', '3000');
    }
  });
}

test('files that are none, and wrong usage', () => {
  for (const [bytes, why] of [
    ['', 'empty: no session'],
    [' \n\0\0\n', 'empty: no session'],
    ['hello\n', 'its first line is `hello`'],
    ['{"a":1}\n', 'not a session file of a known form (log, pi, claude-code, codex, opencode, gemini'],
    [Buffer.from([0xff, 0xfe, 0x00]), 'not a session file'],
    [undefined, 'there is no such file'],
  ]) {
    const done = both('x.jsonl', bytes, 'measure', 'x.jsonl');
    assert.equal(done.status, 1);
    assert.ok(done.stderr.includes(why), done.stderr);
  }
  assert.equal(both('x', '', 'measure', '.').status, 1);
  for (const args of [[], ['--help'], ['--version'], ['compact', '--help'], ['measure', '-h'], ['sessions', '--help'], ['undo', '--help'], ['nonsense'],
    ['compact'], ['compact', 'x', '--in-place', '-o', 'y'], ['compact', 'x', '--model', 'y'], ['compact', 'x', '--region', '1'], ['compact', 'x', '--format', 'y'], ['compact', 'x', '--nonsense']]) {
    both('x', '[]', ...args);
  }
  assert.equal(both('codex.jsonl', text('codex.jsonl'), 'compact', 'codex.jsonl', '-o', './codex.jsonl').status, 2);
  assert.equal(both('pi.jsonl', text('pi.jsonl'), 'compact', 'pi.jsonl', '--region', '6..9').status, 1);
});

test('sessions in their usual places', () => {
  const home = join(folder, 'home');
  for (const [name, place] of [
    ['claude-code.jsonl', '.claude/projects/-home-user-project/a.jsonl'],
    ['codex.jsonl', '.codex/sessions/2026/12/06/rollout-2026-12-06-a.jsonl'],
    ['pi.jsonl', '.pi/agent/sessions/--home-user-project--/a.jsonl'],
    ['gemini.jsonl', '.gemini/tmp/proj/chats/session-a.jsonl'],
  ]) {
    const path = join(home, place);
    mkdirSync(join(path, '..'), { recursive: true });
    copyFileSync(join(made, name), path);
    utimesSync(path, 1_790_000_000, 1_790_000_000 + name.length);
  }
  try {
    assert.equal(JSON.parse(both('x', undefined, 'sessions', '--json').stdout).length, 4);
    assert.equal(both('x', undefined, 'sessions').status, 0);
    assert.equal(both('x', undefined, 'sessions', '--program', 'codex', '--limit', '1').status, 0);
    assert.equal(both('x', undefined, 'measure', '--latest', 'codex').status, 0);
    assert.equal(both('x', undefined, 'measure', '--latest', 'pi').status, 1);
  } finally {
    rmSync(home, { recursive: true });
  }
  assert.equal(both('x', undefined, 'sessions').status, 3);
});

test('a file that is written to while a model summarises keeps what came', async () => {
  // A model server that takes its time; the commands are run one after the other.
  const name = 'codex.jsonl';
  const path = join(folder, name);
  const line = '{"timestamp":"t","ordinal":74,"type":"event_msg","payload":{"type":"noise"}}\n';
  let answers = 0;
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      answers += 1;
      writeFileSync(path, readFileSync(path, 'utf8') + line);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ id: 'a', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
      send({ role: 'assistant', content: '## Primary Request and Intent\nKeep what came.' });
      send({}, 'stop');
      response.end('data: [DONE]\n\n');
    });
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address();
  const { spawn } = await import('node:child_process');
  const run = (command, args) =>
    new Promise((ended) => {
      const child = spawn(command, args, { env: { ...process.env, OPENAI_API_KEY: 'k' } });
      let told = '';
      child.stdout.on('data', (data) => (told += data));
      child.stderr.on('data', (data) => (told += data));
      child.on('close', (status) => ended({ status, told }));
    });
  const args = ['compact', path, '--in-place', '--retain-tokens', '3000', '--model', 'openai/m', '--base-url', `http://127.0.0.1:${port}/v1`];
  try {
    for (const [command, before] of [[rust, []], [process.execPath, [npm]]]) {
      writeFileSync(path, text(name));
      const { status, told } = await run(command, [...before, ...args]);
      assert.equal(status, 0, told);
      assert.ok(told.includes('Keep what came.'), told);
      const now = readFileSync(path, 'utf8');
      assert.ok(now.startsWith(text(name) + line));
      const record = JSON.parse(now.trimEnd().split('\n').at(-1));
      assert.equal(record.type, 'compacted');
      assert.equal(record.ordinal, 75);
    }
    assert.equal(answers, 2);
  } finally {
    server.close();
  }
});

test('a backend of somebody else’s', { skip: !('Suspending' in WebAssembly) && 'this runtime cannot suspend WebAssembly' }, () => {
  // The basic one, as if it were: what comes of it is known. jco is found from the package.
  const component = join(root, 'target/npm/compactor.component.wasm');
  const path = join(folder, 'codex.jsonl');
  const run = (command, ...args) => commands[command](args, { cwd: join(here, '..'), encoding: 'utf8' });
  for (const args of [['measure', path], ['compact', path, '--retain-tokens', '3000', '-o', join(folder, 'out')]]) {
    copyFileSync(join(made, 'codex.jsonl'), path);
    const [own, rust, npm] = [run('npm', ...args), run('rust', ...args, '--backend', component), run('npm', ...args, '--backend', component)];
    assert.equal(npm.status, 0, npm.stderr);
    assert.equal(npm.stdout, own.stdout);
    assert.equal(rust.stdout, own.stdout);
  }
  for (const file of [join(root, 'README.md'), join(folder, 'absent.wasm')]) {
    const done = run('npm', 'measure', path, '--backend', file);
    assert.equal(done.status, 1);
    assert.ok(done.stderr.includes(file), done.stderr);
  }
});

test('a provider package that is not installed is named', () => {
  const path = join(folder, 'codex.jsonl');
  copyFileSync(join(made, 'codex.jsonl'), path);
  const done = commands.npm(['compact', path, '--model', 'mistral/m', '--retain-tokens', '3000'], { cwd: folder, encoding: 'utf8' });
  assert.equal(done.status, 1);
  assert.ok(done.stderr.includes('npm install @ai-sdk/mistral'), done.stderr);
  assert.equal(statSync(path).size, statSync(join(made, 'codex.jsonl')).size);
});
