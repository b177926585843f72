// The agent loop of deepseek-harness with our backend as its compaction service, in a turn that
// outgrows the window. The model is scripted. In a composition file, put `harness-compact/dsh`
// where `@deepseek-ai/dsh-compaction-basic` stands, with the same configuration.
import { Context } from '@deepseek-ai/cordis';
import AgentRegistry from '@deepseek-ai/dsh-agent';
import AgentLoop from '@deepseek-ai/dsh-agent-loop';
import * as commandCompact from '@deepseek-ai/dsh-command-compact';
import CommandRuntime from '@deepseek-ai/dsh-commands';
import LlmRuntime, { createUserMessage, LlmAdapter } from '@deepseek-ai/dsh-llm';
import SessionStore from '@deepseek-ai/dsh-session';
import SystemPrompt from '@deepseek-ai/dsh-system-prompt';
import ToolRuntime, { defineTool } from '@deepseek-ai/dsh-tools';
import HarnessCompact from 'harness-compact/dsh';

class Scripted extends LlmAdapter {
  step = 0;

  async resolveModel(provider, model) {
    return { provider, id: model, name: model, context: { contextWindow: 16_000 } };
  }

  async *stream({ purpose }) {
    const text = `## Primary Request and Intent\n- read every file; ${this.step} are read`;
    if (purpose === 'compaction') return yield* this.say({ type: 'text', text }, 'stop');
    this.step += 1;
    const block = { type: 'tool-call', id: `call-${this.step}`, name: 'read', arguments: JSON.stringify({ path: `file-${this.step}` }) };
    if (this.step <= 40) yield* this.say(block, 'tool-calls');
    else yield* this.say({ type: 'text', text: 'I have read them all.' }, 'stop');
  }

  *say(block, kind) {
    yield { type: 'block-start', index: 0, blockType: block.type };
    yield { type: 'block-end', index: 0, block };
    yield { type: 'finish', reason: { kind } };
  }
}

const ctx = new Context();
ctx.logger.exporter({ levels: { default: 1 }, export: ({ args }) => console.log(...args) });
for (const plugin of [LlmRuntime, SessionStore, AgentRegistry, CommandRuntime]) await ctx.plugin(plugin);
for (const plugin of [SystemPrompt, ToolRuntime]) await ctx.plugin(plugin, {});
ctx.llm.registerAdapter(['scripted'], new Scripted());
ctx.tools.register(
  defineTool({
    name: 'read',
    description: 'Read a file.',
    parameters: { path: { type: 'string', required: true } },
    output: { schema: { type: 'string' }, render: (_, text) => [{ type: 'text', text }] },
    execute: async ({ path }) => `${path}: ${'a line of the file. '.repeat(120)}`,
  }),
);
await ctx.plugin(HarnessCompact, { maxTokens: 2048 });
await ctx.plugin(commandCompact);
await ctx.plugin(AgentLoop, { agents: [] });

const { agent } = await ctx.agents.create({ sessionId: 'example', agentOptions: { provider: 'scripted', model: 'scripted-1' } });
agent.followup(createUserMessage({ content: [{ type: 'text', text: 'Read every file.' }], source: { kind: 'user' } }));
await agent.whenIdle();

const { result } = await ctx.commands.execute(agent, '/compact', [], new AbortController().signal);
console.log(`/compact: ${result.text}`);
const messages = agent.session.deriveMessages();
console.log(`the next request has ${messages.length} messages; the first is:`);
console.log(messages[0].content.map((block) => block.text).join('\n'));
await ctx.fiber.dispose();
