/** Loads a build in workerd, which compiles no module at run time: they are imported. */

import type { Backend } from './backend.js';

export async function loadBackend(kind: 'component' | 'bindgen'): Promise<Backend> {
  if (kind === 'bindgen') {
    const [{ load }, { default: engine }] = await Promise.all([
      import('./bindgen.js'),
      import('./wasm/engine_bg.wasm'),
    ]);
    return load(engine);
  }
  const [{ load }, { instantiate }, core, core2, core3] = await Promise.all([
    import('./component.js'),
    import('./wasm/compactor.js'),
    import('./wasm/compactor.core.wasm'),
    import('./wasm/compactor.core2.wasm'),
    import('./wasm/compactor.core3.wasm'),
  ]);
  const modules = {
    'compactor.core.wasm': core.default,
    'compactor.core2.wasm': core2.default,
    'compactor.core3.wasm': core3.default,
  };
  return load({ instantiate, modules });
}
