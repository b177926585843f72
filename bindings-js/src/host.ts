/**
 * What the engine may ask of its host, over the caller's log, model and hooks.
 * Nothing is thrown into the engine, and every answer is checked before it crosses.
 */

import type {
  ContentBlock,
  ContractChunk,
  Draft,
  GenerateOptions,
  HostSummary,
  ModelFailure,
  ModelInfo,
  Outcome,
  Route,
  Seq,
  SessionEvent,
  SessionFailure,
  Usage,
} from './contract.js';
import { CompactError, messageOf, ModelError, SessionError } from './errors.js';
import type { SessionLog } from './log.js';
import type { CompactionEvent, Hooks, Model, ModelChunk, ModelRequest } from './model.js';
import { check, isOf, list, Mismatch, option, type Schema, u32 } from './schema.js';
import * as types from './types-schema.js';

/** An answer that is being generated. */
export interface HostGeneration {
  next(): Promise<Outcome<ContractChunk[], ModelFailure>>;
  cancel(): void;
}

/** One call's host: its session and signal, and what the session's owner supplies. */
export class Host {
  /** What a host function threw last, for the error that comes of it. */
  thrown: unknown;
  private readonly cancelled = new AbortController();

  constructor(
    readonly log: SessionLog,
    private readonly model: Model,
    private readonly hooks: Hooks | undefined,
    private readonly signal: AbortSignal | undefined,
    private readonly onEvent: ((event: CompactionEvent) => void) | undefined,
  ) {}

  id(): string {
    return this.log.id;
  }

  head(): Promise<Outcome<Seq, SessionFailure>> {
    return this.session('head', u32, () => this.log.head());
  }

  read(start: Seq, limit: number): Promise<Outcome<SessionEvent[], SessionFailure>> {
    return this.session('read', types.events, () => this.log.read(start, limit));
  }

  async append(drafts: Draft[], expectedHead: Seq | undefined): Promise<Outcome<Seq, SessionFailure>> {
    const appended = await this.session('append', u32, () => this.log.append(drafts, expectedHead));
    if (appended.tag === 'ok') this.tell(drafts, appended.val);
    return appended;
  }

  async flush(): Promise<Outcome<undefined, SessionFailure>> {
    return this.session('flush', { write() {}, read: () => undefined }, async () => {
      await this.log.flush?.();
      return undefined;
    });
  }

  aborted(): boolean {
    return this.signal?.aborted ?? false;
  }

  async describeModel(route: Route): Promise<ModelInfo | undefined> {
    try {
      const info = await this.model.describeModel?.(route);
      checked('model.describeModel', option(types.modelInfo), info);
      return info ?? undefined;
    } catch (error) {
      // What is not known is no reason to fail.
      this.thrown = error;
      return undefined;
    }
  }

  async stream(options: GenerateOptions): Promise<Outcome<HostGeneration, ModelFailure>> {
    const { signal, onEvent, log } = this;
    const ended = new AbortController();
    const abort = () => ended.abort(signal?.reason);
    if (signal?.aborted) return { tag: 'err', val: { tag: 'aborted' } };
    signal?.addEventListener('abort', abort, { once: true });
    const release = () => {
      signal?.removeEventListener('abort', abort);
      ended.abort();
    };
    try {
      const answer = await unlessAborted(
        ended.signal,
        this.request(options, ended.signal).then((request) => this.model.stream(request)),
      );
      const iterator = (answer as AsyncIterable<ModelChunk> | undefined)?.[Symbol.asyncIterator]?.();
      if (!iterator) throw new CompactError('host', 'model.stream did not answer an async iterable');
      const progress = (characters: number) => {
        const part = options.part ? { part: options.part } : {};
        onEvent?.({ type: 'summarising', sessionId: log.id, characters, ...part });
      };
      progress(0);
      const failed = (error: unknown) => this.modelFailure(error, signal);
      return { tag: 'ok', val: new Answer(iterator, ended.signal, release, failed, progress) };
    } catch (error) {
      release();
      return { tag: 'err', val: this.modelFailure(error, signal) };
    }
  }

  async estimateContentTokens(groups: ContentBlock[][]): Promise<Outcome<number[], string>> {
    try {
      const counts = await this.hooks?.estimateContentTokens?.(groups);
      checked('hooks.estimateContentTokens', list(u32), counts);
      return { tag: 'ok', val: counts as number[] };
    } catch (error) {
      this.thrown = error;
      return { tag: 'err', val: messageOf(error) };
    }
  }

  async summarize(transcript: string): Promise<Outcome<HostSummary, ModelFailure>> {
    const signal = this.signal ?? this.cancelled.signal;
    try {
      const call = Promise.resolve(this.hooks?.summarize?.(transcript, { session: this.log, signal }));
      const answer = await unlessAborted(signal, call);
      const summary = typeof answer === 'string' ? { content: [{ tag: 'text', val: answer }] } : answer;
      checked('hooks.summarize', types.summary, summary);
      return { tag: 'ok', val: summary as HostSummary };
    } catch (error) {
      return { tag: 'err', val: this.modelFailure(error, this.signal) };
    }
  }

  /** The request that the caller's model function is given. */
  private async request(options: GenerateOptions, signal: AbortSignal): Promise<ModelRequest> {
    const { route, prompt, maxTokens, purpose, part } = options;
    const common = {
      provider: route.provider,
      model: route.model,
      ...(maxTokens === undefined ? {} : { maxTokens }),
      purpose,
      ...(part ? { part } : {}),
      session: this.log,
      signal,
    };
    if (prompt.tag === 'standalone') {
      const { system, user, nodes } = prompt.val;
      return { ...common, system, messages: [{ role: 'user', content: user }], nodes, replay: false };
    }
    const { nodes, deadCalls, instruction } = prompt.val;
    const replayed = await this.log.messages?.(nodes, deadCalls);
    if (!Array.isArray(replayed)) throw new CompactError('host', 'session.messages did not answer an array');
    return { ...common, messages: [...replayed, { role: 'user', content: instruction }], replay: true };
  }

