/** `--backend`: a component of somebody else's, made a module by jco on the way. */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import type { Instance } from '../backend.js';
import { load as loadComponent } from '../component.js';
import type { ModelInfo, Outcome, Route } from '../contract.js';
import { ModelError } from '../errors.js';
import { FileLog } from '../files/log.js';
import { Host } from '../host.js';
import type { Model, ModelChunk, ModelRequest } from '../model.js';
import { decode, encode, option, result, type Schema } from '../schema.js';
import * as types from '../types-schema.js';
import type { FileSession } from '../wasm/command.js';
import { stream } from './model.js';

/** Where the command's model calls go; `extracts` where there is no model. */
interface Told {
  provider: string;
  model: string;
  baseUrl: string | null;
  extracts: boolean;
}

/** The command's models, as the package's are. */
class CommandModel implements Model {
  constructor(
    private readonly session: FileSession,
    private readonly told: Told,
    private readonly progress: (doing: string) => void,
  ) {}

  describeModel({ provider, model }: Route): ModelInfo | undefined {
    // It reads the nodes itself.
    return this.told.extracts && provider === this.told.provider && model === this.told.model
      ? { contextWindow: 0xffff_ffff }
      : undefined;
  }

  async *stream(request: ModelRequest): AsyncGenerator<ModelChunk> {
    const { provider, model, system = '', maxTokens, part } = request;
    if (this.told.extracts) {
      yield { type: 'text', text: this.session.extract(Uint32Array.from(request.nodes ?? []), maxTokens) };
      yield { type: 'finish', reason: 'stop' };
      return;
    }
    const user = (request.messages[0] as { content?: unknown } | undefined)?.content;
    const text = JSON.stringify({
      provider,
      model,
      baseUrl: this.told.baseUrl,
      system,
      user,
      maxTokens: maxTokens ?? null,
      part: part ? [part.index, part.count] : null,
    });
    const answer = await stream(text, request.signal, this.progress);
    if (typeof answer === 'string') throw new ModelError(JSON.parse(answer));
    try {
      for (;;) {
        const chunks = JSON.parse(await answer.next());
        if (!Array.isArray(chunks)) throw new ModelError(chunks);
        if (!chunks.length) return;
        yield* chunks;
      }
    } finally {
      answer.cancel();
    }
  }
}

/** A component on one session, as the command's module calls it. */
export async function component(
  file: string,
  session: FileSession,
  told: Told,
  config: Uint8Array,
  signal: AbortSignal,
  progress: (doing: string) => void,
) {
  if (!existsSync(file)) throw new Error(`${file}: there is no such file`);
  if (!('Suspending' in WebAssembly)) {
    throw new Error(`${file}: this runtime cannot suspend WebAssembly, which a backend needs; use Node 24 or later`);
  }
  const folder = mkdtempSync(join(tmpdir(), 'harness-compact-'));
  let backend: Awaited<ReturnType<typeof loadComponent>>;
  try {
    progress('making a module of the backend');
    const transpile = fileURLToPath(new URL('./transpile.js', import.meta.url));
    const made = spawnSync(process.execPath, [transpile, file, '--out-dir', folder], { encoding: 'utf8' });
    if (made.status !== 0) throw new Error(`${file}: ${made.stderr.trim().split('\n').at(-1)}`);
    const module = await import(pathToFileURL(join(folder, 'index.js')).href);
    backend = await loadComponent(module.default);
    // Compiled while its files are there.
    const instance = await backend.instantiate(decode(types.config, config));
    if (instance.tag === 'err') throw new Error(`${instance.val.key}: ${instance.val.message}`);
    const log = new FileLog('session', session);
    const host = () => new Host(log, new CommandModel(session, told, progress), undefined, signal, undefined);
    return calls(instance.val, host);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function calls(instance: Instance, host: () => Host) {
  async function answered<T>(schema: Schema<T>, call: Promise<Outcome<T, any>>): Promise<Uint8Array | string> {
    try {
      return encode(result(schema, types.compactFailure), await call);
    } catch (error) {
      return `the compaction backend broke off: ${String(error)}`;
    }
  }
  const agent = (bytes: Uint8Array) => decode(types.agent, bytes);
  return {
    measure: (bytes: Uint8Array) => answered(types.measurement, instance.measure(host(), agent(bytes), '', [])),
    surface: () => answered(types.surfaceNodes, instance.surface(host())),
    compactIfNeeded: (bytes: Uint8Array) =>
      answered(option(types.compactionResult), instance.compactIfNeeded(host(), agent(bytes), '', [], 'pressure')),
    compactRegion: (start: number, end: number, bytes: Uint8Array) =>
      answered(types.compactionResult, instance.compactRegion(host(), { start, end }, agent(bytes))),
    compactNow: (bytes: Uint8Array, options: Uint8Array) =>
      answered(option(types.compactionResult), instance.compactNow(host(), agent(bytes), decode(types.nowOptions, options))),
  };
}
