import type { Draft, Seq, SessionEvent } from '../contract.js';
import { SessionError } from '../errors.js';
import type { SessionLog } from '../log.js';
import { decode, encode } from '../schema.js';
import * as types from '../types-schema.js';
import type { FileSession } from '../wasm/command.js';

/** A session of the module's, as the package's session logs are. */
export class FileLog implements SessionLog {
  constructor(
    readonly id: string,
    protected readonly session: FileSession,
  ) {}

  head(): Seq {
    return this.session.head();
  }

  read(start: Seq, limit: number): SessionEvent[] {
    try {
      return decode(types.events, this.session.read(start, limit));
    } catch (error) {
      throw new SessionError({ tag: 'corrupt', val: String(error) });
    }
  }

  append(drafts: Draft[], expectedHead: Seq | undefined): Seq {
    try {
      return this.session.append(encode(types.drafts, drafts), expectedHead);
    } catch (error) {
      if (typeof error === 'number') throw new SessionError({ tag: 'conflict', val: error });
      throw new SessionError({ tag: 'rejected', val: String(error) });
    }
  }
}
