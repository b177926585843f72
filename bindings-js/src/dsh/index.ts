/**
 * A compaction backend for deepseek-harness: it takes the place of
 * `@deepseek-ai/dsh-compaction-basic`, under the same keys of its configuration.
 *
 * @module
 */

import { type Context, Service } from '@deepseek-ai/cordis';
import type { Agent } from '@deepseek-ai/dsh-agent';
import type { CommandId } from '@deepseek-ai/dsh-commands/brand';
import { CompactionEngine, ManualCompactionError } from '@deepseek-ai/dsh-compaction';
import type {
  CompactionAgentContext,
  CompactionResult as DshResult,
  CompactionTrigger,
  ManualCompactAgentContext,
} from '@deepseek-ai/dsh-compaction';
import type {} from '@deepseek-ai/dsh-compaction-tool-result-pruner';
import { CONTEXT_WINDOW_EXCEEDED_CODE } from '@deepseek-ai/dsh-llm';
import type { Session } from '@deepseek-ai/dsh-session';
import type {} from '@deepseek-ai/dsh-token-meter';

import type { AgentContext, Compactor } from '../compactor.js';
import type { CompactionResult } from '../contract.js';
import { CompactError, messageOf } from '../errors.js';
import { createCompactor } from '../index.js';
import { toolsTokens } from '../tools.js';
import { type DshConfig, resolveConfig, type ResolvedConfig } from './config.js';
import { DshLog } from './log.js';
import { DshModel } from './model.js';

export type { DshConfig, DshPolicy } from './config.js';

/** The plugin: `ctx.plugin(HarnessCompact, config)`, or by name in a composition. */
export class HarnessCompact extends CompactionEngine {
  static inject = ['llm', 'sessions'];

  private readonly settings: ResolvedConfig;
  private readonly logs = new WeakMap<Session, DshLog>();
  private readonly recoveries = new WeakMap<Session, number>();
  private readonly warned = new Set<string>();
  private compactor!: Compactor;

  constructor(ctx: Context, config: DshConfig = {}) {
    super(ctx);
    this.settings = resolveConfig(config);
  }

  /** The plugin is up once its engine is; a setting that the engine refuses fails it. */
  async [Service.init](): Promise<() => void> {
    const model = new DshModel(() => this.ctx.llm);
    this.compactor = await createCompactor({ config: this.settings.compactor, model });
    if (this.settings.auto) this.listen();
    return () => this.compactor.dispose();
  }

  async compactIfNeeded(
    agent: CompactionAgentContext,
    trigger: CompactionTrigger,
    signal: AbortSignal,
  ): Promise<DshResult | null> {
    const log = this.log(agent.session);
    const header = agent.session.requestHeader();
    // Nothing has been sent yet: neither is the window known, nor can it be full.
    if (!header?.config.provider || !header.config.model) return null;
    const context = await this.context(agent, signal);
    if (trigger === 'pressure' && context.contextWindow === undefined) {
      const route = `${header.config.provider}/${header.config.model}`;
      this.warnOnce(`the window of ${route} is not known; set contextWindow on that model, or on this plugin`);
      return null;
    }
    this.refuseIfBusy(log);
    const prompt = header.system ?? '';
    const pruner = this.ctx.get('toolResultPruner');
    if (pruner && (trigger === 'context-overflow' || (await this.isDue(context, prompt)))) {
      pruner.pruneSession(agent.session);
    }
    return this.answer(log, () => this.compactor.compactIfNeeded(context, prompt, [], signal, trigger));
  }

  async compactRegion(
    start: number,
    end: number,
    agent: CompactionAgentContext,
    signal?: AbortSignal,
  ): Promise<DshResult> {
    const log = this.log(agent.session);
    this.refuseIfBusy(log);
    if (log.openTurn() === undefined) {
      throw new Error('a range is compacted within a turn; between turns, use compactNow');
    }
    const context = await this.context(agent, signal);
    const done = () => this.compactor.compactRegion(log, start, end, context, signal);
    return (await this.answer(log, done)) as DshResult;
  }

