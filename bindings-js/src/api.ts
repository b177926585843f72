/** What every entry of the package offers beside its own `createCompactor`. */

export type * from './contract.js';
export type { TranspiledBackend } from './backend.js';
export { Compactor } from './compactor.js';
export type { AgentContext, CompactorConfig, CompactorOptions, PolicyOptions } from './compactor.js';
export { CompactError, type CompactErrorCode, ModelError, SessionError } from './errors.js';
export { MemoryLog, type SessionLog } from './log.js';
export { fromMessages, type MessageFormat, MessagesLog, toMessages } from './messages.js';
export type { CompactionEvent, Hooks, Model, ModelChunk, ModelRequest } from './model.js';
