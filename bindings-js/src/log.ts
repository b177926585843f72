import type { Draft, Payload, Seq, SessionEvent } from './contract.js';
import { SessionError } from './errors.js';

type Awaitable<T> = T | PromiseLike<T>;

/**
 * Session storage, as a host supplies it: an append-only log of events. It derives
 * nothing. Every function may be synchronous or not; what it throws fails the
 * compaction and leaves the session as it was.
 */
export interface SessionLog {
  /** Stable identity. Two sessions never share one. */
  readonly id: string;
  /** The number of events, which is the seq of the next one. */
  head(): Awaitable<Seq>;
  /** Up to `limit` events from `start` on, in order; never none while `start` is below the head. */
  read(start: Seq, limit: number): Awaitable<SessionEvent[]>;
  /**
   * Append all of `drafts` or none, and answer the first one's seq. With `expectedHead`
   * only if the head still is that; otherwise throw a {@link SessionError} of
   * `{ tag: 'conflict', val: head }`.
   */
  append(drafts: Draft[], expectedHead: Seq | undefined): Awaitable<Seq>;
  /** Settles once everything appended so far is durable. Absent where that is at once. */
  flush?(): Awaitable<void>;
  /**
   * The messages of these surface nodes, as the session's own requests send them, for a
   * summary that keeps the provider's cache warm. `deadCalls` never got a result: each
   * needs a short error result after it. Absent where requests cannot be replayed.
   */
  messages?(seqs: Seq[], deadCalls: { node: Seq; callId: string }[]): Awaitable<unknown[]>;
}

/** A log in memory. */
export class MemoryLog implements SessionLog {
  readonly events: SessionEvent[] = [];

  constructor(readonly id: string) {}

  head(): Seq {
    return this.events.length;
  }

  read(start: Seq, limit: number): SessionEvent[] {
    return this.events.slice(start, start + limit);
  }

  append(drafts: Draft[], expectedHead?: Seq): Seq {
    const head = this.events.length;
    if (expectedHead !== undefined && expectedHead !== head) {
      throw new SessionError({ tag: 'conflict', val: head });
    }
    for (const draft of drafts) this.events.push({ seq: this.events.length, ...draft });
    return head;
  }

  /** Add an event that becomes the last node of the surface. */
  push(payload: Payload): Seq {
    return this.append([{ payload, surface: { tag: 'append' }, sources: [] }]);
  }

  /** Add an event that is not on the surface, such as a turn's start. */
  note(payload: Payload): Seq {
    return this.append([{ payload, sources: [] }]);
  }
}
