/** The module that reads session files: the command's, which the library does not load. */

import { readFileSync } from 'node:fs';

import * as glue from './wasm/command.js';

let loaded: Promise<typeof glue> | undefined;

/** Load it, once. */
export function load(): Promise<typeof glue> {
  loaded ??= (async () => {
    const bytes = readFileSync(new URL('./wasm/command_bg.wasm', import.meta.url));
    await glue.default({ module_or_path: await WebAssembly.compile(bytes) });
    return glue;
  })();
  return loaded;
}
