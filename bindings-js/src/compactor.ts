import type { Answered, Backend, Instance, TranspiledBackend } from './backend.js';
import type { CompactionResult, Measurement, Message, Pruned, Route, Seq, SurfaceNode } from './contract.js';
import { CompactError, fromFailure } from './errors.js';
import { Host } from './host.js';
import type { SessionLog } from './log.js';
import type { CompactionEvent, Hooks, Model } from './model.js';
import { encode, Mismatch, type Schema } from './schema.js';
import * as types from './types-schema.js';

/** The settings that can differ by model. */
export interface PolicyOptions {
  /** Share of the window at which compaction starts. Default 0.8. */
  thresholdRatio?: number;
  /** Tokens at which it starts at the latest. */
  thresholdTokens?: number;
  /** Recent tokens to keep verbatim. Default 20480, or 16 % of a window under 128000. */
  retainTokens?: number;
  /** The same as a share of the window. */
  retainRatio?: number;
  /** The model that summarises, with `summarizationModel`. Default: the session's own. */
  summarizationProvider?: string;
  summarizationModel?: string;
  /** Generation cap of the summary, reasoning included. Default 2048. */
  summarizationMaxTokens?: number;
  /** Further compactions when the result is still at or above the threshold. Default 1. */
  compactionRetries?: number;
  /** Further model calls when a summary is empty or truncated. Default 1. */
  summaryRetries?: number;
}

/** A compactor's settings. Every one may be left out. */
export interface CompactorConfig extends PolicyOptions {
  /** Window where neither the caller nor `describeModel` knows it. Default 128000. */
  contextWindow?: number;
  /** Policies by model; the first match counts. */
  modelPolicies?: ({ provider: string; model: string } & PolicyOptions)[];
  /** UTF-16 code units a token. Default 4. */
  charsPerToken?: number;
  /** Weigh text by its script. Default true. */
  scriptAware?: boolean;
  /** What provider-reported usage does to the estimate. Default `calibrated`. */
  usageAnchor?: 'off' | 'delta' | 'calibrated';
  /** Price of an image. Default 85. */
  imageTokens?: number;
  /** How the summariser is shown the range. Default `auto`. */
  summarizationInput?: 'auto' | 'transcript' | 'replay';
  /** Keep the open turn verbatim. Default false. */
  protectInFlightTurn?: boolean;
  /** Rewrite oversized tool results before summarising. Default: leave them alone. */
  prune?: { thresholdChars?: number; headChars?: number; tailChars?: number };
  /** Extra guidance for the summariser. */
  instructions?: string;
}

/** What a caller knows of the agent whose session this is. */
export interface AgentContext {
  /** Its session. */
  session: SessionLog;
  /** Where its next request goes. Absent: the log's newest request header. */
  options?: { provider: string; model: string };
  /** The window of the model that answers next. */
  contextWindow?: number;
  /** Tokens that the next request reserves for its answer. */
  outputTokens?: number;
  /** Tokens of the tool schemas. */
  toolsTokens?: number;
}

/** How to make a compactor. */
export interface CompactorOptions {
  config?: CompactorConfig;
  /** The model call. */
  model: Model;
  /** Steps that the host takes over. */
  hooks?: Hooks;
  /** Which build: `auto` takes the component where the runtime can suspend it. */
  runtime?: 'auto' | 'component' | 'bindgen';
  /**
   * A backend to use in place of the package's own: a component of the same world, as
   * `harness-compact-transpile` makes a module of it. It needs a runtime that can suspend
   * WebAssembly, as the component build does.
   */
  backend?: TranspiledBackend;
  /** Told how compactions go on. What it throws is ignored. */
  onEvent?: (event: CompactionEvent) => void;
  /** How many sessions have an instance at once. Default 16; more wait their turn. */
  maxInstances?: number;
}

/** A session's instance, and the calls that wait for it. */
interface Slot {
  instance: Promise<Instance>;
  tail: Promise<unknown>;
  waiting: number;
}

