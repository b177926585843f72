import { type Api, type AssistantMessage, isContextOverflow, type Model as PiModel, type Usage as PiUsage } from '@earendil-works/pi-ai';
import type { ExtensionContext } from '@earendil-works/pi-coding-agent';

import type { ModelFailure, ModelInfo, Route, Usage } from '../contract.js';
import { ModelError } from '../errors.js';
import type { Model, ModelChunk, ModelRequest } from '../model.js';

/** pi's own models, by its registry: its keys, its proxies, its providers. */
export class PiRegistryModel implements Model {
  /** What the answers cost, for pi's account of the session. */
  readonly answers: AssistantMessage[] = [];

  constructor(private readonly context: ExtensionContext) {}

  describeModel(route: Route): ModelInfo | undefined {
    const model = this.find(route);
    return model && { contextWindow: model.contextWindow, maxOutputTokens: model.maxTokens };
  }

  async *stream({ provider, model: name, system, messages, maxTokens, signal }: ModelRequest): AsyncGenerator<ModelChunk> {
    const model = this.find({ provider, model: name });
    if (!model) throw new ModelError({ tag: 'refused', val: `pi knows no model ${provider}/${name}` });
    const [{ content }] = messages as [{ content: string }];
    const events = this.context.modelRegistry.streamSimple(
      model,
      { ...(system === undefined ? {} : { systemPrompt: system }), messages: [{ role: 'user', content, timestamp: Date.now() }] },
      { signal, ...(maxTokens === undefined ? {} : { maxTokens }) },
    );
    for await (const event of events) {
      switch (event.type) {
        case 'text_delta':
          yield { type: 'text', text: event.delta };
          break;
        case 'thinking_delta':
          yield { type: 'reasoning', text: event.delta };
          break;
        case 'toolcall_end': {
          const { id, name: tool, arguments: given } = event.toolCall;
          yield { type: 'tool-call', id, name: tool, arguments: JSON.stringify(given) ?? '{}' };
          break;
        }
        case 'done': {
          this.answers.push(event.message);
          const usage = readUsage(event.message.usage);
          yield { type: 'finish', reason: REASONS[event.reason] ?? 'other', usage };
          return;
        }
        case 'error':
          throw new ModelError(toFailure(event.error, model));
      }
    }
  }

  private find({ provider, model }: Route): PiModel<Api> | undefined {
    return this.context.modelRegistry.find(provider, model);
  }
}

const REASONS: Record<string, 'stop' | 'max-tokens' | 'tool-calls'> = {
  stop: 'stop',
  length: 'max-tokens',
  toolUse: 'tool-calls',
};

function toFailure(answer: AssistantMessage, model: PiModel<Api>): ModelFailure {
  const told = answer.errorMessage ?? 'the provider gave no reason';
  if (answer.stopReason === 'aborted') return { tag: 'aborted' };
  return isContextOverflow(answer, model.contextWindow) ? { tag: 'context-overflow', val: told } : { tag: 'other', val: told };
}

/** What pi counted of a call. */
function readUsage(usage: PiUsage): Usage {
  return {
    inputTokens: usage.input,
    outputTokens: usage.output,
    cacheReadTokens: usage.cacheRead,
    cacheWriteTokens: usage.cacheWrite,
  };
}
