import type { CompactorConfig, PolicyOptions } from '../compactor.js';
import { CompactError } from '../errors.js';

/** The settings that can differ by model: the harness's own keys, and ours. */
export interface DshPolicy extends Omit<PolicyOptions, 'summarizationMaxTokens'> {
  /** The same as a share of the window. Default 0.16. Excludes `retainTokens`. */
  retainRatio?: number;
  /** Generation cap of the summary, reasoning included. Default 8192. */
  maxTokens?: number;
  /** How often an overflow may be recovered from until an answer comes; 0 turns it off. Default 1. */
  maxOverflowRetries?: number;
}

/** The plugin's settings: those of `dsh-compaction-basic`, and of `createCompactor`. */
export interface DshConfig extends DshPolicy, Omit<CompactorConfig, keyof PolicyOptions | 'modelPolicies'> {
  /** Listen before each step and on context overflow. Default true. */
  auto?: boolean;
  /** Policies by model; the first match counts. */
  modelPolicies?: ({ provider: string; model: string } & DshPolicy)[];
}

/** What the plugin does itself, and what it leaves to the compactor. */
export interface ResolvedConfig {
  auto: boolean;
  /** The window of models that do not tell theirs. */
  contextWindow: number | undefined;
  compactor: CompactorConfig;
  overflowRetries(route: { provider: string; model: string }): number;
}

const MAX_TOKENS = 8192;
const RETAIN_RATIO = 0.16;
const THRESHOLD_RATIO = 0.8;

function fault(key: string, message: string): CompactError {
  const val = { key, message };
  return new CompactError('config', `configuration: ${key}: ${message}`, false, { tag: 'config', val });
}

/** A policy in the compactor's keys. */
function policy(at: string, own: DshPolicy): PolicyOptions {
  const { maxTokens, maxOverflowRetries, summarizationProvider, summarizationModel, ...rest } = own;
  if (maxOverflowRetries !== undefined && !(Number.isInteger(maxOverflowRetries) && maxOverflowRetries >= 0)) {
    throw fault(`${at}maxOverflowRetries`, `${String(maxOverflowRetries)} is not a whole number from 0 on`);
  }
  if ('summarizationMaxTokens' in rest) throw fault(`${at}summarizationMaxTokens`, 'its name here is maxTokens');
  // Two empty names stand for the session's own model.
  const isOwn = !summarizationProvider && !summarizationModel;
  return {
    ...rest,
    ...(isOwn ? {} : { summarizationProvider, summarizationModel }),
    ...(maxTokens === undefined ? {} : { summarizationMaxTokens: maxTokens }),
  } as PolicyOptions;
}

/** What is kept must be less than what starts a compaction, whatever the window. */
function checkRatios(at: string, thresholdRatio: number, retainRatio: number | undefined): void {
  if (retainRatio === undefined || retainRatio < thresholdRatio) return;
  throw fault(`${at}retainRatio`, `${retainRatio} is not below the thresholdRatio of ${thresholdRatio}`);
}

/** Read the plugin's settings; the error names the one at fault. */
export function resolveConfig(config: DshConfig = {}): ResolvedConfig {
  const { auto = true, modelPolicies = [], contextWindow, ...own } = config;
  if (typeof auto !== 'boolean') throw fault('auto', `${String(auto)} is neither true nor false`);
  if (!Array.isArray(modelPolicies)) throw fault('modelPolicies', 'it is not a list');
  const thresholdRatio = own.thresholdRatio ?? THRESHOLD_RATIO;
  const retention = own.retainTokens === undefined ? { retainRatio: own.retainRatio ?? RETAIN_RATIO } : {};
  checkRatios('', thresholdRatio, retention.retainRatio);

  const seen = new Set<string>();
  const policies = modelPolicies.map((entry, index) => {
    const at = `modelPolicies[${index}].`;
    for (const key of ['provider', 'model'] as const) {
      if (typeof entry?.[key] !== 'string' || !entry[key]) throw fault(at + key, 'it is not a name');
    }
    const { provider, model, ...rest } = entry;
    const route = `${provider}/${model}`;
    if (seen.has(route)) throw fault(`modelPolicies[${index}]`, `there are two policies for ${route}`);
    seen.add(route);
    const inherited = rest.retainTokens === undefined ? (rest.retainRatio ?? retention.retainRatio) : undefined;
    checkRatios(at, rest.thresholdRatio ?? thresholdRatio, inherited);
    return { provider, model, ...policy(at, rest) };
  });

  return {
    auto,
    contextWindow,
    compactor: {
      ...policy('', { maxTokens: MAX_TOKENS, ...own, ...retention }),
      ...(contextWindow === undefined ? {} : { contextWindow }),
      modelPolicies: policies,
    } as CompactorConfig,
    overflowRetries({ provider, model }) {
      const match = modelPolicies.find((entry) => entry.provider === provider && entry.model === model);
      return match?.maxOverflowRetries ?? own.maxOverflowRetries ?? 1;
    },
  };
}