/** Compacts sessions under one configuration. Make it with `createCompactor`. */
export class Compactor {
  private readonly slots = new Map<string, Slot>();
  private readonly config: types.Config;
  private disposed = false;
  private freed: (() => void)[] = [];

  /** @internal */
  constructor(
    private readonly backend: Backend,
    private readonly options: CompactorOptions,
  ) {
    this.config = readConfig(options.config ?? {}, options.hooks);
  }

  /** Which build runs: the component, or the engine behind wasm-bindgen. */
  get runtime(): 'component' | 'bindgen' {
    return this.backend.kind;
  }

  /** @internal Fails where the configuration is wrong. */
  async start(): Promise<void> {
    (await this.instantiate()).dispose();
  }

  /**
   * Compact if the next request is near the window, or with `context-overflow`
   * because the provider has just refused it. To be called before each step of a
   * loop. Answers null where nothing needs or can be done.
   */
  async compactIfNeeded(
    agent: AgentContext,
    fullSystemPrompt: string,
    sessionPrefix: Message[] = [],
    signal?: AbortSignal,
    trigger: 'pressure' | 'context-overflow' = 'pressure',
  ): Promise<CompactionResult | null> {
    const context = readAgent(agent);
    argument('sessionPrefix', types.messages, sessionPrefix);
    argument('trigger', types.trigger, trigger);
    const result = await this.run(agent.session, signal, (instance, host) =>
      instance.compactIfNeeded(host, context, fullSystemPrompt, sessionPrefix, trigger),
    );
    return result ?? null;
  }

  /** Compact this inclusive range of surface nodes, whatever the pressure. */
  async compactRegion(
    session: SessionLog,
    start: Seq,
    end: Seq,
    agent: Omit<AgentContext, 'session'> = {},
    signal?: AbortSignal,
  ): Promise<CompactionResult> {
    const context = readAgent({ ...agent, session });
    const range = { start, end };
    argument('range', types.surfaceRange, range);
    return this.run(session, signal, (instance, host) => instance.compactRegion(host, range, context));
  }

  /**
   * Compact on a user's command, whatever the pressure: all but the newest unit, or
   * all but `retainTokens`. Answers null where there is nothing to gain.
   */
  async compactNow(
    agent: AgentContext,
    options: { instructions?: string; retainTokens?: number; signal?: AbortSignal } = {},
  ): Promise<CompactionResult | null> {
    const context = readAgent(agent);
    const { signal, ...rest } = options;
    const now = { instructions: rest.instructions, retainTokens: rest.retainTokens };
    argument('options', types.nowOptions, now);
    const result = await this.run(agent.session, signal, (instance, host) => instance.compactNow(host, context, now));
    return result ?? null;
  }

  /** Estimate the next request: session prefix, surface, system prompt and tools. */
  async measure(agent: AgentContext, fullSystemPrompt = '', sessionPrefix: Message[] = []): Promise<Measurement> {
    const context = readAgent(agent);
    argument('sessionPrefix', types.messages, sessionPrefix);
    return this.run(agent.session, undefined, (instance, host) =>
      instance.measure(host, context, fullSystemPrompt, sessionPrefix),
    );
  }

  /** The surface, node by node: what the next request is made from. */
  async surface(session: SessionLog): Promise<SurfaceNode[]> {
    return this.run(session, undefined, (instance, host) => instance.surface(host));
  }

  /** Rewrite every oversized tool result on the surface, without a model. */
  async prune(session: SessionLog): Promise<Pruned[]> {
    return this.run(session, undefined, (instance, host) => instance.prune(host));
  }

