// A tool loop of the AI SDK whose conversation outgrows the window. The model is the SDK's own
// mock; with a real one, `createCompaction` and the call to `generateText` stay as they are.
import { generateText, isStepCount, jsonSchema, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { createCompaction } from 'harness-compact/ai-sdk';

let step = 0;
const usage = { inputTokens: {}, outputTokens: {} };
const model = new MockLanguageModelV4({
  async doGenerate() {
    step += 1;
    const call = { type: 'tool-call', toolCallId: `call-${step}`, toolName: 'read', input: JSON.stringify({ path: `file-${step}` }) };
    return step <= 40
      ? { content: [call], finishReason: { unified: 'tool-calls' }, usage, warnings: [] }
      : { content: [{ type: 'text', text: 'I have read them all.' }], finishReason: { unified: 'stop' }, usage, warnings: [] };
  },
  // Summaries are streamed.
  async doStream() {
    return {
      stream: ReadableStream.from([
        { type: 'stream-start', warnings: [] },
        { type: 'text-start', id: '1' },
        { type: 'text-delta', id: '1', delta: `## Primary Request and Intent\n- read every file; ${step} are read` },
        { type: 'text-end', id: '1' },
        { type: 'finish', finishReason: { unified: 'stop' }, usage },
      ]),
    };
  },
});
const read = tool({
  description: 'Read a file.',
  inputSchema: jsonSchema({ type: 'object', properties: { path: { type: 'string' } } }),
  execute: async ({ path }) => `${path}: ${'a line of the file. '.repeat(120)}`,
});

const compaction = await createCompaction({
  model,
  contextWindow: 16_000,
  onEvent: (event) => event.type === 'landed' && console.log(`compacted before step ${step + 1}`),
});
const messages = [{ role: 'user', content: 'Read every file.' }];
const result = await generateText({
  model: compaction.model,
  prepareStep: compaction.prepareStep,
  messages,
  tools: { read },
  stopWhen: isStepCount(100),
});
messages.push(...result.responseMessages);
console.log(result.text);

const next = compaction.compacted(messages);
console.log(`${messages.length} messages became ${next.length}; the first is now:`);
console.log(next[0].content.map((part) => part.text).join('\n'));
