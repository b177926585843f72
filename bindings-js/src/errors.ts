import type { CompactFailure, ModelFailure, SessionFailure } from './contract.js';

/** Marks errors of this package, whichever copy of it made them. */
const marker = Symbol.for('harness-compact.error');

/** What a {@link CompactError} is about: the contract's cases, and this package's own. */
export type CompactErrorCode = CompactFailure['tag'] | 'host' | 'trap' | 'backend' | 'disposed' | 'unsupported-runtime';

/** Why a compaction did not happen. The session is then as it was. */
export class CompactError extends Error {
  override readonly name = 'CompactError';

  /**
   * @param code what kind of error it is; stable
   * @param message for a person
   * @param retryable whether the same call may succeed later
   * @param failure the contract's error, with its figures, where it is one
   */
  constructor(
    readonly code: CompactErrorCode,
    message: string,
    readonly retryable: boolean = false,
    readonly failure?: CompactFailure,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    Object.defineProperty(this, marker, { value: true });
  }

  /** Whether `error` is one, also where another copy of this package made it. */
  static isInstance(error: unknown): error is CompactError {
    return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[marker] === true;
  }
}

/** To be thrown by a model function that knows what went wrong. */
export class ModelError extends Error {
  override readonly name = 'ModelError';
  constructor(
    readonly failure: ModelFailure,
    options?: { cause?: unknown },
  ) {
    super(describeModel(failure), options);
  }
}

/** To be thrown by a session log that knows what went wrong; a conflict must be told so. */
export class SessionError extends Error {
  override readonly name = 'SessionError';
  constructor(
    readonly failure: SessionFailure,
    options?: { cause?: unknown },
  ) {
    super(describeSession(failure), options);
  }
}

/** What an error says, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function describeModel(failure: ModelFailure): string {
  switch (failure.tag) {
    case 'context-overflow':
      return `the request does not fit the model's window (${failure.val})`;
    case 'rate-limited':
      return failure.val === undefined
        ? "the provider's rate limit is reached"
        : `the provider's rate limit is reached; retry in ${failure.val} ms`;
    case 'unavailable':
      return `the provider did not answer (${failure.val})`;
    case 'refused':
      return `the provider refused the request (${failure.val})`;
    case 'aborted':
      return 'aborted';
    case 'other':
      return failure.val;
  }
}

function describeSession(failure: SessionFailure): string {
  switch (failure.tag) {
    case 'conflict':
      return `the session log moved on; its head is now ${failure.val}`;
    case 'rejected':
      return `the session log refused the events: ${failure.val}`;
    case 'corrupt':
      return `the session log cannot be read: ${failure.val}`;
    case 'unavailable':
      return `the session storage did not answer: ${failure.val}`;
    case 'other':
      return failure.val;
  }
}

function describe(failure: CompactFailure): string {
  switch (failure.tag) {
    case 'busy':
      return `another compaction holds the session's lock since event ${failure.val}`;
    case 'not-on-surface':
      return `event ${failure.val} is not on the surface`;
    case 'inverted-range':
      return `event ${failure.val.start} lies after event ${failure.val.end} on the surface`;
    case 'unbalanced':
      return `a cut at event ${failure.val} would part a tool call from its result`;
    case 'changed':
      return 'the range changed while it was being summarised';
    case 'aborted':
      return 'aborted';
    case 'summary-rejected': {
      const why = failure.val;
      const told =
        why.tag === 'empty'
          ? 'it holds no text'
          : why.tag === 'truncated'
            ? 'it was cut off at the generation cap'
            : why.tag === 'not-smaller'
              ? `framed it takes ${why.val[0]} tokens, no fewer than the ${why.val[1]} it would replace`
              : `it holds ${why.val}, which a checkpoint cannot`;
      return `the summary was not accepted: ${told}`;
    }
    case 'model':
      return `the model call failed: ${describeModel(failure.val)}`;
    case 'session':
      return describeSession(failure.val);
    case 'not-converged':
      return `still at ${failure.val[0]} tokens after every attempt; the threshold is ${failure.val[1]}`;
    case 'irreducible':
      return `system prompt, tools and session prefix alone take ${failure.val[0]} tokens; the threshold is ${failure.val[1]}`;
    case 'config':
      return `configuration: ${failure.val.key}: ${failure.val.message}`;
    case 'hook':
      return `hook ${failure.val.hook}: ${failure.val.message}`;
    case 'other':
      return failure.val;
  }
}

function retryable(failure: CompactFailure): boolean {
  switch (failure.tag) {
    case 'busy':
    case 'changed':
      return true;
    case 'model':
      return failure.val.tag === 'unavailable' || failure.val.tag === 'rate-limited';
    case 'session':
      return failure.val.tag === 'unavailable' || failure.val.tag === 'conflict';
    default:
      return false;
  }
}

/** The contract's error as one to throw. `cause` is what a host function threw. */
export function fromFailure(failure: CompactFailure, cause?: unknown): CompactError {
  const options = cause === undefined ? undefined : { cause };
  return new CompactError(failure.tag, describe(failure), retryable(failure), failure, options);
}
