import type { ContentBlock, HostSummary, ModelInfo, Route, Usage, Seq } from './contract.js';
import type { SessionLog } from './log.js';

type Awaitable<T> = T | PromiseLike<T>;

/** A model call, as the engine asks for it. */
export interface ModelRequest {
  /** Where it goes. Both are empty where the choice is yours. */
  provider: string;
  model: string;
  /** The system prompt; absent in a replay, which goes under the session's own. */
  system?: string;
  /** The messages: one of the user's, or in a replay the session's and one more. */
  messages: unknown[];
  /** The surface nodes that the message carries; absent in a replay. */
  nodes?: Seq[];
  /**
   * Whether it is the session's own request, replayed: send it with the session's
   * system prompt and tools, exactly as the last one was sent.
   */
  replay: boolean;
  /** Generation cap, reasoning included. */
  maxTokens?: number;
  /** Why the call is made: `compaction`. */
  purpose: string;
  /** Which part of a summary it makes, where a range is summarised in several calls. */
  part?: { index: number; count: number };
  /** The session that it is made for. */
  session: SessionLog;
  /** Aborts with the caller's signal, or when the answer is not wanted any more. */
  signal: AbortSignal;
}

/** One piece of a streamed answer. */
export type ModelChunk =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'tool-call'; id: string; name: string; arguments: string }
  /** Output of any other kind, by name. */
  | { type: 'other'; kind: string }
  /** The end. An answer that ends without one was cut off. */
  | { type: 'finish'; reason: 'stop' | 'max-tokens' | 'tool-calls' | 'content-filter' | 'other'; usage?: Partial<Usage> };

/** Calls language models. What it throws fails the compaction. */
export interface Model {
  /** Start a call; the answer comes as chunks. */
  stream(request: ModelRequest): Awaitable<AsyncIterable<ModelChunk>>;
  /** What is known of a model; undefined where nothing is. */
  describeModel?(route: Route): Awaitable<ModelInfo | undefined>;
}

/** Steps that the host takes over, each by being there. */
export interface Hooks {
  /** Tokens of each group of blocks, in order. */
  estimateContentTokens?(groups: ContentBlock[][]): Awaitable<number[]>;
  /** Condense a transcript. */
  summarize?(
    transcript: string,
    context: { session: SessionLog; signal: AbortSignal },
  ): Awaitable<string | HostSummary>;
}

/** How a compaction goes on. */
export type CompactionEvent =
  | { type: 'started'; sessionId: string; seq: number }
  | { type: 'pruning'; sessionId: string; results: number }
  | { type: 'summarising'; sessionId: string; characters: number; part?: { index: number; count: number } }
  | { type: 'landed'; sessionId: string; seq: number }
  | { type: 'failed'; sessionId: string; error: string };
