// Runs the behaviour tests in Node or Bun: `behaviour-node.mjs component|bindgen`, with
// `--expose-gc` to measure memory as well.
import assert from 'node:assert/strict';
import * as harness from '../dist/index.js';
import { run } from './behaviour.mjs';

const heap = globalThis.gc && (() => (globalThis.gc(), process.memoryUsage().heapUsed));
const { passed, failures } = await run({ package: harness, assert, runtime: process.argv[2], heap });
for (const failure of failures) console.log(failure);
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length ? 1 : 0);
