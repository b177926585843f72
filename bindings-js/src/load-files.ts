/** The module that reads session files: the command's, which the library does not load. */

import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';

import * as glue from './wasm/command.js';

let loaded: Promise<typeof glue> | undefined;

/** Load it, once. */
export function load(): Promise<typeof glue> {
  loaded ??= (async () => {
    const packed = readFileSync(new URL('./wasm/command_bg.wasm.br', import.meta.url));
    await glue.default({ module_or_path: await WebAssembly.compile(brotliDecompressSync(packed)) });
    return glue;
  })();
  return loaded;
}
