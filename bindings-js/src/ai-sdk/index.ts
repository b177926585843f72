/**
 * Compaction for the tool loops of the AI SDK: `generateText`, `streamText` and agents.
 *
 * ```js
 * const compaction = await createCompaction({ model: openai('gpt-5'), contextWindow: 400_000 });
 * const { model, prepareStep } = compaction;
 * const result = streamText({ model, prepareStep, messages, tools, stopWhen: isStepCount(50) });
 * ```
 *
 * @module
 */

import {
  gateway,
  type Instructions,
  type LanguageModel,
  type LanguageModelMiddleware,
  type ModelMessage,
  type StepResult,
  type ToolSet,
  wrapLanguageModel,
} from 'ai';
import { convertToLanguageModelPrompt } from 'ai/internal';

import type { AgentContext, Compactor, CompactorConfig, CompactorOptions } from '../compactor.js';
import type { CompactionResult } from '../contract.js';
import { messageOf } from '../errors.js';
import { createCompactor } from '../index.js';
import { fromMessages, type MessagesLog } from '../messages.js';
import { toolsTokens } from '../tools.js';
import { toFailure } from '../failure.js';
import { AiSdkModel, readUsage, routeOf } from './model.js';

/** How to compact one conversation. */
export interface CompactionOptions extends Omit<CompactorOptions, 'model' | 'config'> {
  /** The model of the loop. */
  model: LanguageModel;
  /** Its window in tokens. Default: `config.contextWindow`, else 128000. */
  contextWindow?: number;
  /** The model that summarises. Default: the model of the loop. */
  summarizationModel?: LanguageModel;
  /**
   * The tools of the loop. With them a summary can be asked for as the loop's own request,
   * replayed, which the provider serves from its cache. They are not run for it.
   */
  tools?: ToolSet;
  /** The compactor's settings. */
  config?: Omit<CompactorConfig, 'summarizationProvider' | 'summarizationModel'>;
  /**
   * Told why a compaction did not happen. The loop goes on without it.
   * Default: a warning on the console.
   */
  onError?: (error: unknown) => void;
}

/** What a `prepareStep` function is called with, as far as it is looked at. */
interface Step {
  messages: ModelMessage[];
  steps: StepResult<any, any>[];
  instructions?: Instructions | undefined;
}

/** A call to the model, as a middleware sees it. */
type Call = Parameters<NonNullable<LanguageModelMiddleware['wrapGenerate']>>[0];

/** The compaction of one conversation. Make it with {@link createCompaction}. */
export class Compaction {
  /** The model to give to the loop: it recovers from requests that are too long. */
  readonly model: LanguageModel;

  private session: MessagesLog<ModelMessage>;
  /** The conversation as its owner has it, and as the loop was last given it. */
  private original: ModelMessage[] = [];
  private given: ModelMessage[] = [];
  private toolsTokens = 0;

  /** @internal */
  constructor(
    private readonly compactor: Compactor,
    private readonly summaries: AiSdkModel,
    private readonly options: CompactionOptions,
  ) {
    this.session = fromMessages<ModelMessage>([], 'ai-sdk');
    const { model } = options;
    this.model = wrapLanguageModel({ model: typeof model === 'string' ? named(model) : model, middleware: this.recovery() });
  }

  /** To be given to the loop: compacts before a step whose request would be near the window. */
  prepareStep = (step: Step): Promise<{ messages: ModelMessage[] }> => this.prepared(step, undefined);

  /** The same for a loop that can be aborted: a summary under way ends with it. */
  prepareStepUntil(abortSignal: AbortSignal): Compaction['prepareStep'] {
    return (step) => this.prepared(step, abortSignal);
  }

  /**
   * Compact on a user's command, between runs of the loop. `messages` is the conversation as
   * its owner has it. Answers null where there is nothing to gain.
   */
  async compactNow(
    messages: ModelMessage[],
    options: { instructions?: string; retainTokens?: number; abortSignal?: AbortSignal } = {},
  ): Promise<CompactionResult | null> {
    const { abortSignal, ...rest } = options;
    this.follow(messages, []);
    const now = abortSignal ? { ...rest, signal: abortSignal } : rest;
    const result = await this.compactor.compactNow(this.agent(), now);
    this.next();
    return result;
  }

  /**
   * The messages of the next request: `messages`, the conversation as its owner has it, with
   * a summary in place of what was compacted. To be stored, and gone on with, where the
   * summary is to outlive this object.
   */
  compacted(messages: ModelMessage[]): ModelMessage[] {
    this.follow(messages, []);
    return this.next();
  }

