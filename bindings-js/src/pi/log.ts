import type { AssistantMessage, ImageContent, Message, TextContent, Usage as PiUsage } from '@earendil-works/pi-ai';
import { convertToLlm, type SessionProjection } from '@earendil-works/pi-coding-agent';

import type { ContentBlock, Payload, ResultBlock, Seq, Usage } from '../contract.js';
import { MemoryLog } from '../log.js';

/** What pi sends next, as a session log: a copy, in which a compaction is tried out. */
export class PiLog extends MemoryLog {
  /** The entry that each event comes from. */
  private readonly entries = new Map<Seq, string>();

  constructor(id: string, { entries }: SessionProjection) {
    super(id);
    let turn = 0;
    for (const { sourceEntry, messages } of entries) {
      if (sourceEntry.type === 'compaction') {
        const content = [text(`<compacted-summary>\n${sourceEntry.summary}\n</compacted-summary>`)];
        this.node(sourceEntry.id, { tag: 'user-message', val: { content, source: 'plugin:compact', pinned: false } });
        continue;
      }
      for (const message of convertToLlm(messages)) {
        const payload = readMessage(message);
        if (!payload) continue;
        if (payload.tag === 'user-message') {
          // Calls of an earlier turn that have no result will get none.
          if (turn) this.note({ tag: 'turn-end', val: turn });
          this.note({ tag: 'turn-start', val: (turn += 1) });
        }
        this.node(sourceEntry.id, payload);
      }
    }
    if (turn) this.note({ tag: 'turn-end', val: turn });
  }

  /** The first entry after this node, which is kept. */
  entryAfter(seq: Seq): string | undefined {
    return [...this.entries].find(([at]) => at > seq)?.[1];
  }

  private node(entry: string, payload: Payload): void {
    this.entries.set(this.push(payload), entry);
  }
}

const text = (val: string): ContentBlock & ResultBlock => ({ tag: 'text', val });

function readMessage(message: Message): Payload | undefined {
  switch (message.role) {
    case 'user':
      return { tag: 'user-message', val: { content: readContent(message.content), source: 'user', pinned: false } };
    case 'assistant':
      return { tag: 'assistant-message', val: readAnswer(message) };
    case 'toolResult': {
      const { toolCallId, content, isError } = message;
      return { tag: 'tool-result', val: { callId: toolCallId, isError, content: readContent(content) } };
    }
    default:
      // System prompts are pi's to send.
      return undefined;
  }
}

function readContent(content: string | (TextContent | ImageContent)[]): (ContentBlock & ResultBlock)[] {
  if (typeof content === 'string') return [text(content)];
  return content.map((block) =>
    block.type === 'text'
      ? text(block.text)
      : { tag: 'image', val: { mediaType: block.mimeType, byteLength: Math.floor((block.data.length * 3) / 4) } },
  );
}

function readAnswer({ content, usage, stopReason }: AssistantMessage) {
  const blocks = content.map((block): ContentBlock => {
    switch (block.type) {
      case 'text':
        return text(block.text);
      case 'thinking':
        return { tag: 'reasoning', val: block.thinking };
      case 'toolCall':
        return { tag: 'tool-call', val: { callId: block.id, name: block.name, arguments: JSON.stringify(block.arguments) ?? '{}' } };
    }
  });
  // What failed was not counted to its end.
  const counted = stopReason === 'error' || stopReason === 'aborted' ? undefined : readUsage(usage);
  return { content: blocks, usage: counted };
}

/** What pi counted of a call. */
export function readUsage(usage: PiUsage): Usage {
  return {
    inputTokens: usage.input,
    outputTokens: usage.output,
    cacheReadTokens: usage.cacheRead,
    cacheWriteTokens: usage.cacheWrite,
  };
}
