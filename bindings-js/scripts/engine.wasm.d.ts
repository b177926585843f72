declare const engine: WebAssembly.Module;
export default engine;
