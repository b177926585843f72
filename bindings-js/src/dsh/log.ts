import { createHash, randomUUID } from 'node:crypto';

import type { CommandId } from '@deepseek-ai/dsh-commands/brand';
import { compactCheckpointSource, CompactionId } from '@deepseek-ai/dsh-compaction';
import type {} from '@deepseek-ai/dsh-compaction/types';
import { createToolResultMessage, createUserMessage } from '@deepseek-ai/dsh-llm';
import type { ContentBlock as DshBlock, Message as DshMessage, TokenUsage, ToolResultBlock } from '@deepseek-ai/dsh-llm';
import type { EpochHeader, Session, SessionEvent as DshEvent } from '@deepseek-ai/dsh-session';

import type { ContentBlock, Draft, Payload, ResultBlock, Seq, SessionEvent, Usage } from '../contract.js';
import { CompactError, messageOf, SessionError } from '../errors.js';
import type { SessionLog } from '../log.js';
import { INTERRUPTED } from '../messages.js';
import { toolsTokens } from '../tools.js';

/** A call to the harness's model service that a summary was made by. */
export interface SummaryCall {
  provider: string;
  model: string;
  blocks: DshBlock[];
}

let opened = 0;

/**
 * A session of the harness as a session log. It writes what the harness's own backend
 * would have written, so that either opens what the other left.
 */
export class DshLog implements SessionLog {
  /** Of this session object, not of the session: a reopened one is read anew. */
  readonly id: string;
  /** Calls that the compaction under way has made. */
  readonly calls: SummaryCall[] = [];
  /** The command that asks for the compaction, and what makes it durable. */
  manual: { commandId: CommandId | undefined; flush: () => Promise<void> } | undefined;
  /** What the harness's meter prices a message at, where there is a meter. */
  priceOf: ((message: DshMessage) => number) | undefined;
  /** Why the last flush failed. */
  flushFailure: unknown;
  /** How much of the log has been looked at, and what it came to. */
  private seen = 0;
  private started: DshEvent<'compaction/start'> | undefined;
  private turn: number | undefined;

  constructor(readonly session: Session) {
    this.id = `${session.id}#${(opened += 1)}`;
  }

  head(): Seq {
    return this.session.seq;
  }

  read(start: Seq, limit: number): SessionEvent[] {
    const { events, firstLiveSeq } = this.session;
    return events.slice(start, start + limit).map((event) => ({
      seq: event.seq,
      payload: readPayload(event, firstLiveSeq),
      surface: readSurface(event),
      sources: 'sourceEventSeqs' in event ? [...(event.sourceEventSeqs ?? [])] : [],
    }));
  }

  append(drafts: Draft[], expectedHead: Seq | undefined): Seq {
    const head = this.session.seq;
    if (expectedHead !== undefined && expectedHead !== head) {
      throw new SessionError({ tag: 'conflict', val: head });
    }
    try {
      // Nothing else runs between these: the harness appends without yielding.
      for (const draft of drafts) this.write(draft);
    } catch (error) {
      throw new SessionError({ tag: 'rejected', val: messageOf(error) }, { cause: error });
    }
    return head;
  }

  async flush(): Promise<void> {
    try {
      await this.manual?.flush();
    } catch (error) {
      this.flushFailure = error;
      throw error;
    }
  }

  messages(seqs: Seq[], deadCalls: { node: Seq; callId: string }[]): DshMessage[] {
    return seqs.flatMap((seq) => {
      const event = this.session.events[seq];
      const message = event ? this.session.deriveEventMessage(event) : null;
      const dead = deadCalls.filter((call) => call.node === seq);
      const results = dead.map(({ callId }) =>
        createToolResultMessage({
          callId: callId as ToolResultBlock['toolCallId'],
          content: [{ type: 'text', text: INTERRUPTED }],
          isError: true,
        }),
      );
      return message ? [message, ...results] : results;
    });
  }

  /** The compaction that holds the lock: its start, unless it ended or the log was reopened since. */
  lock(): DshEvent<'compaction/start'> | undefined {
    this.catchUp();
    return this.started;
  }

  /** The turn that is open. */
  openTurn(): number | undefined {
    this.catchUp();
    return this.turn;
  }

