// Runs an example from a clean clone: `node bindings-js/examples/run.mjs dsh|ai-sdk|pi`. It installs
// and builds what is missing, and gets a newer Node from npm where this one is too old for
// the packages that the example shows.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const examples = readdirSync(here).filter((file) => file.endsWith('.mjs') && file !== 'run.mjs');
const names = examples.map((file) => file.replace('.mjs', ''));
const [name] = process.argv.slice(2);
if (!names.includes(name)) {
  console.error(`usage: node bindings-js/examples/run.mjs ${names.join('|')}`);
  process.exit(2);
}

function run(command, ...args) {
  const { status } = spawnSync(command, args, { cwd: `${here}..`, stdio: 'inherit', shell: process.platform === 'win32' });
  if (status !== 0) process.exit(status ?? 1);
}

if (!existsSync(`${here}../node_modules`)) run('npm', 'ci');
if (!existsSync(`${here}../dist/index.js`)) {
  run('rustup', 'target', 'add', 'wasm32-unknown-unknown');
  run('npm', 'run', 'build');
}
const [major, minor] = process.versions.node.split('.').map(Number);
if (major > 22 || (major === 22 && minor >= 19)) {
  run(process.execPath, `examples/${name}.mjs`);
} else {
  const platform = process.platform === 'win32' ? 'win' : process.platform;
  run('npm', 'exec', '--yes', `--package=node-${platform}-${process.arch}@24`, '--', 'node', `examples/${name}.mjs`);
}
