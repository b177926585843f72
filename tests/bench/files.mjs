// What large session files cost, beside a loop that only parses each line.
//
//   cargo build --release --package harness-compact-host && (cd bindings-js && npm ci && npm run build)
//   node tests/bench/files.mjs [MEGABYTES] [LINES]
//
// Each form is measured and compacted by both commands, in turns with the loop, three
// times; the table has medians as ratios: time to the loop's, peak memory to the file's size.
import { spawnSync } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const [megabytes = 50, lines = 100_000] = process.argv.slice(2).map(Number);
const rust = join(root, 'target/release/harness-compact');
const npm = join(root, 'bindings-js/dist/command/index.js');

// The loop, as a process of its own.
const loop = `
  const { readFileSync } = require('node:fs');
  let count = 0;
  for (const line of readFileSync(process.argv[1], 'utf8').split('\\n')) if (line) { JSON.parse(line); count++; }
  if (!count) process.exit(1);`;

const time = '2026-12-07T00:00:00.000Z';
const words = (bytes) => 'const value = read(path); // what it says, \\"quoted\\"\n'.repeat(Math.ceil(bytes / 52)).slice(0, bytes);

/** One turn of a form: a question, a call, its result, an answer; each about `size` bytes. */
const forms = {
  log(turn, size) {
    const seq = turn * 4;
    const line = (at, type, data) => ({ type, seq: seq + at, time: 1, data, surfaceOp: 'append' });
    const text = (text) => [{ type: 'text', text }];
    return [
      line(0, 'user/message', { id: 'u', role: 'user', content: text(`Request ${turn} ${words(size)}`) }),
      line(1, 'assistant/message', { message: { role: 'assistant', content: [{ type: 'tool-call', id: `c${turn}`, name: 'bash', arguments: JSON.stringify({ command: words(size) }) }] } }),
      line(2, 'tool/result', { message: { role: 'user', content: [{ type: 'tool-result', toolCallId: `c${turn}`, content: text(words(size)), isError: false }] } }),
      line(3, 'assistant/message', { message: { role: 'assistant', content: text(`Answer ${turn} ${words(size)}`) } }),
    ];
  },
  pi(turn, size) {
    const line = (at, message) => ({ type: 'message', id: `${turn}-${at}`, parentId: at ? `${turn}-${at - 1}` : turn ? `${turn - 1}-3` : null, timestamp: time, message });
    const text = (text) => [{ type: 'text', text }];
    return [
      line(0, { role: 'user', content: text(`Request ${turn} ${words(size)}`) }),
      line(1, { role: 'assistant', content: [{ type: 'toolCall', id: `c${turn}`, name: 'bash', arguments: { command: words(size) } }] }),
      line(2, { role: 'toolResult', toolCallId: `c${turn}`, content: text(words(size)), isError: false }),
      line(3, { role: 'assistant', content: text(`Answer ${turn} ${words(size)}`) }),
    ];
  },
  'claude-code'(turn, size) {
    const line = (at, type, message) => ({ parentUuid: at ? `${turn}-${at - 1}` : turn ? `${turn - 1}-3` : null, isSidechain: false, type, message, uuid: `${turn}-${at}`, timestamp: time, sessionId: 's', cwd: '/w', version: '2' });
    return [
      line(0, 'user', { role: 'user', content: `Request ${turn} ${words(size)}` }),
      line(1, 'assistant', { id: `m${turn}`, role: 'assistant', content: [{ type: 'tool_use', id: `c${turn}`, name: 'Bash', input: { command: words(size) } }] }),
      line(2, 'user', { role: 'user', content: [{ type: 'tool_result', tool_use_id: `c${turn}`, content: words(size) }] }),
      line(3, 'assistant', { id: `n${turn}`, role: 'assistant', content: [{ type: 'text', text: `Answer ${turn} ${words(size)}` }] }),
    ];
  },
  codex(turn, size) {
    const line = (at, payload) => ({ timestamp: time, ordinal: turn * 4 + at, type: 'response_item', payload });
    return [
      line(0, { type: 'message', role: 'user', content: [{ type: 'input_text', text: `Request ${turn} ${words(size)}` }] }),
      line(1, { type: 'function_call', call_id: `c${turn}`, name: 'exec', arguments: JSON.stringify({ cmd: words(size) }) }),
      line(2, { type: 'function_call_output', call_id: `c${turn}`, output: words(size) }),
      line(3, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: `Answer ${turn} ${words(size)}` }] }),
    ];
  },
  gemini(turn, size) {
    return [
      { id: `${turn}-0`, timestamp: time, type: 'user', content: [{ text: `Request ${turn} ${words(size)}` }] },
      { id: `${turn}-1`, timestamp: time, type: 'gemini', content: '', toolCalls: [{ id: `c${turn}`, name: 'run', args: { command: words(size) } }] },
      { id: `${turn}-2`, timestamp: time, type: 'user', content: [{ functionResponse: { id: `c${turn}`, name: 'run', response: { output: words(size) } } }] },
      { id: `${turn}-3`, timestamp: time, type: 'gemini', content: `Answer ${turn} ${words(size)}` },
    ];
  },
};
const headers = {
  log: { type: 'session', version: 0, id: 's', createdAt: 1 },
  pi: { type: 'session', version: 3, id: 's', timestamp: time, cwd: '/w' },
  codex: { timestamp: time, type: 'session_meta', payload: { id: 's', cwd: '/w' } },
  gemini: { sessionId: 's', projectHash: 'h', startTime: time, lastUpdated: time, kind: 'main' },
};

