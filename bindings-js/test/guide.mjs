// Runs the commands of BACKENDS.md as they stand, in a folder of their own. Only where
// the repository, the package and the command come from is this checkout.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('..', import.meta.url));
const checkout = join(here, '..');
const node = process.env.NODE24 ?? join(here, 'test/runtimes/node_modules/node24/bin/node');
const folder = mkdtempSync(join(tmpdir(), 'guide-'));
const guide = readFileSync(join(here, 'BACKENDS.md'), 'utf8');

const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', folder], { cwd: here, encoding: 'utf8' });
const tarball = join(folder, JSON.parse(packed)[0].filename);
const bin = join(folder, 'bin');
mkdirSync(bin);
symlinkSync(node, join(bin, 'node'));
const target = process.env.CARGO_TARGET_DIR ?? join(checkout, 'target');
symlinkSync(join(target, 'debug/harness-compact'), join(bin, 'harness-compact'));

const script = [
  'set -euo pipefail',
  `git() { ln -s ${checkout} harness-compact; }`,
  `npm() { command npm "\${@/#harness-compact/${tarball}}"; }`,
  `cargo() { if [ "$1" != install ]; then command cargo "$@"; fi; }`,
];
for (const [, language, file, body] of guide.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$/gms)) {
  if (language === 'sh') script.push(body);
  if (file) script.push(`cat > ${file} <<'END'\n${body}END`);
}
writeFileSync(join(folder, 'guide.sh'), script.join('\n'));

const work = join(folder, 'work');
mkdirSync(work);
const { status, stdout } = spawnSync('bash', ['../guide.sh'], {
  cwd: work,
  env: { ...process.env, PATH: `${bin}:${process.env.PATH}`, NODE: join(bin, 'node') },
  stdio: ['ignore', 'pipe', 'inherit'],
  encoding: 'utf8',
  maxBuffer: 1 << 26,
});
process.stdout.write(stdout);
assert.equal(status, 0);
for (const module of ['in-rust', 'in-js']) {
  const [, before, after] = stdout.match(new RegExp(`^${module}: (\\d+) tokens became (\\d+)$`, 'm'));
  assert.ok(Number(after) < Number(before) / 2);
}
assert.equal(stdout.match(/## Requests/g).length, 2);
assert.match(stdout, /test result: ok\. \d+ passed; 0 failed/);
rmSync(folder, { recursive: true });