  private async session<T>(
    name: string,
    schema: Schema<T>,
    call: () => T | PromiseLike<T>,
  ): Promise<Outcome<T, SessionFailure>> {
    try {
      const value = await call();
      checked(`session.${name}`, schema, value);
      return { tag: 'ok', val: value };
    } catch (error) {
      this.thrown = error;
      const failure = (error as SessionError | undefined)?.failure;
      if (failure && isOf(types.sessionFailure, failure)) return { tag: 'err', val: failure };
      const tag = CompactError.isInstance(error) ? 'other' : 'unavailable';
      return { tag: 'err', val: { tag, val: messageOf(error) } };
    }
  }

  private modelFailure(error: unknown, signal: AbortSignal | undefined): ModelFailure {
    if (signal?.aborted) return { tag: 'aborted' };
    this.thrown = error;
    const failure = (error as ModelError | undefined)?.failure;
    if (failure && isOf(types.modelFailure, failure)) return failure;
    return { tag: 'other', val: messageOf(error) };
  }

  /** Tell of a compaction by what it appends. */
  private tell(drafts: Draft[], first: Seq): void {
    const { onEvent } = this;
    if (!onEvent) return;
    const sessionId = this.log.id;
    const prunes = drafts.filter((draft) => draft.payload.tag === 'compact-prune').length;
    if (prunes) onEvent({ type: 'pruning', sessionId, results: prunes });
    drafts.forEach(({ payload }, index) => {
      const seq = first + index;
      if (payload.tag === 'compact-start') onEvent({ type: 'started', sessionId, seq });
      if (payload.tag !== 'compact-end') return;
      const { error } = payload.val;
      onEvent(error === undefined ? { type: 'landed', sessionId, seq } : { type: 'failed', sessionId, error });
    });
  }
}

/** Reads an answer ahead of the engine, so that what has arrived crosses at once. */
class Answer implements HostGeneration {
  private readonly arrived: ContractChunk[] = [];
  private failure: ModelFailure | undefined;
  private ended = false;
  private wake: (() => void) | undefined;
  private characters = 0;

  constructor(
    private readonly iterator: AsyncIterator<ModelChunk>,
    private readonly signal: AbortSignal,
    private readonly release: () => void,
    private readonly failed: (error: unknown) => ModelFailure,
    private readonly progress: (characters: number) => void,
  ) {
    signal.addEventListener('abort', () => this.end({ tag: 'aborted' }), { once: true });
    void this.pump();
  }

  async next(): Promise<Outcome<ContractChunk[], ModelFailure>> {
    if (!this.arrived.length && !this.ended) {
      await new Promise<void>((wake) => {
        this.wake = wake;
      });
      // What comes in the same breath goes along.
      await new Promise<void>((later) => setTimeout(later, 0));
    }
    if (this.arrived.length) return { tag: 'ok', val: this.arrived.splice(0) };
    if (this.failure) return { tag: 'err', val: this.failure };
    return { tag: 'ok', val: [] };
  }

  cancel(): void {
    this.end(undefined);
    this.release();
  }

  private async pump(): Promise<void> {
    try {
      while (!this.ended) {
        const { done, value } = await this.iterator.next();
        if (done || this.ended) break;
        this.take(value);
      }
      this.end(undefined);
    } catch (error) {
      this.end(this.failed(error));
    }
    // An iterator that does not take being ended early is its owner's affair.
    if (this.signal.aborted) Promise.resolve(this.iterator.return?.()).catch(() => {});
  }

  private take(chunk: ModelChunk): void {
    const piece = toContract(chunk);
    const last = this.arrived.at(-1);
    if (piece.tag === 'text') {
      this.characters += piece.val.length;
      this.progress(this.characters);
    }
    if (last && last.tag === piece.tag && (piece.tag === 'text' || piece.tag === 'reasoning')) {
      last.val += piece.val;
    } else {
      this.arrived.push(piece);
    }
    this.wake?.();
  }

  private end(failure: ModelFailure | undefined): void {
    if (this.ended) return;
    this.ended = true;
    this.failure = failure;
    this.wake?.();
  }
}

function toContract(chunk: ModelChunk): ContractChunk {
  const piece = ((): unknown => {
    switch (chunk?.type) {
      case 'text':
      case 'reasoning':
        return { tag: chunk.type, val: chunk.text };
      case 'tool-call':
        return { tag: 'tool-call', val: { callId: chunk.id, name: chunk.name, arguments: chunk.arguments } };
      case 'other':
        return { tag: 'other', val: chunk.kind };
      case 'finish':
        return { tag: 'finish', val: { reason: chunk.reason, usage: chunk.usage && fullUsage(chunk.usage) } };
      default:
        return { tag: (chunk as { type?: unknown } | undefined)?.type };
    }
  })();
  checked('model.stream', types.chunks, [piece]);
  return piece as ContractChunk;
}

/** Zero where the provider reported nothing. */
function fullUsage(usage: Partial<Usage>): Usage {
  return { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, ...usage };
}

function checked<T>(name: string, schema: Schema<T>, value: unknown): void {
  try {
    check(schema, value);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    throw new CompactError('host', `${name} answered what it should not: ${error.message}`, false, undefined, {
      cause: error,
    });
  }
}

/** What a promise is kept with, unless the signal comes first. */
async function unlessAborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  if (signal.aborted) throw signal.reason;
  let abort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    if (abort) signal.removeEventListener('abort', abort);
  }
}
