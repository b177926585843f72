/**
 * An extension for the pi coding agent: its compactions, by hand, at the threshold and after an
 * overflow, get their cut and their summary from this engine. When to compact stays with pi.
 *
 * `pi install npm:harness-compact`, or in an extension file of your own:
 *
 * ```js
 * import { harnessCompact } from 'harness-compact/pi';
 * export default harnessCompact({ summarizationProvider: 'google', summarizationModel: 'gemini-2.5-flash' });
 * ```
 *
 * @module
 */

import type { ExtensionAPI, ExtensionContext, SessionBeforeCompactEvent, SessionBeforeCompactResult } from '@earendil-works/pi-coding-agent';

import type { Compactor, CompactorConfig } from '../compactor.js';
import { CompactError, messageOf } from '../errors.js';
import { FileLog } from '../files/log.js';
import { createCompactor } from '../index.js';
import type { FileSession } from '../wasm/command.js';
import { PiRegistryModel } from './model.js';

/** The compactor's settings, but for those that pi has itself: when, and how much is kept. */
export type PiConfig = Omit<
  CompactorConfig,
  | 'thresholdRatio' | 'thresholdTokens' | 'retainTokens' | 'retainRatio' | 'contextWindow' | 'modelPolicies'
  | 'summarizationInput' | 'protectInFlightTurn' | 'prune' | 'compactionRetries'
>;

/** The extension, with settings. */
export function harnessCompact(config: PiConfig = {}): (pi: ExtensionAPI) => void {
  return (pi) => {
    pi.on('session_before_compact', async (event, context) => {
      try {
        return await answer(event, context, config);
      } catch (error) {
        if (event.signal.aborted) return { cancel: true };
        // pi has a compaction of its own, which may do better.
        context.ui.notify(`harness-compact: ${messageOf(error)}; pi compacts by itself`, 'warning');
        return undefined;
      }
    });
  };
}

async function answer(
  event: SessionBeforeCompactEvent,
  context: ExtensionContext,
  config: PiConfig,
): Promise<SessionBeforeCompactResult | undefined> {
  const { preparation, customInstructions, signal } = event;
  const { model } = context;
  if (!model) return undefined;
  const models = new PiRegistryModel(context);
  using compactor: Compactor = await createCompactor({
    model: models,
    config: { ...config, summarizationInput: 'transcript' },
  });
  const session = await open(context.sessionManager);
  const log = new FileLog(context.sessionManager.getSessionId(), session);
  const agent = { session: log, options: { provider: model.provider, model: model.id }, contextWindow: model.contextWindow };
  const result = await compactor.compactNow(agent, {
    retainTokens: preparation.settings.keepRecentTokens,
    signal,
    ...(customInstructions ? { instructions: customInstructions } : {}),
  });
  // Where there is nothing to gain, pi says so in its own words.
  if (!result) return undefined;
  // The checkpoint, and what is kept after it.
  const [, kept] = session.surface();
  const record = kept === undefined ? undefined : session.records(kept)[0];
  if (record === undefined) throw new CompactError('host', 'nothing would be kept');
  const firstKeptEntryId = (JSON.parse(record) as { id: string }).id;
  return {
    compaction: {
      summary: result.summary.map((block) => (block.tag === 'text' ? block.val : '')).join('\n'),
      firstKeptEntryId,
      tokensBefore: preparation.tokensBefore,
      ...(models.answers.length ? { usage: models.answers.map(({ usage }) => usage).reduce(sum) } : {}),
      details: {
        by: 'harness-compact',
        tokensBefore: result.before.totalTokens,
        tokensAfter: result.after.totalTokens,
        elided: result.elidedSeqs.length,
      },
    },
  };
}

/** pi's session as its file has it, read as every such file is: a copy, to try a compaction on. */
async function open(manager: ExtensionContext['sessionManager']): Promise<FileSession> {
  const { load } = await import('../load-files.js');
  const { FileSession } = await load();
  const timestamp = new Date(0).toISOString();
  const header = manager.getHeader() ?? { type: 'session', version: 3, id: manager.getSessionId(), timestamp };
  const lines = [header, ...manager.getBranch()].map((entry) => `${JSON.stringify(entry)}\n`);
  return FileSession.open(new TextEncoder().encode(lines.join('')), 'pi', false);
}

type PiUsage = PiRegistryModel['answers'][number]['usage'];

/** What several calls used together. */
function sum(a: PiUsage, b: PiUsage): PiUsage {
  const cost = { ...a.cost };
  for (const key of ['input', 'output', 'cacheRead', 'cacheWrite', 'total'] as const) cost[key] += b.cost[key];
  return {
    ...a,
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    totalTokens: a.totalTokens + b.totalTokens,
    cost,
  };
}

export default harnessCompact();
