// Packs the package and tries the tarball where it will be used. Prints
// `N passed, M failed`.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';

const here = fileURLToPath(new URL('..', import.meta.url));
const runtimes = `${here}test/runtimes/node_modules`;
const scratch = mkdtempSync(join(tmpdir(), 'harness-compact-'));
const run = promisify(execFile);
let passed = 0;
let failed = 0;
const table = [];

async function test(name, body) {
  try {
    const told = await body();
    passed += 1;
    console.log(`ok: ${name}${told ? `: ${told}` : ''}`);
    return told;
  } catch (error) {
    failed += 1;
    console.log(`not ok: ${name}\n${error?.stdout ?? ''}${error?.stderr ?? ''}${error?.stack ?? error}`);
  }
}

function assert(condition, message) {
  if (!condition) throw new Error(message);
}

/** A project that has installed the tarball. */
function project(name, files, manifest = {}) {
  const folder = join(scratch, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module', ...manifest }));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  execFileSync('npm', ['install', '--no-audit', '--no-fund', tarball], { cwd: folder, stdio: 'pipe' });
  return folder;
}

const packed = JSON.parse(execFileSync('npm', ['pack', '--json', '--pack-destination', scratch], { cwd: here, encoding: 'utf8' }));
const [info] = Array.isArray(packed) ? packed : Object.values(packed);
const tarball = join(scratch, info.filename);
const example = readFileSync(`${here}test/example.mjs`, 'utf8');

await test('sizes', () => {
  /** The gzipped size of these files and of all that they import, however often. */
  const gzipped = (files) => {
    const seen = new Set();
    const visit = (file) => {
      if (seen.has(file)) return;
      seen.add(file);
      if (!file.endsWith('.js')) return;
      const text = readFileSync(`${here}dist/${file}`, 'utf8');
      for (const [, imported] of text.matchAll(/(?:from|import)\s*["']\.\/([^"']+)["']/g)) visit(imported);
    };
    files.forEach(visit);
    return [...seen].reduce((sum, file) => sum + gzipSync(readFileSync(`${here}dist/${file}`), { level: 9 }).length, 0);
  };
  const bindgen = gzipped(['index.js', 'load.js', 'load-bindgen.js', 'wasm/engine.js', 'wasm/engine_bg.wasm']);
  const component = gzipped(['index.js', 'load.js', 'load-component.js', 'wasm/compactor.js', ...['', '2', '3'].map((n) => `wasm/compactor.core${n}.wasm`)]);
  assert(bindgen <= 90 * 1024, `the bindgen build is ${bindgen} bytes gzipped`);
  // The aim is 110 KB: the glue that jco makes is 43 KB of it.
  assert(component <= 122 * 1024, `the component build is ${component} bytes gzipped`);
  // What only the command and `harness-compact/files` load.
  const command = ['command.js', 'command_bg.wasm.br'].reduce((sum, file) => sum + statSync(`${here}dist/wasm/${file}`).size, 0);
  assert(command <= 400_000, `the command's module is ${command} bytes`);
  assert(info.unpackedSize - command <= 1_050_000, `the tarball is ${info.unpackedSize} bytes unpacked`);
  return `bindgen ${bindgen}, component ${component} bytes gzipped; the command's module ${command}, tarball ${info.unpackedSize} bytes unpacked`;
});

await test('publint', () => run('npx', ['publint', '--strict', tarball], { cwd: here }).then(() => {}));
await test('are the types wrong', () => run('npx', ['attw', tarball, '--profile', 'esm-only', '--exclude-entrypoints', 'engine.wasm'], { cwd: here }).then(() => {}));

await test('the plugins, typed against the packages that they are for', () => {
  const lib = 'es2023,esnext.disposable,dom,dom.asynciterable';
  const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', '--types', 'node', '--lib', lib];
  return run('npx', ['tsc', ...flags, '--target', 'es2022', '--module', 'nodenext', 'test/plugins/types.ts'], { cwd: here }).then(() => {});
});
await test('the plugins bundle nothing of theirs', () => {
  const { peerDependencies } = JSON.parse(readFileSync(`${here}package.json`, 'utf8'));
  for (const plugin of ['dsh', 'ai-sdk', 'pi']) {
    const text = readFileSync(`${here}dist/${plugin}/index.js`, 'utf8');
    const imported = [...text.matchAll(/(?:from|import)\s*["']([^"'.#][^"']*)["']/g)].map((match) => match[1]);
    const packages = imported.filter((name) => !name.includes(':') && name !== 'crypto').map((name) => name.match(/^(@[^/]+\/)?[^/]+/)[0]);
    assert(packages.length > 0, `${plugin} imports nothing`);
    for (const name of packages) assert(name in peerDependencies, `${plugin} imports ${name}, which is no peer dependency`);
  }
});

const plain = project('plain', { 'example.mjs': example });
await test('esbuild, for a browser, from the default entry', async () => {
  const flags = ['example.mjs', '--bundle', '--format=esm', '--platform=browser', '--outfile=browser.mjs'];
  await run(`${here}node_modules/.bin/esbuild`, flags, { cwd: plain });
});

const hosts = {
  'Node 20': ['node'],
  'Node 24': [`${runtimes}/node24/bin/node`],
  'Node 26': [`${runtimes}/node26/bin/node`],
  Bun: [`${runtimes}/@oven/bun-linux-x64/bin/bun`],
};
for (const [name, [command, ...args]] of Object.entries(hosts)) {
  await test(name, async () => {
    const { stdout } = await run(command, [...args, 'example.mjs'], { cwd: plain });
    const [, kind] = stdout.match(/^(component|bindgen): 6\d{3} tokens became \d{3,4}\n/) ?? [];
    assert(kind === (name === 'Node 20' ? 'bindgen' : 'component'), stdout);
    table.push([name, kind]);
    return kind;
  });
}

const session = `${here}../tests/data/sessions/codex.jsonl`;
for (const [name, [command]] of Object.entries(hosts)) {
  await test(`the command and session files, from the tarball: ${name}`, async () => {
    cpSync(session, join(plain, 'codex.jsonl'));
    const bin = join(plain, 'node_modules/.bin/harness-compact');
    const compact = ['compact', 'codex.jsonl', '--in-place', '--retain-tokens', '3000'];
    const { stdout } = await run(command, [bin, ...compact], { cwd: plain });
    assert(/^Replaced \d+ of 16 nodes/.test(stdout), stdout);
    writeFileSync(
      join(plain, 'files.mjs'),
      `import { createCompactor } from 'harness-compact';
       import { openSession } from 'harness-compact/files';
       const session = await openSession('codex.jsonl');
       const model = { async *stream() { yield { type: 'text', text: 'What was done.' }; yield { type: 'finish', reason: 'stop' }; } };
       const compactor = await createCompactor({ model });
       const before = (await compactor.surface(session)).length;
       await compactor.compactNow({ session });
       if (!session.save() || session.save()) throw new Error('saved once');
       const nodes = await compactor.surface(session);
       console.log(session.form, before, nodes.length, nodes[0].kind, session.records(nodes[0].seq)[0].includes('What was done.'));`,
    );
    const ran = await run(command, ['files.mjs'], { cwd: plain });
    assert(/^codex [3-9] [1-3] checkpoint true\n$/.test(ran.stdout), ran.stdout);
  });
}

for (const [resolution, module] of [['bundler', 'esnext'], ['nodenext', 'nodenext']]) {
  await test(`TypeScript, strict, moduleResolution ${resolution}`, async () => {
    const source = `
      import { createCompactor, CompactError, fromMessages, type CompactionResult, type Model } from 'harness-compact';
      import { openSession, type SessionFile } from 'harness-compact/files';
      import { createCompactor as slim } from 'harness-compact/slim';
      import { createCompactor as inline } from 'harness-compact/inline';
      const model: Model = { async *stream({ signal, maxTokens }) { void signal.aborted; void maxTokens?.toFixed(); yield { type: 'finish', reason: 'stop' }; } };
      using compactor = await createCompactor({ config: { retainTokens: 100, prune: { headChars: 1 } }, model });
      const session = fromMessages([{ role: 'user' as const, content: 'x' }], 'openai');
      try {
        const result: CompactionResult | null = await compactor.compactIfNeeded({ session }, '', [], AbortSignal.timeout(5));
        const seq: number | undefined = result?.shadowedSeqs[0];
        void seq;
        // @ts-expect-error a wrong setting
        await createCompactor({ config: { retainToken: 1 }, model });
        // @ts-expect-error a wrong format
        fromMessages([], 'xml');
      } catch (error) {
        if (CompactError.isInstance(error)) void (error.code satisfies string);
      }
      const file: SessionFile = await openSession('x.jsonl', { form: 'codex', skipDamaged: true });
      await compactor.compactNow({ session: file });
      void (file.save() satisfies boolean);
      // @ts-expect-error a wrong form
      await openSession('x', { form: 'xml' });
      await inline({ model });
      await slim({ model, engine: new Uint8Array() });
    `;
    const options = { strict: true, noEmit: true, target: 'es2022', lib: ['es2023', 'dom', 'esnext.disposable'], module, moduleResolution: resolution, types: [] };
    const folder = project(`ts-${resolution}`, { 'index.ts': source, 'tsconfig.json': JSON.stringify({ compilerOptions: options }) });
    await run(process.execPath, [`${here}node_modules/typescript/bin/tsc`, '-p', folder]);
  });
}

await test('esbuild, one file from the inline entry', async () => {
  const folder = project('esbuild', { 'example.mjs': example.replace("'harness-compact'", "'harness-compact/inline'") });
  await run(`${here}node_modules/.bin/esbuild`, ['example.mjs', '--bundle', '--format=esm', '--platform=neutral', '--outfile=alone/bundle.mjs'], { cwd: folder });
  rmSync(join(folder, 'node_modules'), { recursive: true });
  const { stdout } = await run('node', ['alone/bundle.mjs'], { cwd: folder });
  assert(stdout.startsWith('bindgen: '), stdout);
});

/** The tests that every runtime runs, beside a page or a worker. */
const shared = Object.fromEntries(
  ['assert.mjs', 'behaviour.mjs'].map((file) => [file, readFileSync(`${here}test/${file}`, 'utf8')]),
);

const inPage = (report) => `
  import * as harness from 'harness-compact';
  import assert from './assert.mjs';
  import { run } from './behaviour.mjs';
  const { createCompactor, fromMessages } = harness;
  const model = { async *stream() { yield { type: 'text', text: 'short' }; yield { type: 'finish', reason: 'stop' }; } };
  export async function compact(runtime) {
    const messages = Array.from({ length: 40 }, (_, index) => ({ role: index % 2 ? 'assistant' : 'user', content: 'word '.repeat(100) }));
    const session = fromMessages(messages, 'openai');
    const compactor = await createCompactor({ model, runtime });
    const result = await compactor.compactNow({ session });
    const behaviour = await run({ package: harness, assert, runtime: compactor.runtime });
    if (behaviour.failures.length) throw new Error(behaviour.failures.join('\\n'));
    return compactor.runtime + ' ' + result.after.nodes + ' ' + session.toMessages().length;
  }
  ${report}
`;

await test('workerd', async () => {
  const source = inPage(`export default { async fetch() {
    try { return new Response(await compact('auto') + ';' + await compact('bindgen')); } catch (error) { return new Response(String(error.stack ?? error)); }
  } };`);
  const folder = project('workerd', { 'worker.mjs': source, ...shared });
  await run(`${here}node_modules/.bin/esbuild`, ['worker.mjs', '--bundle', '--format=esm', '--conditions=workerd', '--loader:.wasm=copy', '--outdir=out'], { cwd: folder });
  const wasm = readdirSync(join(folder, 'out')).filter((file) => file.endsWith('.wasm'));
  const modules = [`(name = "worker.js", esModule = embed "out/worker.js")`, ...wasm.map((file) => `(name = "${file}", wasm = embed "out/${file}")`)];
  const port = await freePort();
  writeFileSync(
    join(folder, 'config.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
    const config :Workerd.Config = (services = [(name = "main", worker = .main)], sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]);
    const main :Workerd.Worker = (modules = [${modules.join(', ')}], compatibilityDate = "2026-01-01");`,
  );
  const server = spawn(`${runtimes}/workerd/bin/workerd`, ['serve', 'config.capnp'], { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] });
  try {
    const text = await retry(() => fetch(`http://127.0.0.1:${port}/`).then((response) => response.text()));
    assert(/^(component|bindgen) 2 2;bindgen 2 2$/.test(text), text);
    table.push(['workerd', text.split(' ')[0]]);
    return text;
  } finally {
    server.kill();
  }
});

await test('Vite, in Chromium', async () => {
  const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
  assert(chromium, 'chromium is not installed');
  const page = inPage(`
    const outcome = await compact('component').then(async (one) => one + ';' + await compact('bindgen')).catch((error) => String(error.stack ?? error));
    await fetch('/report', { method: 'POST', body: outcome });
  `);
  const folder = project('vite', { 'main.js': page, 'index.html': '<script type="module" src="/main.js"></script>', ...shared });
  await run(process.execPath, [`${runtimes}/vite/bin/vite.js`, 'build', '--target', 'esnext', '--logLevel', 'warn'], { cwd: folder });
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
  let reported;
  const report = new Promise((resolve) => (reported = resolve));
  const server = createServer(async (request, response) => {
    if (request.method === 'POST') {
      let body = '';
      for await (const chunk of request) body += chunk;
      reported(body);
      response.end();
      return;
    }
    const file = join(folder, 'dist', request.url === '/' ? 'index.html' : request.url);
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': types[extname(file)] ?? 'text/plain' }).end(readFileSync(file));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const browser = spawn(chromium, [...flags, `--user-data-dir=${join(scratch, 'profile')}`, `http://127.0.0.1:${server.address().port}/`], { stdio: 'ignore' });
  try {
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error('no report from the page')), 60_000).unref());
    const text = await Promise.race([report, late]);
    assert(text === 'component 2 2;bindgen 2 2', text);
    table.push(['Chromium, through Vite', 'component, bindgen']);
  } finally {
    browser.kill('SIGKILL');
    server.close();
    server.closeAllConnections();
  }
});

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function retry(call) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (attempt === 50) throw error;
      await new Promise((later) => setTimeout(later, 200));
    }
  }
}

const rows = table.map(([name, kind]) => `| ${name} | ${kind} |`);
const generated = `| runtime | build that \`auto\` takes |\n|---|---|\n${rows.join('\n')}\n`;
await test('the README shows this table, and the example as it ran', () => {
  const readme = readFileSync(`${here}README.md`, 'utf8');
  assert(readme.includes(example), 'the example in the README is not test/example.mjs');
  assert(readme.includes(generated), `the table in the README is not this one:\n${generated}`);
});
await new Promise((later) => setTimeout(later, 300));
rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