  /** Release the instances. Calls that are under way come to their end; later ones fail. */
  dispose(): void {
    this.disposed = true;
    for (const [id, slot] of this.slots) this.release(id, slot);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Run one call on the session's instance, after those that came before it. */
  private async run<T>(
    session: SessionLog,
    signal: AbortSignal | undefined,
    call: (instance: Instance, host: Host) => Answered<T>,
  ): Promise<T> {
    const slot = await this.slot(session.id);
    const turn = slot.tail.then(async () => {
      const host = new Host(session, this.options.model, this.options.hooks, signal, this.onEvent());
      try {
        const instance = await slot.instance;
        const outcome = await call(instance, host);
        if (outcome.tag === 'ok') return outcome.val;
        throw fromFailure(outcome.val, host.thrown);
      } catch (error) {
        if (CompactError.isInstance(error)) throw error;
        // Nobody knows what state the instance is in: it is not called again.
        if (this.slots.get(session.id) === slot) this.slots.delete(session.id);
        throw new CompactError('trap', `the engine broke off: ${String(error)}`, true, undefined, { cause: error });
      }
    });
    slot.tail = turn.catch(() => {});
    try {
      return await turn;
    } finally {
      slot.waiting -= 1;
      if (slot.waiting === 0) {
        if (this.disposed) this.release(session.id, slot);
        this.freed.shift()?.();
      }
    }
  }

  /** A session's slot: its own, a new one, or one that falls free. */
  private async slot(id: string): Promise<Slot> {
    for (;;) {
      if (this.disposed) throw new CompactError('disposed', 'the compactor has been disposed of');
      const own = this.slots.get(id);
      if (own) {
        // The one used longest ago is the first to go.
        this.slots.delete(id);
        this.slots.set(id, own);
        own.waiting += 1;
        return own;
      }
      if (this.slots.size < (this.options.maxInstances ?? 16)) return this.take(id, this.instantiate());
      const idle = [...this.slots].find(([, slot]) => slot.waiting === 0);
      if (idle) {
        // An instance serves another session as well, once it has forgotten its own.
        const [other, slot] = idle;
        this.slots.delete(other);
        const instance = slot.instance.then((instance) => {
          instance.forget(other);
          return instance;
        });
        return this.take(id, instance);
      }
      await new Promise<void>((free) => this.freed.push(free));
    }
  }

  /** A slot for one waiting call. */
  private take(id: string, instance: Promise<Instance>): Slot {
    instance.catch(() => {});
    const slot: Slot = { instance, tail: Promise.resolve(), waiting: 1 };
    this.slots.set(id, slot);
    return slot;
  }

  private release(id: string, slot: Slot): void {
    if (slot.waiting > 0) return;
    if (this.slots.get(id) === slot) this.slots.delete(id);
    slot.instance.then((instance) => instance.dispose()).catch(() => {});
  }

  private async instantiate(): Promise<Instance> {
    const made = await this.backend.instantiate(this.config);
    if (made.tag === 'ok') return made.val;
    throw fromFailure({ tag: 'config', val: made.val });
  }

  private onEvent(): ((event: CompactionEvent) => void) | undefined {
    const { onEvent } = this.options;
    return (
      onEvent &&
      ((event) => {
        try {
          onEvent(event);
        } catch {
          // A listener's trouble is not the session's.
        }
      })
    );
  }
}

const loaded = new WeakMap<object, Map<string, Promise<Backend>>>();

/** Make a compactor of a build that `load` loads; each build once. */
export async function create(
  options: CompactorOptions,
  load: (kind: 'component' | 'bindgen') => Promise<Backend>,
): Promise<Compactor> {
  const suspends = 'Suspending' in WebAssembly;
  const own = options.backend;
  const wanted = own ? 'component' : (options.runtime ?? 'auto');
  if (own && options.runtime === 'bindgen') {
    throw new CompactError('unsupported-runtime', 'a backend is a component; the bindgen build cannot take its place');
  }
  if (wanted === 'component' && !suspends) {
    const instead = own ? 'a backend of your own needs one that can' : 'use `bindgen` or `auto`';
    throw new CompactError('unsupported-runtime', `this runtime cannot suspend WebAssembly; ${instead}`);
  }
  const kind = wanted === 'auto' ? (suspends ? 'component' : 'bindgen') : wanted;
  const source = own ?? load;
  const builds = loaded.get(source) ?? new Map<string, Promise<Backend>>();
  loaded.set(source, builds);
  let backend = builds.get(kind);
  if (!backend) {
    backend = own ? import('./component.js').then((component) => component.load(own)) : load(kind);
    builds.set(kind, backend);
    // What could not be loaded may be another time.
    backend.catch(() => builds.delete(kind));
  }
  const compactor = new Compactor(await backend, options);
  await compactor.start();
  return compactor;
}

function argument<T>(name: string, schema: Schema<T>, value: T): void {
  try {
    encode(schema, value);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    throw new CompactError('host', `${name}: ${error.message}`, false, undefined, { cause: error });
  }
}

function readAgent(agent: AgentContext): types.Agent {
  const { options } = agent;
  const context: types.Agent = {
    route: options && { provider: options.provider, model: options.model },
    contextWindow: agent.contextWindow,
    outputTokens: agent.outputTokens,
    toolsTokens: agent.toolsTokens ?? 0,
    canReplay: typeof agent.session.messages === 'function',
  };
  argument('agent', types.agent, context);
  return context;
}

const POLICY_KEYS = [
  'thresholdRatio',
  'thresholdTokens',
  'retainTokens',
  'retainRatio',
  'summarizationProvider',
  'summarizationModel',
  'summarizationMaxTokens',
  'compactionRetries',
  'summaryRetries',
];
const CONFIG_KEYS = [
  ...POLICY_KEYS,
  'contextWindow',
  'modelPolicies',
  'charsPerToken',
  'scriptAware',
  'usageAnchor',
  'imageTokens',
  'summarizationInput',
  'protectInFlightTurn',
  'prune',
  'instructions',
];

function fault(key: string, message: string): CompactError {
  return fromFailure({ tag: 'config', val: { key, message } });
}

function known(at: string, value: object, keys: string[]): void {
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown) throw fault(at + unknown, 'there is no such setting');
}

