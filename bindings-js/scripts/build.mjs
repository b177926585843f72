// Makes dist/: the WebAssembly by cargo, the component's glue by jco, the rest by tsc.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';

const here = fileURLToPath(new URL('..', import.meta.url));
const run = (command, ...args) => execFileSync(command, args, { cwd: here, stdio: 'inherit' });
const wasm = `${here}src/wasm`;
const scratch = `${here}../target/npm`;

rmSync(`${here}dist`, { recursive: true, force: true });
rmSync(wasm, { recursive: true, force: true });
mkdirSync(wasm, { recursive: true });

run('cargo', 'run', '--quiet', '--package', 'harness-compact-js-build', '--', scratch);

run('node', 'scripts/transpile.mjs', `${scratch}/compactor.component.wasm`, '--out-dir', wasm, '--name', 'compactor');
for (const file of ['engine.js', 'engine_bg.wasm', 'engine.d.ts', 'command.js', 'command_bg.wasm', 'command.d.ts']) {
  cpSync(`${scratch}/bindgen/${file}`, `${wasm}/${file}`);
}
cpSync(`${here}scripts/compactor.d.ts`, `${wasm}/compactor.d.ts`);
// Smaller than what the compiler leaves, and the same in what it does.
const features = ['bulk-memory', 'multivalue', 'mutable-globals', 'nontrapping-float-to-int', 'reference-types', 'sign-ext'];
for (const [module, level] of [['compactor.core.wasm', '-Oz'], ['engine_bg.wasm', '-Oz'], ['command_bg.wasm', '-O3']]) {
  const flags = features.map((feature) => `--enable-${feature}`);
  run('npx', 'wasm-opt', level, ...flags, `${wasm}/${module}`, '-o', `${wasm}/${module}`);
}
const engine = gzipSync(readFileSync(`${wasm}/engine_bg.wasm`), { level: 9 }).toString('base64');
writeFileSync(`${wasm}/engine-inline.js`, `export default '${engine}';\n`);
writeFileSync(`${wasm}/engine-inline.d.ts`, 'declare const engine: string;\nexport default engine;\n');
run('npx', 'tsc');
rmSync(`${wasm}/interfaces`, { recursive: true, force: true });
// One file for each entry and what they share, small. What reads session files is
// apart: what it shares with the library would cut that into more pieces for everybody.
const library = [
  'index', 'slim', 'inline', 'load', 'load-workerd', 'load-bindgen', 'load-component', 'schema', 'types-schema',
  'dsh/index', 'ai-sdk/index',
];
for (const entries of [library, ['load-files', 'files/index', 'command/index', 'pi/index']]) {
  run(
    'npx', 'esbuild', ...entries.map((entry) => `dist/${entry}.js`),
    '--bundle', '--splitting', '--format=esm', '--minify', '--packages=external', '--external:#load', '--external:./wasm/*',
    '--outbase=dist', '--outdir=dist/small', '--log-level=warning',
  );
}
for (const file of readdirSync(`${here}dist`, { recursive: true })) {
  if (file.endsWith('.js') && !file.startsWith('small')) rmSync(`${here}dist/${file}`);
}
cpSync(`${here}dist/small`, `${here}dist`, { recursive: true });
rmSync(`${here}dist/small`, { recursive: true });
cpSync(wasm, `${here}dist/wasm`, { recursive: true });
// Only runtimes that have files load it, and those can unpack it.
writeFileSync(`${here}dist/wasm/command_bg.wasm.br`, brotliCompressSync(readFileSync(`${wasm}/command_bg.wasm`)));
rmSync(`${here}dist/wasm/command_bg.wasm`);
run(
  'npx', 'esbuild', 'dist/wasm/engine.js', 'dist/wasm/command.js',
  '--minify', '--outdir=dist/wasm', '--allow-overwrite', '--log-level=warning',
);
cpSync(`${here}scripts/engine.wasm.d.ts`, `${here}dist/engine.wasm.d.ts`);
cpSync(`${here}scripts/transpile.mjs`, `${here}dist/transpile.js`);
// For authors of backends.
cpSync(`${here}../wit`, `${here}dist/wit`, { recursive: true });
