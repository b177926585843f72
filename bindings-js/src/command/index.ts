#!/usr/bin/env node
/**
 * `npx harness-compact`: the Rust command's twin. What it does is in its module, which is
 * the same code; here is what it runs on.
 */

import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';

import { messageOf } from '../errors.js';
import { append, lock, replace, stat, told } from '../files/disk.js';
import { load } from '../load-files.js';
import type { FileSession } from '../wasm/command.js';
import { stream } from './model.js';

const cancelled = new AbortController();
process.on('SIGINT', () => {
  if (cancelled.signal.aborted) process.exit(130);
  cancelled.abort();
});

/** What fails is thrown as a text. */
function orText<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw told(error);
  }
}

/** What was read last; the module copies it. */
let part = Buffer.alloc(0);
const locks = new Map<string, () => void>();
let shown = false;
const { stderr } = process;

/** A line that changes, on a terminal. */
function progress(doing: string | undefined): void {
  if (!stderr.isTTY) return;
  if (doing === undefined) {
    if (shown) stderr.write('\r\x1b[K');
    shown = false;
    return;
  }
  const width = Math.max((stderr.columns ?? 80) - 1, 1);
  stderr.write(`\r\x1b[K${doing.slice(0, width)}`);
  shown = true;
}

const system = {
  readPart: (path: string, from: number, most: number) =>
    orText(() => {
      const file = fs.openSync(path, 'r');
      try {
        if (part.length < most) part = Buffer.alloc(most);
        return part.subarray(0, fs.readSync(file, part, 0, most, from));
      } finally {
        fs.closeSync(file);
      }
    }),
  stat,
  list(folder: string): string[] {
    try {
      // In the order of their code points, as Rust sorts them.
      return fs.readdirSync(folder).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    } catch {
      return [];
    }
  },
  real(path: string): string | undefined {
    try {
      return fs.realpathSync(path);
    } catch {
      return undefined;
    }
  },
  join: (folder: string, name: string) => join(folder, name),
  folder(path: string): string | undefined {
    const folder = dirname(path);
    // A bare name has none; `./name` does.
    return folder === '.' && !path.startsWith('.') ? undefined : folder;
  },
  name: (path: string) => basename(path),
  lock: (path: string) => orText(() => void locks.set(path, lock(path))),
  unlock(path: string): void {
    locks.get(path)?.();
    locks.delete(path);
  },
  append: (path: string, cut: number | undefined, bytes: Uint8Array) => orText(() => append(path, cut, bytes)),
  replace: (path: string, base: string | undefined, bytes: Uint8Array, like: string) =>
    orText(() => replace(path, base, bytes, like)),
  env: (name: string) => process.env[name],
  home: () => homedir(),
  cwd: () => process.cwd(),
  now: () => Date.now(),
  random: () => randomBytes(16),
  note(line: string): void {
    progress(undefined);
    stderr.write(`${line}\n`);
  },
  progress,
  aborted: () => cancelled.signal.aborted,
  stream: (request: string) => stream(request, cancelled.signal, progress),
  async component(file: string, session: FileSession, options: string, config: Uint8Array) {
    try {
      const { component } = await import('./component.js');
      return await component(file, session, JSON.parse(options), config, cancelled.signal, progress);
    } catch (error) {
      return messageOf(error);
    }
  },
};

const { run } = await load();
// The name in the words for wrong usage is the Rust command's.
const [output, error, status] = (await run(['harness-compact', ...process.argv.slice(2)], system)) as [string, string, number];
stderr.write(error);
// Whoever reads has read enough.
process.stdout.on('error', (failure: NodeJS.ErrnoException) => {
  if (failure.code !== 'EPIPE') stderr.write(`harness-compact: ${failure.message}\n`);
});
process.stdout.write(output);
process.exitCode = status;