function readPolicy(at: string, policy: PolicyOptions) {
  const { summarizationProvider: provider, summarizationModel: model } = policy;
  if ((provider === undefined) !== (model === undefined)) {
    throw fault(`${at}summarizationModel`, 'it and summarizationProvider go together');
  }
  const route: Route | undefined = model === undefined ? undefined : { provider: provider as string, model };
  return {
    thresholdRatio: policy.thresholdRatio,
    thresholdTokens: policy.thresholdTokens,
    retainTokens: policy.retainTokens,
    retainRatio: policy.retainRatio,
    summarizationRoute: route,
    summarizationMaxTokens: policy.summarizationMaxTokens,
    compactionRetries: policy.compactionRetries,
    summaryRetries: policy.summaryRetries,
  };
}

function readConfig(config: CompactorConfig, hooks: Hooks | undefined): types.Config {
  known('', config, CONFIG_KEYS);
  if (config.prune) known('prune.', config.prune, ['thresholdChars', 'headChars', 'tailChars']);
  const read: types.Config = {
    contextWindow: config.contextWindow,
    policy: readPolicy('', config),
    modelPolicies: (config.modelPolicies ?? []).map((entry, index) => {
      const at = `modelPolicies[${index}].`;
      known(at, entry, [...POLICY_KEYS, 'provider', 'model']);
      return { route: { provider: entry.provider, model: entry.model }, policy: readPolicy(at, entry) };
    }),
    charsPerToken: config.charsPerToken,
    scriptAware: config.scriptAware,
    usageAnchor: config.usageAnchor,
    imageTokens: config.imageTokens,
    summarizationInput: config.summarizationInput,
    protectInFlightTurn: config.protectInFlightTurn,
    prune: config.prune && {
      thresholdChars: config.prune.thresholdChars,
      headChars: config.prune.headChars,
      tailChars: config.prune.tailChars,
    },
    instructions: config.instructions,
    hooks: {
      estimateContentTokens: hooks?.estimateContentTokens !== undefined,
      summarize: hooks?.summarize !== undefined,
    },
  };
  try {
    encode(types.config, read);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    throw fault(error.path.replace(/^policy\.|(?<=\])\.policy/, ''), error.message);
  }
  return read;
}
