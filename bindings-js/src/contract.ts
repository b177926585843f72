/**
 * The plain data of the contract (`wit/`), as it appears in JavaScript: records as
 * objects with camelCase fields, variants as `{ tag, val }`, enums as texts, and
 * absent options as `undefined`. Seqs and token figures are numbers.
 */

/** Position of an event in a session log: 0 for the first, then contiguous. */
export type Seq = number;

/** Inclusive span of surface positions, by the seqs of its ends. `start` can exceed `end`. */
export interface SurfaceRange {
  start: Seq;
  end: Seq;
}

/** Where a model call goes. An empty `provider` leaves the choice to the host. */
export interface Route {
  provider: string;
  model: string;
}

/** Tokens a provider reported for one call, in disjoint buckets. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
}

/** A model's request to run a tool; `arguments` is the JSON text that it produced. */
export interface ToolCall {
  callId: string;
  name: string;
  arguments: string;
}

/** An image by description: its bytes stay with the host. */
export interface Image {
  mediaType: string;
  byteLength: number;
}

/** A block of a kind that the engine does not know, as its JSON text. */
export interface Opaque {
  kind: string;
  json: string;
}

/** What a tool result can hold. */
export type ResultBlock =
  | { tag: 'text'; val: string }
  | { tag: 'reasoning'; val: string }
  | { tag: 'image'; val: Image }
  | { tag: 'opaque'; val: Opaque };

/** What a tool answered. */
export interface ToolResult {
  callId: string;
  isError: boolean;
  content: ResultBlock[];
}

/** One block of a message. */
export type ContentBlock =
  | { tag: 'text'; val: string }
  | { tag: 'reasoning'; val: string }
  | { tag: 'tool-call'; val: ToolCall }
  | { tag: 'tool-result'; val: ToolResult }
  | { tag: 'image'; val: Image }
  | { tag: 'opaque'; val: Opaque };

/** A message of the session prefix, which the host sends before the surface. */
export interface Message {
  role: 'user' | 'assistant';
  content: ContentBlock[];
}

/** What an event says. */
export type Payload =
  | { tag: 'turn-start'; val: number }
  | { tag: 'turn-end'; val: number }
  | { tag: 'step-start'; val: { turn: number; step: number } }
  | { tag: 'step-end'; val: { turn: number; step: number } }
  | { tag: 'request-header'; val: { route: Route; overheadTokens: number; fingerprint: string } }
  | { tag: 'user-message'; val: { content: ContentBlock[]; source: string; pinned: boolean } }
  | { tag: 'assistant-message'; val: { content: ContentBlock[]; usage?: Usage | undefined } }
  | { tag: 'tool-result'; val: ToolResult }
  | { tag: 'context-message'; val: ContentBlock[] }
  | { tag: 'steering-message'; val: ContentBlock[] }
  | { tag: 'compact-start'; val: { turn?: number | undefined } }
  | { tag: 'compact-summary'; val: CompactSummary }
  | { tag: 'compact-prune'; val: { shadowedRange: SurfaceRange; shadowedTokenCount: number } }
  | { tag: 'compact-end'; val: { turn?: number | undefined; error?: string | undefined } }
  | { tag: 'reopened' }
  | { tag: 'other'; val: string };

/** What a compaction wrote, and how. */
export interface CompactSummary {
  summary: ContentBlock[];
  shadowedRange: SurfaceRange;
  shadowedSeqs: Seq[];
  shadowedTokenCount: number;
  model?: Route | undefined;
  maxTokens?: number | undefined;
  usage?: Usage | undefined;
}

/** What an event does to the surface, the nodes that the next request is made from. */
export type SurfaceOp = { tag: 'append' } | { tag: 'replace'; val: SurfaceRange };

/** An event that the log has not numbered yet. */
export interface Draft {
  payload: Payload;
  surface?: SurfaceOp | undefined;
  sources: Seq[];
}

/** An entry of a session log. */
export interface SessionEvent extends Draft {
  seq: Seq;
}

/** What is known of a model. */
export interface ModelInfo {
  /**
   * Tokens of input and output together. 4294967295 for a summariser that reads the nodes
   * which a prompt names from the session itself: its prompts carry no text of them.
   */
  contextWindow: number;
  maxOutputTokens?: number | undefined;
}