  /** Take in what is new: a check before each step does not read the whole log again. */
  private catchUp(): void {
    const { events } = this.session;
    for (; this.seen < events.length; this.seen += 1) {
      const event = events[this.seen] as DshEvent;
      if (event.type === 'compaction/start') this.started = event;
      if (event.type === 'compaction/end' || event.type === 'session/end-seed') this.started = undefined;
      if (event.type === 'turn/start') this.turn = event.data.turn;
      if (event.type === 'turn/end') this.turn = undefined;
    }
  }

  /** Append one event, in the harness's words. */
  private write(draft: Draft): void {
    const { session } = this;
    const { payload, surface, sources } = draft;
    switch (payload.tag) {
      case 'compact-start': {
        this.calls.length = 0;
        const commandId = this.manual?.commandId;
        session.append('compaction/start', {
          compactionId: CompactionId(randomUUID()),
          ...(commandId === undefined ? {} : { sourceCommandId: commandId }),
          turn: payload.val.turn ?? null,
        });
        return;
      }
      case 'compact-summary': {
        const { shadowedRange, shadowedSeqs, model, maxTokens, usage } = payload.val;
        const [call] = this.calls;
        // The mark says that exactly one call made the summary, so that it can be replayed.
        const mark = this.calls.length === 1 && call ? ({ rawOutput: call.blocks, llmStreamCall: true } as const) : {};
        const { turn: _, ...lifecycle } = this.held().data;
        session.append('compaction/summary', {
          ...lifecycle,
          summary: payload.val.summary.map(writeBlock),
          ...mark,
          shadowedRange,
          shadowedSeqs,
          shadowedTokenCount: this.price(shadowedSeqs) ?? payload.val.shadowedTokenCount,
          provider: model?.provider ?? call?.provider ?? '',
          model: model?.model ?? call?.model ?? '',
          ...(maxTokens === undefined ? {} : { maxTokens }),
          ...(usage ? { usage: { ...usage } } : {}),
        });
        return;
      }
      case 'user-message': {
        if (surface?.tag !== 'replace') break;
        const { compactionId, sourceCommandId } = this.held().data;
        const message = createUserMessage({
          content: payload.val.content.map(writeBlock),
          source: compactCheckpointSource(compactionId, sourceCommandId),
        });
        session.append('user/message', message, {
          surfaceOp: { op: 'replace', ...surface.val },
          sourceEventSeqs: sources,
        });
        return;
      }
      case 'compact-end': {
        const { error } = payload.val;
        session.append('compaction/end', { ...this.held().data, ...(error === undefined ? {} : { error }) });
        return;
      }
      case 'compact-prune': {
        const { shadowedRange } = payload.val;
        const shadowedSeqs = [shadowedRange.start];
        session.append('compaction/prune', {
          shadowedRange,
          shadowedSeqs,
          shadowedTokenCount: this.price(shadowedSeqs) ?? payload.val.shadowedTokenCount,
        });
        return;
      }
      case 'tool-result': {
        if (surface?.tag !== 'replace') break;
        const original = session.events[surface.val.start];
        if (original?.type !== 'tool/result') break;
        const [block] = original.data.message.content;
        const content = rewrite(block.content, payload.val.content);
        session.append(
          'tool/result',
          { ...original.data, message: { ...original.data.message, content: [{ ...block, content }] } },
          { surfaceOp: { op: 'replace', ...surface.val }, sourceEventSeqs: sources },
        );
        return;
      }
    }
    throw new CompactError('host', `a compaction does not write ${payload.tag} events`);
  }

  /** The start of the compaction that writes. */
  private held(): DshEvent<'compaction/start'> {
    const lock = this.lock();
    if (!lock) throw new CompactError('host', 'no compaction holds the lock of this session');
    return lock;
  }

  /** What the harness prices these nodes at: its meters read these figures back. */
  private price(seqs: Seq[]): number | undefined {
    const { priceOf, session } = this;
    if (!priceOf) return undefined;
    return seqs.reduce((total, seq) => {
      const event = session.events[seq];
      const message = event ? session.deriveEventMessage(event) : null;
      return total + (message ? priceOf(message) : 0);
    }, 0);
  }
}

function readSurface(event: DshEvent): SessionEvent['surface'] {
  const op = 'surfaceOp' in event ? event.surfaceOp : undefined;
  if (op === undefined) return undefined;
  return op === 'append' ? { tag: 'append' } : { tag: 'replace', val: { start: op.start, end: op.end } };
}

