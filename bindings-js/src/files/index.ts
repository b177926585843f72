/**
 * Session files of agent programs as session logs: Claude Code, Codex, pi, opencode,
 * Gemini CLI, deepseek-harness, and arrays of messages. For Node, Bun and Deno.
 */

import { randomBytes } from 'node:crypto';
import { readFileSync, realpathSync } from 'node:fs';

import type { Seq } from '../contract.js';
import { CompactError } from '../errors.js';
import type { FileSession } from '../wasm/command.js';
import { append, lock, replace, told } from './disk.js';
import { FileLog } from './log.js';
import { load } from '../load-files.js';

/** How a session file is written. */
export type SessionForm =
  | 'log'
  | 'pi'
  | 'claude-code'
  | 'codex'
  | 'opencode'
  | 'gemini'
  | 'openai'
  | 'openai-responses'
  | 'anthropic'
  | 'ai-sdk';

/** How to open a session file. */
export interface OpenSessionOptions {
  /** Its form. Absent: told by how it begins. */
  form?: SessionForm;
  /** Go on without lines that cannot be read; {@link SessionFile.remarks} names them. */
  skipDamaged?: boolean;
}

/**
 * A session of an agent program, as its file has it: the surface is what the program would
 * send if it resumed the file. What a compaction appends stays in memory until
 * {@link SessionFile.save} writes it to the file in the program's own way.
 */
export class SessionFile extends FileLog {
  private saves = 0;

  /** @internal Use {@link openSession}. */
  constructor(
    /** Where it lies. */
    readonly path: string,
    private readonly name: string,
    session: FileSession,
  ) {
    super(name, session);
    // Each time it is written its events are numbered anew: it is another log then.
    Object.defineProperty(this, 'id', { get: () => (this.saves ? `${this.name}#${this.saves}` : this.name) });
  }

  /** Its form. */
  get form(): SessionForm {
    return this.session.form() as SessionForm;
  }

  /** What of it was left out, or is not as it should be, such as `left out: line 101, 300 NUL bytes`. */
  get remarks(): string[] {
    return this.session.remarks();
  }

  /** The window in tokens of the session's model, where the file says so. */
  get contextWindow(): number | undefined {
    return this.session.contextWindow();
  }

  /** The folder that the session worked in, where the file says so. */
  get cwd(): string | undefined {
    return this.session.cwd();
  }

  /** The file's own records that a surface node comes from, as they stand there. */
  records(seq: Seq): string[] {
    return this.session.records(seq);
  }

  /**
   * Write what was appended to the file, under its lock and whole or not at all. Answers
   * whether there was anything to write. A file that has grown meanwhile keeps what came;
   * one of which what was compacted is gone is left alone, and the error has the code
   * `changed`.
   */
  save(): boolean {
    try {
      const unlock = lock(this.path);
      try {
        return this.write();
      } finally {
        unlock();
      }
    } catch (error) {
      if (CompactError.isInstance(error)) throw error;
      throw new CompactError('host', `${this.path}: ${told(error)}`, true, undefined, { cause: error });
    }
  }

  /** With the file locked. */
  private write(): boolean {
    const bytes = readFileSync(this.path);
    if (!this.session.isOf(bytes) && !this.session.rebase(bytes)) {
      throw new CompactError('changed', `${this.path}: what was compacted has changed in it`, true, { tag: 'changed' });
    }
    let write: ReturnType<FileSession['write']>;
    try {
      write = this.session.write(Date.now(), randomBytes(16), 0, 0);
    } catch (refusal) {
      throw new CompactError('host', `${this.path}: ${String(refusal)}`);
    }
    if (!write) return false;
    if (write.append) append(this.path, write.cut, write.bytes);
    else replace(realpathSync(this.path), undefined, write.bytes, this.path);
    this.session.reopen(readFileSync(this.path));
    this.saves += 1;
    return true;
  }
}

/** Open a session file. The error names the file, the line and what is wrong with it. */
export async function openSession(path: string, options: OpenSessionOptions = {}): Promise<SessionFile> {
  const { FileSession } = await load();
  try {
    const session = FileSession.open(readFileSync(path), options.form, options.skipDamaged ?? false);
    return new SessionFile(path, session.id() ?? realpathSync(path), session);
  } catch (error) {
    const why = typeof error === 'string' ? error : told(error);
    const failure = { tag: 'session', val: { tag: 'corrupt', val: `${path}: ${why}` } } as const;
    throw new CompactError('session', `${path}: ${why}`, false, failure, { cause: error });
  }
}
