/** The component build: the component that every host loads, transpiled by jco. */

import type { Answered, Backend, Instance } from './backend.js';
import type { CompactFailure, GenerateOptions } from './contract.js';
import type { Host, HostGeneration } from './host.js';
import { check } from './schema.js';
import * as types from './types-schema.js';

/** A module that jco made of a component of the contract's world, by `--instantiation async`. */
export interface TranspiledComponent {
  instantiate(
    getCoreModule: (path: string) => Promise<WebAssembly.Module> | WebAssembly.Module,
    imports: Record<string, unknown>,
    instantiateCore?: (module: WebAssembly.Module, imports: Record<string, any>) => Promise<WebAssembly.Instance>,
  ): Promise<Record<string, any>>;
}

/** Lists of numbers come as typed arrays; here they are plain ones. */
function plain<T>(value: unknown): T {
  if (value instanceof Uint32Array) return Array.from(value) as T;
  if (Array.isArray(value)) return value.map(plain) as T;
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)])) as T;
  }
  return value as T;
}

/** The classes that jco takes for the contract's resources. */
function imports(): { imports: Record<string, unknown>; session: (host: Host) => unknown; signal: (host: Host) => unknown } {
  class Session {
    constructor(readonly host: Host) {}
    id() {
      return this.host.id();
    }
    head() {
      return this.host.head();
    }
    read(start: number, limit: number) {
      return this.host.read(start, limit);
    }
    append(drafts: unknown, expectedHead: number | undefined) {
      return this.host.append(plain(drafts), expectedHead);
    }
    flush() {
      return this.host.flush();
    }
  }

  class AbortSignal {
    constructor(readonly host: Host) {}
    aborted() {
      return this.host.aborted();
    }
  }

  class Generation {
    constructor(private readonly answer: HostGeneration) {}
    next() {
      return this.answer.next();
    }
    [Symbol.dispose ?? Symbol.for('dispose')]() {
      this.answer.cancel();
    }
  }

  /** The session whose call is in flight: there is one at a time. */
  let current: Host | undefined;
  const host = () => current as Host;
  return {
    imports: {
      'harness:compact/types': { AbortSignal },
      'harness:compact/session': { Session },
      'harness:compact/llm-stream': {
        Generation,
        describeModel: (route: { provider: string; model: string }) => host().describeModel(route),
        async stream(session: Session, options: unknown) {
          const answer = await session.host.stream(plain(options) as GenerateOptions);
          return answer.tag === 'ok' ? { tag: 'ok', val: new Generation(answer.val) } : answer;
        },
      },
      'harness:compact/hooks': {
        async estimateContentTokens(groups: unknown) {
          return host().estimateContentTokens(plain(groups));
        },
        summarize: (session: Session, transcript: string) => session.host.summarize(transcript),
      },
    },
    session(of: Host) {
      current = of;
      return new Session(of);
    },
    signal: (of: Host) => new AbortSignal(of),
  };
}

class ComponentInstance implements Instance {
  constructor(
    private readonly compactor: any,
    private readonly session: (host: Host) => unknown,
    private readonly signal: (host: Host) => unknown,
  ) {}

  private async answered<T>(call: Promise<unknown>): Answered<T> {
    try {
      return { tag: 'ok', val: plain<T>(await call) };
    } catch (error) {
      const failure = plain<CompactFailure>(error);
      try {
        check(types.compactFailure, failure);
      } catch {
        // No case of the contract's: a trap.
        throw error;
      }
      return { tag: 'err', val: failure };
    }
  }

  measure: Instance['measure'] = (host, agent, prompt, prefix) =>
    this.answered(this.compactor.measure(this.session(host), agent, prompt, prefix));

  surface: Instance['surface'] = (host) => this.answered(this.compactor.surface(this.session(host)));

  compactIfNeeded: Instance['compactIfNeeded'] = (host, agent, prompt, prefix, trigger) =>
    this.answered(
      this.compactor.compactIfNeeded(this.session(host), agent, prompt, prefix, trigger, this.signal(host)),
    );

  compactRegion: Instance['compactRegion'] = (host, range, agent) =>
    this.answered(this.compactor.compactRegion(this.session(host), range, agent, this.signal(host)));

  compactNow: Instance['compactNow'] = (host, agent, options) =>
    this.answered(this.compactor.compactNow(this.session(host), agent, options, this.signal(host)));

  prune: Instance['prune'] = (host) => this.answered(this.compactor.prune(this.session(host)));

  forget(sessionId: string): void {
    this.compactor.forget(sessionId);
  }

  dispose(): void {
    this.compactor[Symbol.dispose ?? Symbol.for('dispose')]?.();
  }
}

/** Load a transpiled component, whose core modules `getCoreModule` answers by name. */
export async function load(
  component: TranspiledComponent,
  getCoreModule: (path: string) => Promise<WebAssembly.Module> | WebAssembly.Module,
): Promise<Backend> {
  const modules = new Map<string, Promise<WebAssembly.Module>>();
  const cached = (path: string) => {
    let module = modules.get(path);
    if (!module) modules.set(path, (module = Promise.resolve(getCoreModule(path))));
    return module;
  };
  return {
    kind: 'component',
    async instantiate(config) {
      const bridge = imports();
      const root = await component.instantiate(cached, bridge.imports);
      const { Compactor } = root['harness:compact/compact@0.1.0'] ?? root.compact;
      try {
        const compactor = await Compactor.create(config);
        return { tag: 'ok', val: new ComponentInstance(compactor, bridge.session, bridge.signal) };
      } catch (error) {
        check(types.configFailure, error);
        return { tag: 'err', val: error };
      }
    },
  };
}