function make(form, path) {
  const file = openSync(path, 'w');
  if (headers[form]) writeSync(file, `${JSON.stringify(headers[form])}\n`);
  const line = (megabytes * 1e6) / lines;
  const bare = forms[form](1000, 0).map((each) => JSON.stringify(each).length + 1);
  const size = Math.max(Math.round(line - bare.reduce((a, b) => a + b) / 4) / 1.06, 1);
  for (let turn = 0; turn < lines / 4; turn += 1) {
    writeSync(file, forms[form](turn, size).map((each) => `${JSON.stringify(each)}\n`).join(''));
  }
  closeSync(file);
}

/** Seconds and peak bytes of a process. */
function run(command, ...args) {
  const timed = ['-f', '%e %M', command, ...args];
  const begun = process.hrtime.bigint();
  const ended = spawnSync('/usr/bin/time', timed, { encoding: 'utf8', maxBuffer: 1e9 });
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  if (ended.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${ended.status} ${ended.error ?? ''} ${ended.stderr.slice(-300)}`);
  return { seconds, bytes: Number(ended.stderr.trim().split(' ').at(-1)) * 1024 };
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
if (!existsSync(rust) || !existsSync(npm)) throw new Error('both commands must be built first; see the top of this file');
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
console.log(`${lines} lines, ${megabytes} MB; time as a multiple of the parsing loop's, peak memory of the file's size`);
console.log('form          loop s   rust measure   rust compact   npm measure    npm compact');
try {
  for (const form of Object.keys(forms)) {
    const path = join(folder, `${form}.jsonl`);
    make(form, path);
    const { size } = statSync(path);
    const work = join(folder, 'work.jsonl');
    const kinds = {
      rustMeasure: () => run(rust, 'measure', path),
      rustCompact: () => run(rust, 'compact', work, '--in-place'),
      npmMeasure: () => run(process.execPath, npm, 'measure', path),
      npmCompact: () => run(process.execPath, npm, 'compact', work, '--in-place'),
    };
    const loops = [];
    const runs = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
    for (let round = 0; round < 3; round += 1) {
      for (const [kind, measure] of Object.entries(kinds)) {
        copyFileSync(path, work);
        loops.push(run(process.execPath, '-e', loop, path).seconds);
        runs[kind].push(measure());
      }
    }
    const base = median(loops);
    const cells = Object.values(runs).map((each) => {
      const seconds = median(each.map((run) => run.seconds)) / base;
      const bytes = median(each.map((run) => run.bytes)) / size;
      return `${seconds.toFixed(2)} / ${bytes.toFixed(2)}`.padEnd(14);
    });
    console.log(`${form.padEnd(12)}  ${base.toFixed(2).padEnd(6)}   ${cells.join(' ')}`);
    rmSync(path);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
