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
import { createCompactor } from '../index.js';
import { PiLog } from './log.js';
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
  const log = new PiLog(context.sessionManager.getSessionId(), context.sessionManager.buildSessionProjection());
  const agent = { session: log, options: { provider: model.provider, model: model.id }, contextWindow: model.contextWindow };
  const result = await compactor.compactNow(agent, {
    retainTokens: preparation.settings.keepRecentTokens,
    signal,
    ...(customInstructions ? { instructions: customInstructions } : {}),
  });
  // Where there is nothing to gain, pi says so in its own words.
  if (!result) return undefined;
  const firstKeptEntryId = log.entryAfter(result.shadowedRange.end);
  if (firstKeptEntryId === undefined) throw new CompactError('host', 'nothing would be kept');
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