/** A prompt that holds everything it needs, or the session's own request replayed. */
export type Prompt =
  | { tag: 'standalone'; val: { system: string; user: string; nodes: Seq[] } }
  | { tag: 'replay'; val: { nodes: Seq[]; deadCalls: { node: Seq; callId: string }[]; instruction: string } };

/** One model call, as the engine asks for it. */
export interface GenerateOptions {
  route: Route;
  prompt: Prompt;
  maxTokens?: number | undefined;
  purpose: string;
  part?: { index: number; count: number } | undefined;
}

/** Why an answer ended. */
export type FinishReason = 'stop' | 'max-tokens' | 'tool-calls' | 'content-filter' | 'other';

/** One piece of a streamed answer, as it crosses to the engine. */
export type ContractChunk =
  | { tag: 'text'; val: string }
  | { tag: 'reasoning'; val: string }
  | { tag: 'tool-call'; val: ToolCall }
  | { tag: 'other'; val: string }
  | { tag: 'finish'; val: { reason: FinishReason; usage?: Usage | undefined } };

/** Why a session log could not do what was asked. */
export type SessionFailure =
  | { tag: 'conflict'; val: Seq }
  | { tag: 'rejected'; val: string }
  | { tag: 'corrupt'; val: string }
  | { tag: 'unavailable'; val: string }
  | { tag: 'other'; val: string };

/** Why a model call failed. */
export type ModelFailure =
  | { tag: 'context-overflow'; val: string }
  | { tag: 'rate-limited'; val?: number | undefined }
  | { tag: 'unavailable'; val: string }
  | { tag: 'refused'; val: string }
  | { tag: 'aborted' }
  | { tag: 'other'; val: string };

/** What the next request is made of, in estimated tokens. */
export interface Measurement {
  totalTokens: number;
  surfaceTokens: number;
  thresholdTokens: number;
  retainTokens: number;
  contextWindow: number;
  nodes: number;
}

/** One node of the surface. */
export interface SurfaceNode {
  seq: Seq;
  kind: 'user' | 'assistant' | 'tool-result' | 'context' | 'steering' | 'checkpoint';
  tokens: number;
  /** Whether a cut directly before it parts no call from its result. */
  balancedBefore: boolean;
  openCalls: string[];
  deadCalls: string[];
  orphanedResults: string[];
  pinned: boolean;
}

/** What a compaction did. */
export interface CompactionResult {
  startSeq: Seq;
  summarySeq: Seq;
  endSeq: Seq;
  summary: ContentBlock[];
  shadowedRange: SurfaceRange;
  shadowedSeqs: Seq[];
  shadowedTokenCount: number;
  removedCallIds: string[];
  elidedSeqs: Seq[];
  before: Measurement;
  after: Measurement;
}

/** A tool result that was rewritten shorter. */
export interface Pruned {
  originalSeq: Seq;
  replacementSeq: Seq;
  callId: string;
  charsBefore: number;
  charsAfter: number;
}

/** A summary that the host made. */
export interface HostSummary {
  content: ContentBlock[];
  model?: Route | undefined;
  maxTokens?: number | undefined;
  usage?: Usage | undefined;
}

/** The contract's error, as both builds answer it. */
export type CompactFailure =
  | { tag: 'busy'; val: Seq }
  | { tag: 'not-on-surface'; val: Seq }
  | { tag: 'inverted-range'; val: SurfaceRange }
  | { tag: 'unbalanced'; val: Seq }
  | { tag: 'changed' }
  | { tag: 'aborted' }
  | {
      tag: 'summary-rejected';
      val:
        | { tag: 'empty' }
        | { tag: 'truncated' }
        | { tag: 'not-smaller'; val: [number, number] }
        | { tag: 'unsupported'; val: string };
    }
  | { tag: 'model'; val: ModelFailure }
  | { tag: 'session'; val: SessionFailure }
  | { tag: 'not-converged'; val: [number, number] }
  | { tag: 'irreducible'; val: [number, number] }
  | { tag: 'config'; val: { key: string; message: string } }
  | { tag: 'hook'; val: { hook: string; message: string } }
  | { tag: 'other'; val: string };

/** What an imported function answers: nothing is thrown into the engine. */
export type Outcome<T, E> = { tag: 'ok'; val: T } | { tag: 'err'; val: E };
