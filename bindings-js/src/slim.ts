/**
 * The package without its WebAssembly files: the caller hands in the module, where
 * a bundler or a runtime needs to see it imported.
 *
 * ```js
 * import engine from 'harness-compact/engine.wasm'; // as your tools import modules
 * const compactor = await createCompactor({ engine, model });
 * ```
 *
 * @module
 */

import { load } from './bindgen.js';
import { create, type Compactor, type CompactorOptions } from './compactor.js';

export * from './api.js';

/** How to make a compactor, with the module of the bindgen build. */
export interface SlimOptions extends Omit<CompactorOptions, 'runtime'> {
  /** The package's `engine.wasm`: a module, or its bytes. */
  engine: WebAssembly.Module | BufferSource;
}

/** Make a compactor with the module that is handed in. */
export function createCompactor(options: SlimOptions): Promise<Compactor> {
  return create({ ...options, runtime: options.backend ? 'component' : 'bindgen' }, () => load(options.engine));
}
