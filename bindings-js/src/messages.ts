/** Plain message arrays, as the usual APIs have them, as session logs and back. */

import type { ContentBlock, Draft, Payload, ResultBlock, Seq, SessionEvent, Usage } from './contract.js';
import { CompactError } from './errors.js';
import { MemoryLog, type SessionLog } from './log.js';

/** Which API's messages an array holds. */
export type MessageFormat = 'openai' | 'anthropic' | 'ai-sdk';

/** A message, or a block of one: whatever its owner put there. */
type Anything = Record<string, any>;

/** An entry of the conversation: a message, and the surface node that it is, if it is one. */
interface Entry {
  message: Anything;
  seq: Seq | undefined;
}

/**
 * A session over an array of messages. The messages stay what they are: those that no
 * compaction touched come back from {@link MessagesLog.toMessages} as the same objects.
 */
export class MessagesLog<M extends object = Anything> implements SessionLog {
  private readonly log: MemoryLog;
  private entries: Entry[] = [];

  /** @internal Use {@link fromMessages}. */
  constructor(
    messages: readonly M[],
    readonly format: MessageFormat,
    id: string,
  ) {
    this.log = new MemoryLog(id);
    for (const message of messages) this.push(message);
  }

  get id(): string {
    return this.log.id;
  }

  /** The conversation goes on. `usage` is what the provider reported for an answer. */
  push(message: M, usage?: Usage): void {
    const read = readMessage(message, this.format);
    if (!read) {
      this.log.note({ tag: 'other', val: 'system' });
      this.entries.push({ message, seq: undefined });
      return;
    }
    if (usage && read.tag === 'assistant-message') read.val.usage = usage;
    this.entries.push({ message, seq: this.log.push(read) });
  }

  /** The messages of the next request, a checkpoint in place of those it stands for. */
  toMessages(): M[] {
    return this.entries.map((entry) => entry.message as M);
  }

  head(): Seq {
    return this.log.head();
  }

  read(start: Seq, limit: number): SessionEvent[] {
    return this.log.read(start, limit);
  }

  append(drafts: Draft[], expectedHead: Seq | undefined): Seq {
    const first = this.log.append(drafts, expectedHead);
    drafts.forEach((draft, index) => {
      if (draft.surface?.tag === 'replace') this.replace(draft, first + index);
    });
    return first;
  }

  /** The messages of these nodes, each interrupted call with an error result after it. */
  messages(seqs: Seq[], deadCalls: { node: Seq; callId: string }[]): Anything[] {
    return seqs.flatMap((seq) => {
      const entry = this.entries.find((entry) => entry.seq === seq);
      const dead = deadCalls.filter((call) => call.node === seq);
      return [...(entry ? [entry.message] : []), ...dead.map((call) => interrupted(call.callId, this.format))];
    });
  }

  private replace(draft: Draft, seq: Seq): void {
    if (draft.surface?.tag !== 'replace') return;
    const { start, end } = draft.surface.val;
    const first = this.entries.findIndex((entry) => entry.seq === start);
    const last = this.entries.findIndex((entry) => entry.seq === end);
    const replaced = this.entries.slice(first, last + 1);
    const message =
      draft.payload.tag === 'tool-result'
        ? rewritten(replaced[0]?.message ?? {}, draft.payload.val.content, this.format)
        : checkpoint(draft.payload, this.format);
    // System messages are no nodes: they stay, whatever goes around them.
    const kept = replaced.filter((entry) => entry.seq === undefined);
    this.entries.splice(first, replaced.length, { message, seq }, ...kept);
  }
}

let sessions = 0;

/** A session over an array of messages, which can go on growing: `session.push(message)`. */
export function fromMessages<M extends object>(
  messages: readonly M[],
  format: MessageFormat,
  options: { id?: string } = {},
): MessagesLog<M> {
  return new MessagesLog(messages, format, options.id ?? `messages-${++sessions}`);
}

/** The messages of a session's next request. */
export function toMessages<M extends object>(session: MessagesLog<M>): M[] {
  return session.toMessages();
}

const text = (val: string): ContentBlock => ({ tag: 'text', val });
const opaque = (block: Anything): ContentBlock => ({
  tag: 'opaque',
  val: { kind: String(block.type ?? 'unknown'), json: JSON.stringify(block) ?? 'null' },
});

function image(mediaType: unknown, data: unknown): ContentBlock {
  const bytes =
    typeof data === 'string' ? Math.floor((data.replace(/^data:[^,]*,/, '').length * 3) / 4) : ((data as Anything)?.byteLength ?? 0);
  return { tag: 'image', val: { mediaType: typeof mediaType === 'string' ? mediaType : 'image', byteLength: bytes } };
}

function call(callId: unknown, name: unknown, args: unknown): ContentBlock {
  const json = typeof args === 'string' ? args : (JSON.stringify(args) ?? '{}');
  return { tag: 'tool-call', val: { callId: String(callId), name: String(name), arguments: json } };
}

function result(callId: unknown, isError: unknown, content: ContentBlock[]): ContentBlock {
  const blocks = content.map((block): ResultBlock => {
    switch (block.tag) {
      case 'text':
      case 'reasoning':
      case 'image':
      case 'opaque':
        return block;
      default:
        return { tag: 'opaque', val: { kind: block.tag, json: JSON.stringify(block.val) } };
    }
  });
  return { tag: 'tool-result', val: { callId: String(callId), isError: isError === true, content: blocks } };
}

