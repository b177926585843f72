/**
 * Context compaction for agent loops.
 *
 * @module
 */

import type { Backend } from './backend.js';
import { Compactor, type CompactorOptions } from './compactor.js';
import { CompactError } from './errors.js';

export type * from './contract.js';
export { Compactor } from './compactor.js';
export type { AgentContext, CompactorConfig, CompactorOptions, PolicyOptions } from './compactor.js';
export { CompactError, type CompactErrorCode, ModelError, SessionError } from './errors.js';
export { MemoryLog, type SessionLog } from './log.js';
export type { CompactionEvent, Hooks, Model, ModelChunk, ModelRequest } from './model.js';

const loaded = new Map<string, Promise<Backend>>();

/**
 * Make a compactor. It loads one build of the engine: the component where the
 * runtime can suspend a WebAssembly stack, else the one that awaits promises.
 * What they do is the same.
 */
export async function createCompactor(options: CompactorOptions): Promise<Compactor> {
  const suspends = 'Suspending' in WebAssembly;
  const wanted = options.runtime ?? 'auto';
  if (wanted === 'component' && !suspends) {
    throw new CompactError('unsupported-runtime', 'this runtime cannot suspend WebAssembly; use `bindgen` or `auto`');
  }
  const kind = wanted === 'auto' ? (suspends ? 'component' : 'bindgen') : wanted;
  let backend = loaded.get(kind);
  if (!backend) {
    backend = kind === 'component' ? import('./load-component.js').then((m) => m.load()) : import('./load-bindgen.js').then((m) => m.load());
    loaded.set(kind, backend);
  }
  const compactor = new Compactor(await backend, options);
  await compactor.start();
  return compactor;
}
