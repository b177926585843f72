/** Session files on disk: read, locked, appended to, replaced in one step. */

import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** How long a lock may be old before its owner is taken to be gone: it is held for one write. */
const STALE_MS = 10_000;
/** How long to wait for a lock. */
const PATIENCE_MS = 30_000;

/** An error of the operating system's, in words that the Rust command has as well. */
export function told(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  switch (code) {
    case 'ENOENT':
      return 'there is no such file';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EISDIR':
      return 'it is a folder';
    default:
      return message ?? String(error);
  }
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * Keep other commands from writing to a file: a file beside it, which the Rust command
 * makes as well. Answers what gives the lock back.
 */
export function lock(path: string): () => void {
  const real = fs.realpathSync(path);
  const beside = join(dirname(real), `${basename(real)}.harness-compact.lock`);
  const begun = Date.now();
  for (;;) {
    try {
      fs.writeFileSync(beside, String(process.pid), { flag: 'wx' });
      return () => fs.rmSync(beside, { force: true });
    } catch (error) {
      if ((error as { code?: string }).code !== 'EEXIST') throw error;
    }
    const held = fs.statSync(beside, { throwIfNoEntry: false });
    if (held && Date.now() - held.mtimeMs > STALE_MS) fs.rmSync(beside, { force: true });
    else if (Date.now() - begun > PATIENCE_MS) throw new Error(`${beside} is held by another process`);
    else sleep(20);
  }
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(file, bytes, at);
}

/**
 * Put bytes behind what is in a file, in one write; with `cut`, in place of what is there
 * from that byte on. What of them got there is taken away again where not all did.
 */
export function append(path: string, cut: number | undefined, bytes: Uint8Array): void {
  const file = fs.openSync(path, 'a');
  try {
    // Only what is known to be torn: another writer's line may have come this very moment.
    if (cut !== undefined) fs.ftruncateSync(file, cut);
    const before = fs.fstatSync(file).size;
    let written = 0;
    try {
      while (written < bytes.length) written += fs.writeSync(file, bytes, written);
      fs.fdatasyncSync(file);
    } catch (error) {
      // Unless somebody else has written meanwhile.
      if (fs.fstatSync(file).size === before + written) fs.ftruncateSync(file, before);
      throw error;
    }
  } finally {
    fs.closeSync(file);
  }
}

/**
 * Make a file, or put another in its place, in one step: what is in `base`, and `bytes`
 * behind it. It has the permissions of `like`.
 */
export function replace(path: string, base: string | undefined, bytes: Uint8Array, like: string): void {
  const made = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    if (base !== undefined) fs.copyFileSync(base, made, fs.constants.COPYFILE_EXCL);
    const file = fs.openSync(made, base === undefined ? 'wx' : 'a', 0o600);
    try {
      writeAll(file, bytes);
      fs.fchmodSync(file, fs.statSync(like).mode & 0o7777);
      fs.fsyncSync(file);
    } finally {
      fs.closeSync(file);
    }
    fs.renameSync(made, path);
  } catch (error) {
    fs.rmSync(made, { force: true });
    throw error;
  }
}

/** A file's size, when it was changed in microseconds since 1970, and whether it is a folder. */
export function stat(path: string): [number, number, number] | undefined {
  try {
    const found = fs.statSync(path, { bigint: true });
    return [Number(found.size), Number(found.mtimeNs / 1000n), found.isDirectory() ? 1 : 0];
  } catch {
    return undefined;
  }
}
