import type { ModelFailure } from './contract.js';

/** How providers word that a request is too long. */
const OVERFLOW = [
  'context_length_exceeded',
  'context length',
  'context window',
  'context size',
  'exceed_context_size',
  'maximum context',
  'max_prompt_tokens',
  'prompt is too long',
  'input is too long',
  'too many tokens',
  'reduce the length',
  'maximum prompt length',
  'exceeds the maximum number of tokens',
];

function speaksOfOverflow(text: string): boolean {
  const lower = text.toLowerCase();
  return OVERFLOW.some((phrase) => lower.includes(phrase));
}

function text(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error));
}

/** An error of the AI SDK's providers, as it marks its own, whichever copy made it. */
interface ApiCallError {
  statusCode?: number;
  responseHeaders?: Record<string, string>;
  responseBody?: string;
}

const marker = Symbol.for('vercel.ai.error.AI_APICallError');

function isApiCallError(error: unknown): error is ApiCallError {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[marker] === true;
}

/**
 * What a provider's error means. The status decides first: a rate limit that speaks of
 * tokens is no overflow.
 */
export function toFailure(error: unknown): ModelFailure {
  const retried = (error as { lastError?: unknown } | null)?.lastError;
  if (retried !== undefined) return toFailure(retried);
  const told = text(error);
  // What comes inside a stream is whatever the provider sent.
  if (!isApiCallError(error)) {
    return speaksOfOverflow(told) ? { tag: 'context-overflow', val: told } : { tag: 'other', val: told };
  }
  const { statusCode: status, responseHeaders: headers = {}, responseBody = '' } = error;
  if (status === 429) {
    const after = Number(headers['retry-after-ms'] ?? Number(headers['retry-after']) * 1000);
    return { tag: 'rate-limited', val: Number.isFinite(after) ? Math.min(Math.max(Math.round(after), 0), 86_400_000) : undefined };
  }
  if (status === undefined || status === 408 || status >= 500) return { tag: 'unavailable', val: told };
  if ([400, 413, 422].includes(status) && speaksOfOverflow(told + responseBody)) {
    return { tag: 'context-overflow', val: told };
  }
  return { tag: 'refused', val: `HTTP ${status}: ${told}` };
}
