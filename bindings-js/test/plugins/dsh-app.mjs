/** The harness of the published packages, with a scripted model in place of a provider. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Context } from '@deepseek-ai/cordis';
import AgentRegistry from '@deepseek-ai/dsh-agent';
import AgentLoop from '@deepseek-ai/dsh-agent-loop';
import * as commandCompact from '@deepseek-ai/dsh-command-compact';
import CommandRuntime from '@deepseek-ai/dsh-commands';
import InvariantRegistry from '@deepseek-ai/dsh-invariants';
import LlmRuntime, { createUserMessage, LlmAdapter } from '@deepseek-ai/dsh-llm';
import SessionStore from '@deepseek-ai/dsh-session';
import JsonlPersistence from '@deepseek-ai/dsh-session-persistence-jsonl';
import SystemPrompt from '@deepseek-ai/dsh-system-prompt';
import TokenMeter from '@deepseek-ai/dsh-token-meter';
import ToolRuntime, { defineTool } from '@deepseek-ai/dsh-tools';

/** Every package's own checks of what is appended, streamed and dispatched. */
const companions = await Promise.all(
  ['agent', 'agent-loop', 'commands', 'command-compact', 'compaction', 'llm', 'session', 'system-prompt', 'token-meter', 'tools'].map(
    (name) => import(`@deepseek-ai/dsh-${name}/invariant`),
  ),
);

export const route = { provider: 'scripted', model: 'scripted-1' };

/** Answers by a function of the request, and keeps every request. */
export class Scripted extends LlmAdapter {
  requests = [];

  constructor(answer, contextWindow) {
    super();
    this.answer = answer;
    this.contextWindow = contextWindow;
  }

  async resolveModel(provider, model) {
    const context = this.contextWindow && { context: { contextWindow: this.contextWindow } };
    return { provider, id: model, name: model, ...context };
  }

  async *stream(options) {
    this.requests.push(options);
    const { text, calls = [], usage, failure } = await this.answer(options, this.requests.length);
    if (failure) {
      yield { type: 'finish', reason: { kind: 'error', failure } };
      return;
    }
    let index = 0;
    if (text !== undefined) {
      yield { type: 'block-start', index, blockType: 'text' };
      yield { type: 'text-delta', index, text };
      yield { type: 'block-end', index, block: { type: 'text', text } };
      index += 1;
    }
    for (const call of calls) {
      const block = { type: 'tool-call', id: call.id, name: call.name, arguments: JSON.stringify(call.arguments) };
      yield { type: 'block-start', index, blockType: 'tool-call' };
      yield { type: 'tool-call-delta', index, id: call.id, name: call.name, argumentsDelta: block.arguments };
      yield { type: 'block-end', index, block };
      index += 1;
    }
    if (usage) yield { type: 'usage', usage };
    yield { type: 'finish', reason: { kind: calls.length ? 'tool-calls' : 'stop' } };
  }
}

/** Mount everything but the compaction, which is the test's to choose. */
export async function mount({ answer, contextWindow = 8_000, root = mkdtempSync(join(tmpdir(), 'dsh-')) }) {
  const ctx = new Context();
  const warnings = [];
  ctx.logger.exporter({
    levels: { default: 3 },
    export: ({ type, args }) => (type === 'warn' || type === 'error') && warnings.push(args.map(String).join(' ')),
  });
  await ctx.plugin(InvariantRegistry);
  await ctx.plugin(LlmRuntime);
  await ctx.plugin(SessionStore);
  await ctx.plugin(JsonlPersistence, { root, compression: 'none' });
  await ctx.plugin(SystemPrompt, {});
  await ctx.plugin(ToolRuntime, {});
  await ctx.plugin(AgentRegistry);
  await ctx.plugin(CommandRuntime);
  await ctx.plugin(TokenMeter);
  for (const companion of companions) await ctx.plugin(companion);
  const adapter = new Scripted(answer, contextWindow);
  ctx.llm.registerAdapter([route.provider], adapter);
  ctx.tools.register(
    defineTool({
      name: 'read',
      description: 'Read a file.',
      parameters: { path: { type: 'string', required: true } },
      output: { schema: { type: 'string' }, render: (_, text) => [{ type: 'text', text }] },
      execute: async ({ path }) => `${path}: ${'a line of the file. '.repeat(120)}`,
    }),
  );
  await ctx.plugin(AgentLoop, { agents: [] });
  return { ctx, adapter, root, warnings };
}

/** Load a compaction backend, and the command that goes with it. */
export async function mountCompaction(ctx, plugin, config) {
  await ctx.plugin(plugin, config);
  await ctx.plugin(commandCompact);
}

export const say = (text) => createUserMessage({ content: [{ type: 'text', text }], source: { kind: 'user' } });
