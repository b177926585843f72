// The pi coding agent with our extension, in a session whose conversation outgrows the window.
// The model is pi's own scripted provider. In everyday use, `pi install npm:harness-compact` is all.
import { InMemoryCredentialStore } from '@earendil-works/pi-ai';
import { fauxAssistantMessage, fauxProvider, fauxToolCall } from '@earendil-works/pi-ai/providers/faux';
import { createAgentSession, DefaultResourceLoader, ModelRuntime, SessionManager, SettingsManager } from '@earendil-works/pi-coding-agent';
import extension from 'harness-compact/pi';

let step = 0;
const answer = ({ messages }) => {
  // A summary is asked for in one message.
  if (!messages.some((message) => message.role !== 'system' && message.role !== 'user')) {
    if (step) return fauxAssistantMessage(`## Primary Request and Intent\n- read every file; ${step} are read`);
  }
  step += 1;
  const call = fauxToolCall('read_file', { path: `file-${step}` }, { id: `call-${step}` });
  return step <= 40 ? fauxAssistantMessage([call], { stopReason: 'toolUse' }) : fauxAssistantMessage('I have read them all.');
};
const provider = fauxProvider({ provider: 'scripted', models: [{ id: 'scripted-1', contextWindow: 16_000, maxTokens: 4_000 }] });
provider.setResponses(Array.from({ length: 100 }, () => answer));
const modelRuntime = await ModelRuntime.create({ credentials: new InMemoryCredentialStore(), modelsPath: null, allowModelNetwork: false });
modelRuntime.registerNativeProvider(provider.provider);

const settingsManager = SettingsManager.inMemory({ compaction: { reserveTokens: 4_000, keepRecentTokens: 3_000 } });
const resourceLoader = new DefaultResourceLoader({
  cwd: process.cwd(),
  agentDir: process.cwd(),
  settingsManager,
  extensionFactories: [extension],
  noSkills: true,
  noContextFiles: true,
});
await resourceLoader.reload();
const { session } = await createAgentSession({
  model: provider.getModel(),
  modelRuntime,
  settingsManager,
  resourceLoader,
  sessionManager: SessionManager.inMemory(),
  noTools: 'builtin',
  customTools: [
    {
      name: 'read_file',
      label: 'Read',
      description: 'Read a file.',
      parameters: { type: 'object', properties: { path: { type: 'string' } } },
      execute: async (_, { path }) => ({ content: [{ type: 'text', text: `${path}: ${'a line of the file. '.repeat(120)}` }], details: {} }),
    },
  ],
});
session.subscribe((event) => {
  if (event.type !== 'compaction_end') return;
  const { tokensBefore, tokensAfter } = event.result.details;
  console.log(`compacted before step ${step + 1} (${event.reason}): ${tokensBefore} tokens became ${tokensAfter}`);
});
await session.prompt('Read every file.');
console.log(session.getLastAssistantText());
const entry = session.sessionManager.getEntries().findLast((entry) => entry.type === 'compaction');
console.log(`the next request has ${session.messages.length} messages; what came before is:\n${entry.summary}`);
session.dispose();
