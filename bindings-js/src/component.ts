/** The component build: the component that every host loads, transpiled by jco. */

import type { Answered, Backend, Instance, TranspiledBackend } from './backend.js';
import { compile } from './compile.js';
import type { CompactFailure, GenerateOptions } from './contract.js';
import { CompactError } from './errors.js';
import type { Host, HostGeneration } from './host.js';
import { isOf } from './schema.js';
import * as types from './types-schema.js';

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
      // No case of the contract's is a trap.
      if (!isOf(types.compactFailure, failure)) throw error;
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

const EXPORT = 'harness:compact/compact@0.1.0';

/** Nothing but the contract: what else a component imports is refused by its name. */
function closed(imports: Record<string, unknown>): Record<string, unknown> {
  return new Proxy(imports, {
    get(known, name) {
      if (typeof name === 'string' && !(name in known)) {
        throw new CompactError('backend', `the backend imports ${name}, which is not part of the contract`);
      }
      return known[name as string];
    },
  });
}

/** Load a transpiled component. */
export async function load({ instantiate, modules }: TranspiledBackend): Promise<Backend> {
  if (typeof instantiate !== 'function' || typeof modules !== 'object') {
    throw new CompactError('backend', 'a backend is what harness-compact-transpile makes: { instantiate, modules }');
  }
  const compiled = new Map<string, Promise<WebAssembly.Module>>();
  const getCoreModule = (path: string) => {
    let module = compiled.get(path);
    if (!module) {
      const source = modules[path];
      if (!source) throw new CompactError('backend', `the backend asks for the module ${path}, which was not handed in`);
      compiled.set(path, (module = compile(source)));
      // What could not be fetched may be another time.
      module.catch(() => compiled.delete(path));
    }
    return module;
  };
  return {
    kind: 'component',
    async instantiate(config) {
      const bridge = imports();
      const root = await instantiate(getCoreModule, closed(bridge.imports));
      // By the full name: another version is another contract.
      const exported = root[EXPORT];
      if (typeof exported?.Compactor?.create !== 'function') {
        throw new CompactError('backend', `the backend does not export ${EXPORT}`);
      }
      try {
        const compactor = await exported.Compactor.create(config);
        return { tag: 'ok', val: new ComponentInstance(compactor, bridge.session, bridge.signal) };
      } catch (error) {
        if (isOf(types.configFailure, error)) return { tag: 'err', val: error };
        throw new CompactError('trap', `the backend broke off: ${String(error)}`, false, undefined, { cause: error });
      }
    },
  };
}
