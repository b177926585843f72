/**
 * Context compaction for agent loops.
 *
 * @module
 */

import { loadBackend } from '#load';

import { create, type CompactorOptions, type Compactor } from './compactor.js';

export type * from './contract.js';
export { Compactor } from './compactor.js';
export type { AgentContext, CompactorConfig, CompactorOptions, PolicyOptions } from './compactor.js';
export { CompactError, type CompactErrorCode, ModelError, SessionError } from './errors.js';
export { MemoryLog, type SessionLog } from './log.js';
export { fromMessages, type MessageFormat, MessagesLog, toMessages } from './messages.js';
export type { CompactionEvent, Hooks, Model, ModelChunk, ModelRequest } from './model.js';

/**
 * Make a compactor. It loads one build of the engine: the component where the
 * runtime can suspend a WebAssembly stack, else the one that awaits promises.
 * What they do is the same.
 */
export function createCompactor(options: CompactorOptions): Promise<Compactor> {
  return create(options, loadBackend);
}