  /** Release the engine. */
  dispose(): void {
    this.compactor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  private async prepared({ messages, steps, instructions }: Step, signal: AbortSignal | undefined) {
    this.follow(messages, steps);
    this.summaries.envelope.instructions = instructions;
    try {
      await this.compactor.compactIfNeeded(this.agent(), textOf(instructions), [], signal);
    } catch (error) {
      if (!signal?.aborted) this.told(error);
    }
    return { messages: this.next() };
  }

  /** Take in what is new in the conversation; another conversation starts anew. */
  private follow(messages: ModelMessage[], steps: StepResult<any, any>[]): void {
    const known = [this.given, this.original].find((known) => startsWith(messages, known));
    const added = messages.slice(known?.length ?? 0);
    if (!known) {
      this.session = fromMessages<ModelMessage>([], 'ai-sdk');
      this.original = [];
    }
    // The provider's count of the last request is that of its last answer.
    const last = steps.at(-1);
    const answer = last && added.findLast((message) => message.role === 'assistant');
    for (const message of added) {
      this.session.push(message, message === answer ? readUsage((last as StepResult<any, any>).usage) : undefined);
    }
    this.original.push(...added);
  }

  private next(): ModelMessage[] {
    return (this.given = this.session.toMessages());
  }

  private agent(): AgentContext {
    const { contextWindow, model } = this.options;
    const { provider, model: name } = routeOf(model);
    return {
      session: this.session,
      options: { provider, model: name },
      ...(contextWindow === undefined ? {} : { contextWindow }),
      toolsTokens: this.toolsTokens,
    };
  }

  private told(error: unknown): void {
    if (this.options.onError) this.options.onError(error);
    else console.warn(`harness-compact: ${messageOf(error)}`);
  }

  /** Sends a request that the provider finds too long once more, compacted. */
  private recovery(): LanguageModelMiddleware {
    return {
      specificationVersion: 'v4',
      transformParams: async ({ params }) => {
        this.toolsTokens = toolsTokens(params.tools);
        return params;
      },
      wrapGenerate: async ({ doGenerate, params, model }) => {
        try {
          return await doGenerate();
        } catch (error) {
          return model.doGenerate({ ...params, prompt: await this.shorter(error, params, model) });
        }
      },
      wrapStream: async ({ doStream, params, model }) => {
        try {
          return await this.begun(await doStream());
        } catch (error) {
          return model.doStream({ ...params, prompt: await this.shorter(error, params, model) });
        }
      },
    };
  }

  /** An answer that has begun; throws where it is an error from the first. */
  private async begun<Answer extends { stream: ReadableStream<any> }>(answer: Answer): Promise<Answer> {
    const reader = answer.stream.getReader();
    const first: unknown[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (value?.type === 'error' && toFailure(value.error).tag === 'context-overflow') {
        await reader.cancel().catch(() => {});
        throw value.error;
      }
      if (!done) first.push(value);
      if (done || !['stream-start', 'response-metadata', 'raw'].includes(value.type)) break;
    }
    const stream = new ReadableStream({
      async pull(controller) {
        if (first.length) return controller.enqueue(first.shift());
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    });
    return { ...answer, stream };
  }

  /** The prompt of the same request, compacted; throws `error` again where that is no help. */
  private async shorter(
    error: unknown,
    params: Call['params'],
    model: Call['model'],
  ): Promise<Call['params']['prompt']> {
    if (toFailure(error).tag !== 'context-overflow') throw error;
    const system = params.prompt.filter((message) => message.role === 'system');
    try {
      const prompt = system.map((message) => message.content).join('\n');
      await this.compactor.compactIfNeeded(this.agent(), prompt, [], params.abortSignal, 'context-overflow');
    } catch (failure) {
      if (!params.abortSignal?.aborted) this.told(failure);
    }
    const messages = this.session.toMessages();
    // What was refused would be refused again.
    if (messages.length === this.given.length && messages.every((message, at) => message === this.given[at])) throw error;
    const converted = await convertToLanguageModelPrompt({
      prompt: { instructions: undefined, messages: messages.filter((message) => message.role !== 'system') },
      supportedUrls: await model.supportedUrls,
      download: undefined,
      ...(params.abortSignal ? { abortSignal: params.abortSignal } : {}),
    });
    return [...system, ...converted];
  }
}

/** Make the compaction of one conversation. */
export async function createCompaction(options: CompactionOptions): Promise<Compaction> {
  const { model, contextWindow, summarizationModel, tools, config, onError: _, ...rest } = options;
  const summaries = new AiSdkModel(model, summarizationModel ?? model, contextWindow);
  summaries.envelope.tools = tools;
  const route = summarizationModel && routeOf(summarizationModel);
  const compactor = await createCompactor({
    ...rest,
    model: summaries,
    config: {
      // A request cannot be replayed without its tools.
      ...(tools ? {} : { summarizationInput: 'transcript' as const }),
      ...config,
      ...(route ? { summarizationProvider: route.provider, summarizationModel: route.model } : {}),
    },
  });
  return new Compaction(compactor, summaries, options);
}

/** The model that the SDK takes for a name. */
function named(model: string) {
  return (globalThis.AI_SDK_DEFAULT_PROVIDER ?? gateway).languageModel(model);
}

function textOf(instructions: Instructions | undefined): string {
  if (instructions === undefined) return '';
  if (typeof instructions === 'string') return instructions;
  return [instructions].flat().map((message) => message.content).join('\n');
}

function startsWith(messages: ModelMessage[], known: ModelMessage[]): boolean {
  return messages.length >= known.length && known.every((message, at) => same(message, messages[at]));
}

/** Whether two messages say the same; usually they are the same object. */
function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (a instanceof URL) return a.href === (b as URL).href;
  if (a instanceof Uint8Array) return a.length === (b as Uint8Array).length && a.every((byte, at) => byte === (b as Uint8Array)[at]);
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => same((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]))
  );
}