  compactNow(
    agent: ManualCompactAgentContext,
    signal: AbortSignal,
    sourceCommandId?: CommandId,
  ): Promise<DshResult | null> {
    signal.throwIfAborted();
    const task = (ofAgent: AbortSignal) => this.compactIdle(agent, ofAgent, signal, sourceCommandId);
    try {
      return agent.runMaintenance(task);
    } catch (cause) {
      throw new ManualCompactionError('busy', 'the agent is at work, or has work waiting', { cause });
    }
  }

  /** Compact while the agent is kept idle, and see to it that it is stored. */
  private async compactIdle(
    agent: ManualCompactAgentContext,
    ofAgent: AbortSignal,
    ofCaller: AbortSignal,
    commandId: CommandId | undefined,
  ): Promise<DshResult | null> {
    const { session } = agent;
    const signal = AbortSignal.any([ofAgent, ofCaller]);
    const log = this.log(session);
    try {
      signal.throwIfAborted();
      this.refuseIfBusy(log);
      if (log.openTurn() !== undefined) {
        throw new ManualCompactionError('busy', 'the session has an open turn');
      }
      const context = await this.context(agent, signal);
      log.flushFailure = undefined;
      log.manual = { commandId, flush: async () => void (await this.ctx.sessions.flush(session)) };
      const result = await this.answer(log, () => this.compactor.compactNow(context, { signal }));
      signal.throwIfAborted();
      return result;
    } catch (error) {
      if (ofAgent.aborted && signal.reason === ofAgent.reason) {
        throw new ManualCompactionError('cancelled', 'the compaction was cancelled', { cause: error });
      }
      signal.throwIfAborted();
      throw error instanceof CompactError ? manualError(error, log) : error;
    } finally {
      log.manual = undefined;
    }
  }

  /** Compact by itself: before each step, and where the provider says that a request is too long. */
  private listen(): void {
    const { ctx } = this;
    ctx.on('agent/pre-step', async ({ agent, signal }, next) => {
      if (!signal.aborted) {
        try {
          const result = await this.compactIfNeeded(agent, 'pressure', signal);
          if (result) this.tell('near the window', result);
        } catch (error) {
          // A turn does not end because of this: the provider has the last word.
          if (!signal.aborted) this.warn(error, agent);
        }
      }
      return next();
    });

    ctx.on('agent/request-error', async ({ agent, failure, signal }, next) => {
      if (failure.code !== CONTEXT_WINDOW_EXCEEDED_CODE || signal.aborted) return next();
      const { session } = agent;
      const route = session.requestHeader()?.config;
      const before = this.recoveries.get(session) ?? 0;
      if (!route || before >= this.settings.overflowRetries(route)) return next();
      const { replaceGeneration } = session.surface;
      try {
        const result = await this.compactIfNeeded(agent, 'context-overflow', signal);
        if (result) this.tell('context overflow', result);
      } catch (error) {
        if (!signal.aborted) ctx.logger.warn(`compaction after a context overflow failed: ${messageOf(error)}`);
      }
      // Only a surface that has changed is worth another request.
      if (signal.aborted || session.surface.replaceGeneration <= replaceGeneration) return next();
      this.recoveries.set(session, before + 1);
      return { kind: 'retry' };
    });

    // An answer, or the end of the work, and the next overflow is a new one.
    ctx.on('session/event', (session, event) => {
      if (event.type === 'assistant/message') this.recoveries.delete(session);
    });
    ctx.on('agent/status', ({ agent, status }) => {
      if (status === 'idle') this.recoveries.delete(agent.session);
    });
  }

