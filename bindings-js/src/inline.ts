/**
 * The package with its WebAssembly inside, compressed, for bundlers that lose files.
 * It runs the bindgen build everywhere.
 *
 * @module
 */

import { load } from './bindgen.js';
import { create, type Compactor, type CompactorOptions } from './compactor.js';
import engine from './wasm/engine-inline.js';

export * from './api.js';

/** Make a compactor. */
export function createCompactor(options: Omit<CompactorOptions, 'runtime'>): Promise<Compactor> {
  return create({ ...options, runtime: options.backend ? 'component' : 'bindgen' }, async () => {
    const bytes = Uint8Array.from(atob(engine), (character) => character.charCodeAt(0));
    const module = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return load(await new Response(module).arrayBuffer());
  });
}