/** A message as an event; undefined for a system message, which is outside the surface. */
function readMessage(message: Anything, format: MessageFormat): Payload | undefined {
  const { role } = message;
  if (role === 'system' || role === 'developer') return undefined;
  const content = blocks(message.content, format);
  if (format === 'openai') {
    if (typeof message.reasoning_content === 'string') content.unshift({ tag: 'reasoning', val: message.reasoning_content });
    for (const made of message.tool_calls ?? []) {
      content.push(made.function ? call(made.id, made.function.name, made.function.arguments) : opaque(made));
    }
    if (role === 'tool') {
      const answer = result(message.tool_call_id, false, content);
      if (answer.tag === 'tool-result') return { tag: 'tool-result', val: answer.val };
    }
  }
  if (role === 'assistant') return { tag: 'assistant-message', val: { content } };
  if (role !== 'user' && role !== 'tool') {
    throw new CompactError('host', `a message has the role ${JSON.stringify(role)}, which ${format} does not know`);
  }
  const [only] = content;
  if (content.length === 1 && only?.tag === 'tool-result') return { tag: 'tool-result', val: only.val };
  return { tag: 'user-message', val: { content, source: role, pinned: false } };
}

function blocks(content: unknown, format: MessageFormat): ContentBlock[] {
  if (typeof content === 'string') return [text(content)];
  if (!Array.isArray(content)) return [];
  return content.map((block: Anything) => {
    switch (format) {
      case 'openai':
        return openaiBlock(block);
      case 'anthropic':
        return anthropicBlock(block);
      case 'ai-sdk':
        return aiSdkBlock(block);
    }
  });
}

function openaiBlock(block: Anything): ContentBlock {
  if (block.type === 'text') return text(String(block.text));
  if (block.type === 'refusal') return text(String(block.refusal));
  if (block.type === 'image_url') return image('image', block.image_url?.url);
  return opaque(block);
}

function anthropicBlock(block: Anything): ContentBlock {
  switch (block.type) {
    case 'text':
      return text(String(block.text));
    case 'thinking':
      return { tag: 'reasoning', val: String(block.thinking) };
    case 'tool_use':
      return call(block.id, block.name, block.input);
    case 'tool_result':
      return result(block.tool_use_id, block.is_error, blocks(block.content, 'anthropic'));
    case 'image':
      return image(block.source?.media_type, block.source?.data);
    default:
      return opaque(block);
  }
}

function aiSdkBlock(block: Anything): ContentBlock {
  switch (block.type) {
    case 'text':
      return text(String(block.text));
    case 'reasoning':
      return { tag: 'reasoning', val: String(block.text) };
    case 'tool-call':
      return call(block.toolCallId, block.toolName, block.input);
    case 'tool-result': {
      const { type, value } = block.output ?? {};
      const failed = type === 'error-text' || type === 'error-json';
      const content = type === 'content' ? blocks(value, 'ai-sdk') : [text(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))];
      return result(block.toolCallId, failed, content);
    }
    case 'image':
      return image(block.mediaType, block.image);
    case 'file':
      return String(block.mediaType).startsWith('image/') ? image(block.mediaType, block.data) : opaque({ ...block, data: undefined });
    default:
      return opaque(block);
  }
}

/** A checkpoint in the words of an API. */
function checkpoint(payload: Payload, format: MessageFormat): Anything {
  const content = payload.tag === 'user-message' ? payload.val.content : [];
  const texts = content.map((block) => (block.tag === 'text' ? block.val : `[${block.tag}]`));
  if (format === 'openai') return { role: 'user', content: texts.join('\n') };
  return { role: 'user', content: texts.map((text) => ({ type: 'text', text })) };
}

/** A tool's answer with other texts, and all else as it was. */
function rewritten(message: Anything, content: ResultBlock[], format: MessageFormat): Anything {
  const texts = content.flatMap((block) => (block.tag === 'text' ? [block.val] : []));
  if (format === 'openai') return { ...message, content: texts.join('') };
  const [block] = message.content;
  if (format === 'ai-sdk') {
    return { ...message, content: [{ ...block, output: { type: 'text', value: texts.join('') } }] };
  }
  if (typeof block.content === 'string') return { ...message, content: [{ ...block, content: texts.join('') }] };
  const others = (block.content as Anything[]).filter((inner) => inner.type !== 'text');
  const inner = content.map((part) => (part.tag === 'text' ? { type: 'text', text: part.val } : others.shift()));
  return { ...message, content: [{ ...block, content: inner }] };
}

/** What is said of a call that got no result. */
export const INTERRUPTED = 'The call was interrupted; no result was recorded.';

function interrupted(callId: string, format: MessageFormat): Anything {
  switch (format) {
    case 'openai':
      return { role: 'tool', tool_call_id: callId, content: INTERRUPTED };
    case 'anthropic':
      return { role: 'user', content: [{ type: 'tool_result', tool_use_id: callId, is_error: true, content: INTERRUPTED }] };
    case 'ai-sdk':
      return {
        role: 'tool',
        content: [{ type: 'tool-result', toolCallId: callId, toolName: 'unknown', output: { type: 'error-text', value: INTERRUPTED } }],
      };
  }
}
