import { load as loadModule } from './bindgen.js';
import { compile } from './compile.js';

export async function load() {
  return loadModule(await compile(new URL('./wasm/engine_bg.wasm', import.meta.url)));
}