  /** What the engine is told of the agent. */
  private async context(agent: CompactionAgentContext, signal: AbortSignal | undefined): Promise<AgentContext> {
    const { session, options } = agent;
    const header = session.requestHeader();
    const { provider = options.provider, model = options.model } = header?.config ?? {};
    const context: AgentContext = { session: this.log(session) };
    if (!provider || !model) return context;
    const known = (await this.ctx.llm.resolveModelInfo(provider, model, signal)).context;
    const contextWindow = known?.contextWindow ?? this.settings.contextWindow;
    // A cap is no forecast: no answer is expected to take more than half of the window.
    const cap = header?.config.maxTokens;
    return {
      ...context,
      options: { provider, model },
      ...(contextWindow === undefined ? {} : { contextWindow }),
      ...(cap === undefined || contextWindow === undefined
        ? {}
        : { outputTokens: Math.min(cap, Math.floor(contextWindow / 2)) }),
      ...(header ? { toolsTokens: toolsTokens(header.tools) } : {}),
    };
  }

  private async isDue(context: AgentContext, prompt: string): Promise<boolean> {
    const { totalTokens, thresholdTokens } = await this.compactor.measure(context, prompt);
    return totalTokens >= thresholdTokens;
  }

  private log(session: Session): DshLog {
    let log = this.logs.get(session);
    if (!log) this.logs.set(session, (log = new DshLog(session)));
    const meter = this.ctx.get('tokenMeter');
    log.priceOf = meter && ((message) => meter.estimateMessage(message));
    return log;
  }

  /** Calls on one session would wait for each other; the harness is told at once. */
  private refuseIfBusy(log: DshLog): void {
    const lock = log.lock();
    if (lock) throw new ManualCompactionError('busy', `a compaction is under way since event ${lock.seq}`);
  }

  /** Run a compaction, and answer its result in the harness's words. */
  private async answer(log: DshLog, compact: () => Promise<CompactionResult | null>): Promise<DshResult | null> {
    const result = await compact();
    if (!result) return null;
    const event = log.session.events[result.summarySeq];
    if (event?.type !== 'compaction/summary') throw new Error(`event ${result.summarySeq} is no summary`);
    const { compactionId, sourceCommandId, summary, shadowedRange, shadowedSeqs, shadowedTokenCount } = event.data;
    return {
      compactionId,
      ...(sourceCommandId === undefined ? {} : { sourceCommandId }),
      startSeq: result.startSeq,
      summarySeq: result.summarySeq,
      endSeq: result.endSeq,
      summary: [...summary],
      shadowedRange: { ...shadowedRange },
      shadowedSeqs: [...shadowedSeqs],
      shadowedTokenCount,
    };
  }

  private tell(why: string, result: DshResult): void {
    const { shadowedSeqs, shadowedTokenCount } = result;
    this.ctx.logger.info(`compacted ${shadowedSeqs.length} nodes of about ${shadowedTokenCount} tokens (${why})`);
  }

  private warn(error: unknown, agent: Agent): void {
    const lasting = error instanceof CompactError && (error.code === 'config' || error.code === 'irreducible');
    if (lasting) this.warnOnce(`session ${agent.session.id} is not compacted: ${error.message}`);
    else this.ctx.logger.warn(`compaction before a step failed: ${messageOf(error)}; the turn goes on without it`);
  }

  /** What would be said before every step is said once. */
  private warnOnce(message: string): void {
    if (this.warned.has(message)) return;
    this.warned.add(message);
    this.ctx.logger.warn(message);
  }
}

/** A compaction's error as the harness sorts those that a user asked for. */
function manualError(error: CompactError, log: DshLog): ManualCompactionError {
  const cause = { cause: error };
  if (log.flushFailure !== undefined) {
    return new ManualCompactionError('persistence', 'the compaction is made, but could not be stored', cause);
  }
  switch (error.code) {
    case 'busy':
    case 'changed':
      return new ManualCompactionError(error.code, error.message, cause);
    case 'aborted':
      return new ManualCompactionError('cancelled', error.message, cause);
    case 'session':
    case 'trap':
      return new ManualCompactionError('commit', error.message, cause);
    default:
      return new ManualCompactionError('summary', error.message, cause);
  }
}

export default HarnessCompact;
