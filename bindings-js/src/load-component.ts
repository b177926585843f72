import { load as loadComponent } from './component.js';
import { instantiate } from './wasm/compactor.js';

export async function load() {
  const modules: Record<string, URL> = {
    'compactor.core.wasm': new URL('./wasm/compactor.core.wasm', import.meta.url),
    'compactor.core2.wasm': new URL('./wasm/compactor.core2.wasm', import.meta.url),
    'compactor.core3.wasm': new URL('./wasm/compactor.core3.wasm', import.meta.url),
  };
  return loadComponent({ instantiate, modules });
}
