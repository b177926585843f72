/** Loads a build from the package's files: in Node, Bun, Deno and browsers. */

import type { Backend } from './backend.js';

export async function loadBackend(kind: 'component' | 'bindgen'): Promise<Backend> {
  return kind === 'component'
    ? (await import('./load-component.js')).load()
    : (await import('./load-bindgen.js')).load();
}
