/** The contract's types, in the engine's order of fields and cases. */

import type * as contract from './contract.js';
import { bool, f64, list, oneOf, option, pair, record, type Schema, text, u32, variant } from './schema.js';

const range = record({ start: u32, end: u32 });
export const route = record({ provider: text, model: text });
const usage = record({
  inputTokens: u32,
  outputTokens: u32,
  cacheReadTokens: u32,
  cacheWriteTokens: u32,
});
const toolCall = record({ callId: text, name: text, arguments: text });
const image = record({ mediaType: text, byteLength: u32 });
const opaque = record({ kind: text, json: text });
const resultBlock = variant<contract.ResultBlock>({ text, reasoning: text, image, opaque });
const toolResult = record({ callId: text, isError: bool, content: list(resultBlock) });
const block = variant<contract.ContentBlock>({
  text,
  reasoning: text,
  'tool-call': toolCall,
  'tool-result': toolResult,
  image,
  opaque,
});
export const content: Schema<contract.ContentBlock[]> = list(block);
export const messages: Schema<contract.Message[]> = list(
  record({ role: oneOf('user', 'assistant'), content }),
);

const step = record({ turn: u32, step: u32 });
const payload = variant<contract.Payload>({
  'turn-start': u32,
  'turn-end': u32,
  'step-start': step,
  'step-end': step,
  'request-header': record({ route, overheadTokens: u32, fingerprint: text }),
  'user-message': record({ content, source: text, pinned: bool }),
  'assistant-message': record({ content, usage: option(usage) }),
  'tool-result': toolResult,
  'context-message': content,
  'steering-message': content,
  'compact-start': record({ turn: option(u32) }),
  'compact-summary': record({
    summary: content,
    shadowedRange: range,
    shadowedSeqs: list(u32),
    shadowedTokenCount: u32,
    model: option(route),
    maxTokens: option(u32),
    usage: option(usage),
  }),
  'compact-prune': record({ shadowedRange: range, shadowedTokenCount: u32 }),
  'compact-end': record({ turn: option(u32), error: option(text) }),
  reopened: null,
  other: text,
});
const surface = option(variant<contract.SurfaceOp>({ append: null, replace: range }));
export const events: Schema<contract.SessionEvent[]> = list(
  record({ seq: u32, payload, surface, sources: list(u32) }),
);
export const drafts: Schema<contract.Draft[]> = list(
  record({ payload, surface, sources: list(u32) }),
);
export const sessionFailure = variant<contract.SessionFailure>({
  conflict: u32,
  rejected: text,
  corrupt: text,
  unavailable: text,
  other: text,
});

export const modelInfo: Schema<contract.ModelInfo> = record({
  contextWindow: u32,
  maxOutputTokens: option(u32),
});
export const generateOptions: Schema<contract.GenerateOptions> = record({
  route,
  prompt: variant<contract.Prompt>({
    standalone: record({ system: text, user: text, nodes: list(u32) }),
    replay: record({
      nodes: list(u32),
      deadCalls: list(record({ node: u32, callId: text })),
      instruction: text,
    }),
  }),
  maxTokens: option(u32),
  purpose: text,
  part: option(record({ index: u32, count: u32 })),
});
export const chunks: Schema<contract.ContractChunk[]> = list(
  variant<contract.ContractChunk>({
    text,
    reasoning: text,
    'tool-call': toolCall,
    other: text,
    finish: record({
      reason: oneOf('stop', 'max-tokens', 'tool-calls', 'content-filter', 'other'),
      usage: option(usage),
    }),
  }),
);
export const modelFailure = variant<contract.ModelFailure>({
  'context-overflow': text,
  'rate-limited': option(u32),
  unavailable: text,
  refused: text,
  aborted: null,
  other: text,
});
export const summary: Schema<contract.HostSummary> = record({
  content,
  model: option(route),
  maxTokens: option(u32),
  usage: option(usage),
});

const policy = record({
  thresholdRatio: option(f64),
  thresholdTokens: option(u32),
  retainTokens: option(u32),
  retainRatio: option(f64),
  summarizationRoute: option(route),
  summarizationMaxTokens: option(u32),
  compactionRetries: option(u32),
  summaryRetries: option(u32),
});
export const config = record({
  contextWindow: option(u32),
  policy,
  modelPolicies: list(record({ route, policy })),
  charsPerToken: option(f64),
  scriptAware: option(bool),
  usageAnchor: option(oneOf('off', 'delta', 'calibrated')),
  imageTokens: option(u32),
  summarizationInput: option(oneOf('auto', 'transcript', 'replay')),
  protectInFlightTurn: option(bool),
  prune: option(record({ thresholdChars: option(u32), headChars: option(u32), tailChars: option(u32) })),
  instructions: option(text),
  hooks: record({ estimateContentTokens: bool, summarize: bool }),
});
export const configFailure = record({ key: text, message: text });
export const agent = record({
  route: option(route),
  contextWindow: option(u32),
  outputTokens: option(u32),
  toolsTokens: u32,
  canReplay: bool,
});
export const trigger = oneOf('pressure', 'context-overflow');
export const surfaceRange: Schema<contract.SurfaceRange> = range;
export const measurement: Schema<contract.Measurement> = record({
  totalTokens: u32,
  surfaceTokens: u32,
  thresholdTokens: u32,
  retainTokens: u32,
  contextWindow: u32,
  nodes: u32,
});
export const surfaceNodes: Schema<contract.SurfaceNode[]> = list(
  record({
    seq: u32,
    kind: oneOf('user', 'assistant', 'tool-result', 'context', 'steering', 'checkpoint'),
    tokens: u32,
    balancedBefore: bool,
    openCalls: list(text),
    deadCalls: list(text),
    orphanedResults: list(text),
    pinned: bool,
  }),
);
export const compactionResult: Schema<contract.CompactionResult> = record({
  startSeq: u32,
  summarySeq: u32,
  endSeq: u32,
  summary: content,
  shadowedRange: range,
  shadowedSeqs: list(u32),
  shadowedTokenCount: u32,
  removedCallIds: list(text),
  elidedSeqs: list(u32),
  before: measurement,
  after: measurement,
});
export const nowOptions = record({ instructions: option(text), retainTokens: option(u32) });
export const pruned: Schema<contract.Pruned[]> = list(
  record({ originalSeq: u32, replacementSeq: u32, callId: text, charsBefore: u32, charsAfter: u32 }),
);
export const compactFailure = variant<contract.CompactFailure>({
  busy: u32,
  'not-on-surface': u32,
  'inverted-range': range,
  unbalanced: u32,
  changed: null,
  aborted: null,
  'summary-rejected': variant({ empty: null, truncated: null, 'not-smaller': pair(u32, u32), unsupported: text }),
  model: modelFailure,
  session: sessionFailure,
  'not-converged': pair(u32, u32),
  irreducible: pair(u32, u32),
  config: configFailure,
  hook: record({ hook: text, message: text }),
  other: text,
});

export type Config = typeof config extends Schema<infer T> ? T : never;
export type Agent = typeof agent extends Schema<infer T> ? T : never;
export type Trigger = typeof trigger extends Schema<infer T> ? T : never;
export type NowOptions = typeof nowOptions extends Schema<infer T> ? T : never;
