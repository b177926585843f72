import { type Instructions, type LanguageModel, type LanguageModelUsage, streamText, type ToolSet } from 'ai';

import type { ModelInfo, Route, Usage } from '../contract.js';
import { ModelError } from '../errors.js';
import type { Model, ModelChunk, ModelRequest } from '../model.js';
import { toFailure } from '../failure.js';

/** Where a model's calls go, by the names that it has itself. */
export function routeOf(model: LanguageModel): Route {
  return typeof model === 'string' ? { provider: 'gateway', model } : { provider: model.provider, model: model.modelId };
}

/** Summaries by the SDK's own `streamText`, so that any of its providers makes them. */
export class AiSdkModel implements Model {
  /** What the loop sent last beside its messages, for a replay of it. */
  envelope: { instructions: Instructions | undefined; tools: ToolSet | undefined } = {
    instructions: undefined,
    tools: undefined,
  };

  constructor(
    private readonly model: LanguageModel,
    private readonly summariser: LanguageModel,
    private readonly contextWindow: number | undefined,
  ) {}

  describeModel({ provider, model }: Route): ModelInfo | undefined {
    const own = routeOf(this.model);
    const known = this.contextWindow !== undefined && own.provider === provider && own.model === model;
    return known ? { contextWindow: this.contextWindow as number } : undefined;
  }

  async *stream(request: ModelRequest): AsyncGenerator<ModelChunk> {
    const { instructions, tools } = this.envelope;
    const { stream } = streamText({
      model: this.summariser,
      ...(request.replay
        ? { ...(instructions === undefined ? {} : { instructions }), ...(tools ? { tools: withoutExecution(tools) } : {}) }
        : { instructions: request.system ?? '' }),
      messages: request.messages as Parameters<typeof streamText>[0]['messages'] & object,
      ...(request.maxTokens === undefined ? {} : { maxOutputTokens: request.maxTokens }),
      abortSignal: request.signal,
      // It is thrown below; by default it would be printed as well.
      onError: () => {},
    });
    for await (const part of stream) {
      switch (part.type) {
        case 'text-delta':
          yield { type: 'text', text: part.text };
          break;
        case 'reasoning-delta':
          yield { type: 'reasoning', text: part.text };
          break;
        case 'tool-call':
          yield { type: 'tool-call', id: part.toolCallId, name: part.toolName, arguments: JSON.stringify(part.input) ?? '{}' };
          break;
        case 'file':
          yield { type: 'other', kind: 'file' };
          break;
        case 'error':
          throw new ModelError(toFailure(part.error), { cause: part.error });
        case 'abort':
          throw new ModelError({ tag: 'aborted' });
        case 'finish-step': {
          const { finishReason } = part;
          const reason =
            finishReason === 'length'
              ? 'max-tokens'
              : finishReason === 'stop' || finishReason === 'tool-calls' || finishReason === 'content-filter'
                ? finishReason
                : 'other';
          yield { type: 'finish', reason, usage: readUsage(part.usage) };
          return;
        }
      }
    }
  }
}

/** Tools that can be spoken of, but do nothing: a summary runs none. */
function withoutExecution(tools: ToolSet): ToolSet {
  return Object.fromEntries(
    Object.entries(tools).map(([name, tool]) => [name, { ...tool, execute: undefined } as unknown as ToolSet[string]]),
  );
}

/** The SDK's count of a call, in disjoint buckets. */
export function readUsage(usage: LanguageModelUsage): Usage {
  const { inputTokens = 0, outputTokens = 0, inputTokenDetails } = usage;
  const cacheReadTokens = inputTokenDetails?.cacheReadTokens ?? 0;
  const cacheWriteTokens = inputTokenDetails?.cacheWriteTokens ?? 0;
  const uncached = inputTokenDetails?.noCacheTokens ?? Math.max(inputTokens - cacheReadTokens - cacheWriteTokens, 0);
  return { inputTokens: uncached, outputTokens, cacheReadTokens, cacheWriteTokens };
}
