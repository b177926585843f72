/** The published pi coding agent, with its own scripted provider and a session of its own session manager. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { InMemoryCredentialStore } from '@earendil-works/pi-ai';
import { fauxAssistantMessage, fauxProvider, fauxText, fauxToolCall } from '@earendil-works/pi-ai/providers/faux';
import { createAgentSession, DefaultResourceLoader, defineTool, ModelRuntime, SessionManager, SettingsManager } from '@earendil-works/pi-coding-agent';
import { Type } from 'typebox';

export { fauxAssistantMessage, fauxText, fauxToolCall };

const read = defineTool({
  name: 'read_file',
  label: 'Read',
  description: 'Read a file.',
  parameters: Type.Object({ path: Type.String() }),
  execute: async (_, { path }) => ({
    content: [{ type: 'text', text: `${path}: ${'a line of the file. '.repeat(120)}` }],
    details: {},
  }),
});

export async function mount({ answer, extensions = [], paths = [], contextWindow = 16_000, compaction = {}, manager }) {
  const agentDir = mkdtempSync(join(tmpdir(), 'pi-'));
  const modelRuntime = await ModelRuntime.create({
    credentials: new InMemoryCredentialStore(),
    modelsPath: null,
    allowModelNetwork: false,
  });
  const faux = fauxProvider({ provider: 'scripted', models: [{ id: 'scripted-1', contextWindow, maxTokens: 4_000 }] });
  const requests = [];
  const step = async (context, options, state) => {
    requests.push(context);
    return answer(context, requests.length, options);
  };
  // As many answers as anybody asks for.
  faux.setResponses(Array.from({ length: 500 }, () => step));
  modelRuntime.registerNativeProvider(faux.provider);
  const settingsManager = SettingsManager.inMemory({
    compaction: { enabled: true, reserveTokens: 4_000, keepRecentTokens: 3_000, ...compaction },
    retry: { enabled: false },
  });
  const resourceLoader = new DefaultResourceLoader({
    cwd: agentDir,
    agentDir,
    settingsManager,
    extensionFactories: extensions,
    additionalExtensionPaths: paths,
    noSkills: true,
    noContextFiles: true,
    noPromptTemplates: true,
  });
  await resourceLoader.reload();
  const { session } = await createAgentSession({
    cwd: agentDir,
    agentDir,
    model: faux.getModel(),
    modelRuntime,
    settingsManager,
    resourceLoader,
    sessionManager: manager ?? SessionManager.create(agentDir, join(agentDir, 'sessions')),
    noTools: 'builtin',
    customTools: [read],
  });
  const events = [];
  session.subscribe((event) => event.type.startsWith('compaction') && events.push(event));
  return { session, requests, events, agentDir, errors: resourceLoader.getExtensions().errors };
}