function readPayload(event: DshEvent, firstLive: Seq): Payload {
  switch (event.type) {
    case 'turn/start':
      return { tag: 'turn-start', val: event.data.turn };
    case 'turn/end':
      return { tag: 'turn-end', val: event.data.turn };
    case 'step/start':
      return { tag: 'step-start', val: { turn: event.data.turn, step: event.data.step } };
    case 'step/end':
      return { tag: 'step-end', val: { turn: event.data.turn, step: event.data.step } };
    case 'request/header':
      return readHeader(event.data.header);
    case 'user/message': {
      const { content, source } = event.data;
      const name = source.kind === 'plugin' ? `plugin:${source.plugin}` : source.kind;
      // Nothing is pinned: what the harness injected, it injects again once it is off the surface.
      return { tag: 'user-message', val: { content: content.map(readBlock), source: name, pinned: false } };
    }
    case 'assistant/message': {
      const { message, usage } = event.data;
      return { tag: 'assistant-message', val: { content: message.content.map(readBlock), usage: usage && readUsage(usage) } };
    }
    case 'tool/result':
      return { tag: 'tool-result', val: readResult(event.data.message.content[0]) };
    case 'compaction/start':
      // One that a seed holds belongs to a process that has ended: the harness ignores it.
      if (event.seq < firstLive) break;
      return { tag: 'compact-start', val: { turn: event.data.turn ?? undefined } };
    case 'compaction/end':
      if (event.seq < firstLive) break;
      return { tag: 'compact-end', val: { turn: event.data.turn ?? undefined, error: event.data.error } };
    case 'session/end-seed':
      return { tag: 'reopened' };
  }
  // Summaries and prunes announce what follows them, and mean nothing by themselves.
  return { tag: 'other', val: event.type };
}

/** Tokens of the system prompt and the tool schemas, and what tells this envelope from another. */
function readHeader(header: EpochHeader): Payload & { tag: 'request-header' } {
  const { config, system, tools } = header;
  const envelope = JSON.stringify([config.provider, config.model, system ?? '', tools ?? []]);
  return {
    tag: 'request-header',
    val: {
      route: { provider: config.provider, model: config.model },
      overheadTokens: Math.ceil((system?.length ?? 0) / 4) + toolsTokens(tools),
      fingerprint: createHash('sha256').update(envelope).digest('hex'),
    },
  };
}

/** What the harness counted of a call. */
export function readUsage(usage: TokenUsage): Usage {
  return {
    inputTokens: usage.inputTokens,
    outputTokens: usage.outputTokens,
    cacheReadTokens: usage.cacheReadTokens ?? 0,
    cacheWriteTokens: usage.cacheWriteTokens ?? 0,
  };
}

function readBlock(block: DshBlock): ContentBlock {
  switch (block.type) {
    case 'text':
    case 'reasoning':
      return { tag: block.type, val: block.text };
    case 'image':
      return { tag: 'image', val: { mediaType: block.attachment.mediaType, byteLength: block.attachment.bytes } };
    case 'tool-call':
      return { tag: 'tool-call', val: { callId: block.id, name: block.name, arguments: block.arguments } };
    case 'tool-result':
      return { tag: 'tool-result', val: readResult(block) };
    default:
      return opaque(block);
  }
}

function readResult(block: ToolResultBlock) {
  const content = block.content.map((inner): ResultBlock => {
    const read = readBlock(inner);
    return read.tag === 'tool-call' || read.tag === 'tool-result' ? opaque(inner) : read;
  });
  return { callId: block.toolCallId, isError: block.isError ?? false, content };
}

function opaque(block: { type: string }): ContentBlock & ResultBlock {
  return { tag: 'opaque', val: { kind: block.type, json: JSON.stringify(block) } };
}

/** A block of a checkpoint, which the engine makes of text. */
function writeBlock(block: ContentBlock): DshBlock {
  if (block.tag !== 'text') throw new CompactError('host', `a checkpoint does not hold ${block.tag} blocks`);
  return { type: 'text', text: block.val };
}

/** A result's content with its texts replaced, and the blocks of other kinds as they were. */
function rewrite(original: DshBlock[], content: ResultBlock[]): DshBlock[] {
  const others = original.filter((block) => block.type !== 'text');
  return content.flatMap((block): DshBlock[] => {
    if (block.tag === 'text') return [{ type: 'text', text: block.val }];
    const other = others.shift();
    return other ? [other] : [];
  });
}
