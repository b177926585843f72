/** Components that are no backends are refused by name, and so are runtimes that can run none. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { CompactError, createCompactor } from 'harness-compact';
import { createCompactor as createInline } from 'harness-compact/inline';

const here = fileURLToPath(new URL('..', import.meta.url));
const suspends = 'Suspending' in WebAssembly;
const model = { stream: () => assert.fail('no model is called') };

/** A component in text, made a module as a user makes one. */
async function module(wat) {
  const folder = mkdtempSync(join(tmpdir(), 'backend-'));
  writeFileSync(join(folder, 'backend.wat'), wat);
  const run = (...args) => execFileSync(...args, { cwd: here, stdio: ['ignore', 'ignore', 'inherit'] });
  run('npx', ['jco', 'parse', join(folder, 'backend.wat'), '-o', join(folder, 'backend.wasm')]);
  run('node', ['dist/transpile.js', join(folder, 'backend.wasm'), '--out-dir', folder]);
  return (await import(pathToFileURL(join(folder, 'index.js')))).default;
}

async function refused(options, code, told) {
  const error = await createCompactor({ model, ...options }).then(() => assert.fail('it was taken'), (error) => error);
  assert.ok(CompactError.isInstance(error), String(error?.stack));
  assert.equal(error.code, code);
  assert.match(error.message, told);
}

const nothing = '(component)';
const later = '(component (instance $it) (export "harness:compact/compact@0.2.0" (instance $it)))';
const clock = `(component
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock (export "now" (func (result u64)))))
  (core func $now (canon lower (func $clock "now")))
  (core module $m (import "clock" "now" (func (result i64))))
  (core instance (instantiate $m (with "clock" (instance (export "now" (func $now)))))))`;

test('a component that imports something else is refused, and named', { skip: !suspends }, async () => {
  await refused({ backend: await module(clock) }, 'backend', /imports wasi:clocks\/monotonic-clock/);
});

test('a component without the export is refused, and the export named', { skip: !suspends }, async () => {
  await refused({ backend: await module(nothing) }, 'backend', /does not export harness:compact\/compact@0\.1\.0/);
});

test('a component of another version of the contract is refused', { skip: !suspends }, async () => {
  await refused({ backend: await module(later) }, 'backend', /does not export harness:compact\/compact@0\.1\.0/);
});

test('a core module that was not handed in is named', { skip: !suspends }, async () => {
  const { instantiate } = await module(clock);
  await refused({ backend: { instantiate, modules: {} } }, 'backend', /backend\.core/);
});

test('what is no transpiled component is refused', { skip: !suspends }, async () => {
  await refused({ backend: {} }, 'backend', /harness-compact-transpile/);
});

test('a backend that traps is told from one that refuses its settings', { skip: !suspends }, async () => {
  const Compactor = {
    create() {
      throw new WebAssembly.RuntimeError('unreachable');
    },
  };
  const instantiate = async () => ({ 'harness:compact/compact@0.1.0': { Compactor } });
  await refused({ backend: { instantiate, modules: {} } }, 'trap', /unreachable/);
});

test('a backend has no bindgen build', async () => {
  await refused({ backend: { instantiate() {}, modules: {} }, runtime: 'bindgen' }, 'unsupported-runtime', /bindgen/);
});

test('where WebAssembly cannot be suspended, a backend cannot run', { skip: suspends }, async () => {
  await refused({ backend: { instantiate() {}, modules: {} } }, 'unsupported-runtime', /suspend/);
});

test('the other entries take one as well', { skip: !suspends }, async () => {
  await assert.rejects(createInline({ model, backend: await module(nothing) }), /does not export/);
});
