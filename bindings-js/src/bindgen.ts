/** The bindgen build: the engine awaits promises itself. Values cross as postcard. */

import type { Backend, Instance } from './backend.js';
import type { GenerateOptions } from './contract.js';
import type { Host, HostGeneration } from './host.js';
import { decode, encode, list, nothing, option, result, type Schema, text, u32 } from './schema.js';
import * as types from './types-schema.js';
import init, { Compactor } from './wasm/engine.js';

const headResult = result(u32, types.sessionFailure);
const readResult = result(types.events, types.sessionFailure);
const flushResult = result(nothing, types.sessionFailure);
const infoResult = result(option(types.modelInfo), text);
const chunksResult = result(types.chunks, types.modelFailure);
const countsResult = result(list(u32), text);
const summaryResult = result(types.summary, types.modelFailure);

/** A host as the shell calls it. */
function session(host: Host) {
  return {
    id: () => host.id(),
    head: async () => encode(headResult, await host.head()),
    read: async (start: number, limit: number) => encode(readResult, await host.read(start, limit)),
    append: async (drafts: Uint8Array, expectedHead: number | undefined) =>
      encode(headResult, await host.append(decode(types.drafts, drafts), expectedHead)),
    flush: async () => encode(flushResult, await host.flush()),
  };
}

function generation(answer: HostGeneration) {
  return {
    next: async () => encode(chunksResult, await answer.next()),
    cancel: () => answer.cancel(),
  };
}

function model(host: Host) {
  return {
    aborted: () => host.aborted(),
    describeModel: async (route: Uint8Array) =>
      encode(infoResult, { tag: 'ok', val: await host.describeModel(decode(types.route, route)) }),
    stream: async (options: Uint8Array) => {
      const answer = await host.stream(decode(types.generateOptions, options) as GenerateOptions);
      return answer.tag === 'ok' ? generation(answer.val) : encode(types.modelFailure, answer.val);
    },
    estimateContentTokens: async (groups: Uint8Array) =>
      encode(countsResult, await host.estimateContentTokens(decode(list(types.content), groups))),
    summarize: async (transcript: string) => encode(summaryResult, await host.summarize(transcript)),
  };
}

async function answered<T>(schema: Schema<T>, call: Promise<Uint8Array>) {
  return decode(result(schema, types.compactFailure), await call);
}

class BindgenInstance implements Instance {
  constructor(private readonly compactor: Compactor) {}

  measure: Instance['measure'] = (host, agent, prompt, prefix) =>
    answered(
      types.measurement,
      this.compactor.measure(
        session(host),
        model(host),
        encode(types.agent, agent),
        prompt,
        encode(types.messages, prefix),
      ),
    );

  surface: Instance['surface'] = (host) =>
    answered(types.surfaceNodes, this.compactor.surface(session(host), model(host)));

  compactIfNeeded: Instance['compactIfNeeded'] = (host, agent, prompt, prefix, trigger) =>
    answered(
      option(types.compactionResult),
      this.compactor.compactIfNeeded(
        session(host),
        model(host),
        encode(types.agent, agent),
        prompt,
        encode(types.messages, prefix),
        encode(types.trigger, trigger),
      ),
    );

  compactRegion: Instance['compactRegion'] = (host, range, agent) =>
    answered(
      types.compactionResult,
      this.compactor.compactRegion(
        session(host),
        model(host),
        encode(types.surfaceRange, range),
        encode(types.agent, agent),
      ),
    );

  compactNow: Instance['compactNow'] = (host, agent, options) =>
    answered(
      option(types.compactionResult),
      this.compactor.compactNow(
        session(host),
        model(host),
        encode(types.agent, agent),
        encode(types.nowOptions, options),
      ),
    );

  prune: Instance['prune'] = (host) =>
    answered(types.pruned, this.compactor.prune(session(host), model(host)));

  forget(sessionId: string): void {
    this.compactor.forget(sessionId);
  }

  dispose(): void {
    this.compactor.free();
  }
}

/** Load the build from its module. One module serves every instance. */
export async function load(module: WebAssembly.Module | BufferSource): Promise<Backend> {
  await init({ module_or_path: module });
  return {
    kind: 'bindgen',
    async instantiate(config) {
      try {
        return { tag: 'ok', val: new BindgenInstance(Compactor.create(encode(types.config, config))) };
      } catch (error) {
        if (!(error instanceof Uint8Array)) throw error;
        return { tag: 'err', val: decode(types.configFailure, error) };
      }
    },
  };
}
