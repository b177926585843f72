/** A module from its file, wherever that is, or from its bytes. */
export async function compile(source: URL | WebAssembly.Module | BufferSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (!(source instanceof URL)) return WebAssembly.compile(source);
  const url = source;
  if (url.protocol === 'file:') {
    // Put together, so that bundlers for browsers do not look for it.
    const files = ['node', 'fs/promises'].join(':');
    const { readFile } = (await import(/* @vite-ignore */ /* webpackIgnore: true */ files)) as typeof import('node:fs/promises');
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} could not be loaded: ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
}
