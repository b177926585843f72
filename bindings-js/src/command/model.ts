/** The command's models: the AI SDK's provider packages, where one is installed. */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import type { ModelFailure } from '../contract.js';
import { messageOf } from '../errors.js';
import { toFailure } from '../failure.js';
import type { ModelChunk } from '../model.js';

/** What the engine asks for. */
interface Request {
  provider: string;
  model: string;
  baseUrl: string | null;
  system: string;
  user: string;
  maxTokens: number | null;
  part: [number, number] | null;
}

/** The packages of providers that are not called `@ai-sdk/PROVIDER`. */
const PACKAGES: Record<string, string> = {
  bedrock: '@ai-sdk/amazon-bedrock',
  gemini: '@ai-sdk/google',
  openrouter: '@openrouter/ai-sdk-provider',
  together: '@ai-sdk/togetherai',
  vertex: '@ai-sdk/google-vertex',
};

const COMPATIBLE = '@ai-sdk/openai-compatible';

/** A package of the user's: beside the working directory, or beside this one. */
async function load(name: string): Promise<Record<string, any>> {
  for (const from of [join(process.cwd(), 'package.json'), import.meta.url]) {
    let path: string;
    try {
      path = createRequire(from).resolve(name);
    } catch {
      continue;
    }
    const loaded = await import(pathToFileURL(path).href);
    return { ...loaded.default, ...loaded };
  }
  throw new Error(`${name} is not installed; run: npm install ${name}`);
}

/** The key that a provider's endpoint is called with, by its usual name. */
function keyOf(provider: string): string | undefined {
  const own = process.env[`${provider.toUpperCase().replaceAll('-', '_')}_API_KEY`];
  return own || process.env['OPENAI_API_KEY'] || undefined;
}

async function languageModel({ provider, model, baseUrl }: Request): Promise<any> {
  if (baseUrl !== null) {
    const { createOpenAICompatible } = await load(COMPATIBLE);
    const apiKey = keyOf(provider);
    const settings = { name: provider, baseURL: baseUrl.replace(/\/+$/, ''), includeUsage: true };
    return createOpenAICompatible?.(apiKey ? { ...settings, apiKey } : settings)(model);
  }
  const name = PACKAGES[provider] ?? `@ai-sdk/${provider}`;
  const exported = await load(name);
  const create = Object.entries(exported).find(([key, value]) => /^create[A-Z]/.test(key) && typeof value === 'function');
  if (!create) throw new Error(`${name} offers no provider`);
  return create[1]({})(model);
}

/** An answer that is being generated, for the engine: texts of JSON. */
export interface Answer {
  next(): Promise<string>;
  cancel(): void;
}

const failed = (failure: ModelFailure) => JSON.stringify(failure);

/** Start a call; what could not be started is told as a text. */
export async function stream(text: string, signal: AbortSignal, progress: (doing: string) => void): Promise<Answer | string> {
  const request = JSON.parse(text) as Request;
  const ended = new AbortController();
  const both = AbortSignal.any([signal, ended.signal]);
  const part = request.part ? ` part ${request.part[0]} of ${request.part[1]}` : '';
  progress(`summarising${part}: waiting for ${request.model}`);
  let reader: ReadableStreamDefaultReader<any>;
  try {
    const model = await languageModel(request);
    const answer = await model.doStream({
      prompt: [
        { role: 'system', content: request.system },
        { role: 'user', content: [{ type: 'text', text: request.user }] },
      ],
      ...(request.maxTokens === null ? {} : { maxOutputTokens: request.maxTokens }),
      abortSignal: both,
    });
    reader = answer.stream.getReader();
  } catch (error) {
    return failed(signal.aborted ? { tag: 'aborted' } : toFailure(error));
  }
  let characters = 0;
  return {
    async next() {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return '[]';
          if (value.type === 'error') return failed(toFailure(value.error));
          const chunk = toChunk(value);
          if (!chunk) continue;
          if (chunk.type === 'text') progress(`summarising${part}: ${(characters += chunk.text.length)} characters`);
          return JSON.stringify([chunk]);
        }
      } catch (error) {
        return failed(signal.aborted ? { tag: 'aborted' } : toFailure(error));
      }
    },
    cancel() {
      ended.abort();
      reader.cancel().catch((error) => void messageOf(error));
    },
  };
}

/** A part of a provider's stream; undefined for those that say nothing to the engine. */
function toChunk(part: any): ModelChunk | undefined {
  switch (part.type) {
    case 'text-delta':
      return { type: 'text', text: part.delta ?? part.textDelta ?? '' };
    case 'reasoning-delta':
      return { type: 'reasoning', text: part.delta ?? '' };
    case 'tool-call':
      return { type: 'tool-call', id: part.toolCallId, name: part.toolName, arguments: String(part.input) };
    case 'file':
      return { type: 'other', kind: 'file' };
    case 'finish': {
      const reason = part.finishReason?.unified ?? part.finishReason;
      const known = { stop: 'stop', length: 'max-tokens', 'tool-calls': 'tool-calls', 'content-filter': 'content-filter' } as const;
      const { inputTokens, outputTokens, cachedInputTokens } = part.usage ?? {};
      const input = inputTokens?.total ?? inputTokens ?? 0;
      const cacheReadTokens = inputTokens?.cacheRead ?? cachedInputTokens ?? 0;
      return {
        type: 'finish',
        reason: known[reason as keyof typeof known] ?? 'other',
        usage: {
          inputTokens: Math.max((typeof input === 'number' ? input : 0) - cacheReadTokens, 0),
          outputTokens: outputTokens?.total ?? (typeof outputTokens === 'number' ? outputTokens : 0),
          cacheReadTokens,
          cacheWriteTokens: inputTokens?.cacheWrite ?? 0,
        },
      };
    }
    default:
      return undefined;
  }
}
