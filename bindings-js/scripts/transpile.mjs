#!/usr/bin/env node
// Makes a JavaScript module of a backend: of any component of the world
// `harness:compact/compactor`. It runs the jco that is installed beside it.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const usage = 'usage: harness-compact-transpile COMPONENT.wasm --out-dir DIRECTORY';

// What suspends: everything that a host may take its time for, and the operations.
const imports = [
  'session@0.1.0#[method]session.head',
  'session@0.1.0#[method]session.read',
  'session@0.1.0#[method]session.append',
  'session@0.1.0#[method]session.flush',
  'llm-stream@0.1.0#describe-model',
  'llm-stream@0.1.0#stream',
  'llm-stream@0.1.0#[method]generation.next',
  'hooks@0.1.0#estimate-content-tokens',
  'hooks@0.1.0#summarize',
];
const operations = ['measure', 'surface', 'compact-if-needed', 'compact-region', 'compact-now', 'prune'];

const fail = (message, code = 1) => {
  console.error(`harness-compact-transpile: ${message}`);
  process.exit(code);
};

let given;
try {
  given = parseArgs({
    allowPositionals: true,
    // The name of the module; for the package's own build, which has loaders of its own.
    options: { 'out-dir': { type: 'string' }, name: { type: 'string' } },
  });
} catch (error) {
  fail(`${error.message}\n${usage}`, 2);
}
const { positionals, values } = given;
const [component] = positionals;
const directory = values['out-dir'];
if (positionals.length !== 1 || !directory) fail(usage, 2);
if (!existsSync(component)) fail(`${component} is not there`);

const name = values.name ?? 'backend';
const flags = [
  'transpile', component, '--out-dir', directory, '--name', name, '--quiet', '--minify', '--no-typescript',
  '--instantiation', 'async', '--async-mode', 'jspi', '--no-nodejs-compat', '--no-component-error-wrapping',
  '--async-imports', ...imports.map((each) => `harness:compact/${each}`),
  '--async-exports', ...operations.map((each) => `harness:compact/compact@0.1.0#[method]compactor.${each}`),
];
const windows = process.platform === 'win32';
const run = spawnSync('npx', ['--no-install', 'jco', ...flags], { stdio: ['ignore', 'inherit', 'inherit'], shell: windows });
if (run.status !== 0) fail('jco could not do it; is @bytecodealliance/jco installed?');

if (values.name === undefined) {
  const modules = readdirSync(directory).filter((file) => file.startsWith(`${name}.core`) && file.endsWith('.wasm'));
  const urls = modules.map((file) => `    '${file}': new URL('./${file}', import.meta.url),\n`);
  writeFileSync(
    join(directory, 'index.js'),
    `import { instantiate } from './${name}.js';\n\nexport default {\n  instantiate,\n  modules: {\n${urls.join('')}  },\n};\n`,
  );
  writeFileSync(
    join(directory, 'index.d.ts'),
    "import type { TranspiledBackend } from 'harness-compact';\n\ndeclare const backend: TranspiledBackend;\nexport default backend;\n",
  );
}
