/** What both builds offer the package: one instance of the engine, one call at a time. */

import type { CompactFailure, CompactionResult, Measurement, Message, Outcome, Pruned, SurfaceNode, SurfaceRange } from './contract.js';
import type { Host } from './host.js';
import type { Agent, Config, NowOptions, Trigger } from './types-schema.js';

export type Answered<T> = Promise<Outcome<T, CompactFailure>>;

/** An instance with its compactor. A rejection, other than by an outcome, is a trap. */
export interface Instance {
  measure(host: Host, agent: Agent, prompt: string, prefix: Message[]): Answered<Measurement>;
  surface(host: Host): Answered<SurfaceNode[]>;
  compactIfNeeded(
    host: Host,
    agent: Agent,
    prompt: string,
    prefix: Message[],
    trigger: Trigger,
  ): Answered<CompactionResult | undefined>;
  compactRegion(host: Host, range: SurfaceRange, agent: Agent): Answered<CompactionResult>;
  compactNow(host: Host, agent: Agent, options: NowOptions): Answered<CompactionResult | undefined>;
  prune(host: Host): Answered<Pruned[]>;
  /** Forget a session that will not be used again. */
  forget(sessionId: string): void;
  dispose(): void;
}

/** A loaded build. */
export interface Backend {
  readonly kind: 'component' | 'bindgen';
  /** Make an instance; the error is the configuration's. */
  instantiate(config: Config): Promise<Outcome<Instance, { key: string; message: string }>>;
}

/**
 * A backend of somebody else's: a component of the world `harness:compact/compactor`, as
 * `harness-compact-transpile` makes a JavaScript module of it.
 */
export interface TranspiledBackend {
  /** What jco made of it, by `--instantiation async`. */
  instantiate(
    getCoreModule: (path: string) => Promise<WebAssembly.Module> | WebAssembly.Module,
    imports: Record<string, unknown>,
    instantiateCore?: (module: WebAssembly.Module, imports: Record<string, any>) => Promise<WebAssembly.Instance>,
  ): Promise<Record<string, any>>;
  /** Its core modules by name: where each is, or itself. */
  modules: Record<string, URL | WebAssembly.Module | BufferSource>;
}
