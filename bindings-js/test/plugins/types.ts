// Compiled, not run: the plugins fit the types of the packages that they are for.
import { Context } from '@deepseek-ai/cordis';
import type { ExtensionFactory } from '@earendil-works/pi-coding-agent';
import { generateText, isStepCount, jsonSchema, streamText, tool, ToolLoopAgent } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { createCompactor, type TranspiledBackend } from 'harness-compact';
import { createCompaction } from 'harness-compact/ai-sdk';
import HarnessCompact, { type DshConfig } from 'harness-compact/dsh';
import extension, { harnessCompact } from 'harness-compact/pi';

const compaction = await createCompaction({ model: new MockLanguageModelV4(), contextWindow: 16_000 });
const { model, prepareStep } = compaction;
const tools = {
  read: tool({
    inputSchema: jsonSchema<{ path: string }>({ type: 'object' }),
    execute: async ({ path }) => path,
  }),
};
const messages = [{ role: 'user' as const, content: 'Hello.' }];
const { signal } = new AbortController();
await generateText({ model, prepareStep, messages, tools, stopWhen: isStepCount(5) });
streamText({ model, prepareStep: compaction.prepareStepUntil(signal), messages, tools, abortSignal: signal });
new ToolLoopAgent({ model, prepareStep, tools });
compaction.compacted(messages) satisfies object[];

const config: DshConfig = { auto: true, retainRatio: 0.1, modelPolicies: [{ provider: 'p', model: 'm', maxTokens: 100 }] };
await new Context().plugin(HarnessCompact, config);

[extension, harnessCompact({ instructions: 'Be brief.' })] satisfies ExtensionFactory[];

declare const backend: TranspiledBackend;
await createCompactor({ backend, model: { async *stream() {} } });
