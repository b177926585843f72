/**
 * Context compaction for agent loops.
 *
 * @module
 */

import { loadBackend } from '#load';

import { create, type CompactorOptions, type Compactor } from './compactor.js';

export * from './api.js';

/**
 * Make a compactor. It loads one build of the engine: the component where the
 * runtime can suspend a WebAssembly stack, else the one that awaits promises.
 * What they do is the same.
 */
export function createCompactor(options: CompactorOptions): Promise<Compactor> {
  return create(options, loadBackend);
}
