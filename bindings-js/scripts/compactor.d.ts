/** The component, transpiled. */
export declare function instantiate(
  getCoreModule: (path: string) => Promise<WebAssembly.Module> | WebAssembly.Module,
  imports: Record<string, unknown>,
  instantiateCore?: (module: WebAssembly.Module, imports: Record<string, any>) => Promise<WebAssembly.Instance>,
): Promise<Record<string, any>>;
