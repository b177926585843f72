import type { LlmRuntime } from '@deepseek-ai/dsh-llm';
import { BlockAssembler, CONTEXT_WINDOW_EXCEEDED_CODE, createUserMessage, QUOTA_EXCEEDED_CODE } from '@deepseek-ai/dsh-llm';
import type { ContentBlock, GenerateOptions, LlmFailure, Message as DshMessage } from '@deepseek-ai/dsh-llm';

import type { ModelFailure, ModelInfo, Route } from '../contract.js';
import { ModelError } from '../errors.js';
import type { Model, ModelChunk, ModelRequest } from '../model.js';
import { type DshLog, readUsage } from './log.js';

/** The harness's model service, as the compactor calls it. */
export class DshModel implements Model {
  constructor(private readonly llm: () => LlmRuntime) {}

  async describeModel({ provider, model }: Route): Promise<ModelInfo | undefined> {
    const info = await this.llm().resolveModelInfo(provider, model);
    return info.context && { contextWindow: info.context.contextWindow, maxOutputTokens: info.defaultMaxTokens };
  }

  async *stream(request: ModelRequest): AsyncGenerator<ModelChunk> {
    const log = request.session as DshLog;
    const options = this.options(request, log);
    const answer = new BlockAssembler();
    for await (const chunk of this.llm().stream(options)) answer.push(chunk);
    const { finish, usage } = answer;
    if (finish.kind === 'error' || finish.kind === 'aborted') {
      throw new ModelError(toFailure(finish.kind, finish.failure));
    }
    const blocks = answer.blocks();
    log.calls.push({ provider: options.provider, model: options.model, blocks });
    for (const block of blocks) yield toChunk(block);
    yield { type: 'finish', reason: finish.kind, ...(usage ? { usage: readUsage(usage) } : {}) };
  }

  /** The request; a replay is the session's own, to the letter, so that the provider's cache serves it. */
  private options(request: ModelRequest, log: DshLog): GenerateOptions {
    const header = log.session.requestHeader();
    const messages = request.messages.map((message) => fromHost(message));
    const common = {
      provider: request.provider,
      model: request.model,
      messages,
      ...(request.maxTokens === undefined ? {} : { maxTokens: request.maxTokens }),
      sessionId: log.session.id,
      purpose: 'compaction' as const,
      signal: request.signal,
    };
    if (!request.replay) return { ...common, ...(request.system === undefined ? {} : { system: request.system }) };
    const { system, tools, config } = header ?? {};
    return {
      ...common,
      ...(system === undefined ? {} : { system }),
      ...(tools === undefined ? {} : { tools: [...tools] }),
      ...(config?.reasoningEffort === undefined ? {} : { reasoningEffort: config.reasoningEffort }),
      ...(config?.temperature === undefined ? {} : { temperature: config.temperature }),
    };
  }
}

/** The package's own messages in the harness's form; those of the session are in it already. */
function fromHost(message: unknown): DshMessage {
  const { content } = message as { content: unknown };
  if (typeof content !== 'string') return message as DshMessage;
  return createUserMessage({
    content: [{ type: 'text', text: content }],
    source: { kind: 'plugin', plugin: 'harness-compact' },
  });
}

function toChunk(block: ContentBlock): ModelChunk {
  switch (block.type) {
    case 'text':
    case 'reasoning':
      return { type: block.type, text: block.text };
    case 'tool-call':
      return { type: 'tool-call', id: block.id, name: block.name, arguments: block.arguments };
    default:
      return { type: 'other', kind: block.type };
  }
}

function toFailure(kind: 'error' | 'aborted', failure: LlmFailure): ModelFailure {
  const { message, code, status, providerRetryAfterMs } = failure;
  if (kind === 'aborted') return { tag: 'aborted' };
  if (code === CONTEXT_WINDOW_EXCEEDED_CODE) return { tag: 'context-overflow', val: message };
  if (code === QUOTA_EXCEEDED_CODE) return { tag: 'refused', val: message };
  if (status === 429) return { tag: 'rate-limited', val: providerRetryAfterMs };
  if (status !== undefined && status >= 500) return { tag: 'unavailable', val: message };
  return { tag: 'other', val: `${message} (${code})` };
}
