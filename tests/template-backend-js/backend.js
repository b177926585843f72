// A compaction backend to start from, in JavaScript. It calls no model: in place of
// what it removes it leaves the user's requests. What a backend must do is in
// `wit/`; errors are thrown as the contract's own values.

const CHECKPOINT = 'plugin:compact';
const WINDOW = 128_000;
const ATTEMPTS = 16;
const MOST_FAILURES = 3;

const fail = (tag, val) => {
  throw { tag, val };
};

/** What the host's functions throw is the log's error: here it becomes a compaction's. */
const log = (call) => {
  try {
    return call();
  } catch (error) {
    fail('session', error.payload ?? error);
  }
};

/** What a message costs: a token for four characters of each block, and something for its frame. */
const units = {
  text: (text) => text.length,
  reasoning: (text) => text.length,
  image: () => 340,
  opaque: ({ json }) => json.length,
  'tool-call': ({ name, arguments: given }) => name.length + given.length,
  'tool-result': ({ content }) => content.reduce((sum, { tag, val }) => sum + units[tag](val), 0),
};
const price = (content) => content.reduce((sum, { tag, val }) => sum + 4 + Math.ceil(units[tag](val) / 4), 4);

/** The surface of a session, folded from its log. */
class Surface {
  nodes = [];
  next = 0;
  turn = undefined;
  lock = undefined;
  failures = 0;

  catchUp(session) {
    const head = log(() => session.head());
    while (this.next < head) {
      const events = log(() => session.read(this.next, Math.min(512, head - this.next)));
      if (!events.length) fail('session', { tag: 'corrupt', val: `event ${this.next} is missing` });
      for (const event of events) this.take(event);
    }
  }

  take({ seq, payload: { tag, val }, surface }) {
    if (seq !== this.next) fail('session', { tag: 'corrupt', val: `event ${seq} is where ${this.next} belongs` });
    // Nothing is taken in of an event that cannot be: the next call meets it again.
    const range = surface?.tag === 'replace' ? [surface.val.start, surface.val.end].map((seq) => this.find(seq)) : undefined;
    if (range && (range[0] < 0 || range[1] < range[0])) {
      fail('session', { tag: 'corrupt', val: `event ${seq} replaces what is no range of the surface` });
    }
    this.next += 1;
    if (tag === 'turn-start') this.turn = val;
    if (tag === 'turn-end') {
      this.turn = undefined;
      if (this.lock?.turn !== undefined) this.lock.stale = true;
    }
    if (tag === 'reopened' && this.lock) this.lock.stale = true;
    if (tag === 'compact-start') this.lock = { seq, turn: val.turn, stale: false };
    if (tag === 'compact-end') {
      this.lock = undefined;
      this.failures = val.error === undefined ? 0 : this.failures + 1;
    }
    if (!surface) return;
    const node = this.node(seq, tag, val);
    if (node.kind === 'user' || node.kind === 'assistant') this.failures = 0;
    if (!range) {
      this.nodes.push(node);
      return;
    }
    const [first, last] = range;
    const gone = this.nodes.splice(first, last - first + 1, node);
    // Whatever was pinned in the range, the checkpoint carries.
    node.pins = gone.flatMap(({ pins }) => pins);
    node.turn = gone[0].turn;
  }

  node(seq, tag, val) {
    const kinds = { 'assistant-message': 'assistant', 'tool-result': 'tool-result', 'context-message': 'context', 'steering-message': 'steering' };
    const content = tag === 'tool-result' ? [{ tag, val }] : Array.isArray(val) ? val : (val.content ?? []);
    const ids = (kind) => content.filter((block) => block.tag === kind).map((block) => block.val.callId);
    return {
      seq,
      kind: kinds[tag] ?? (val.source === CHECKPOINT ? 'checkpoint' : 'user'),
      tokens: price(content),
      calls: ids('tool-call'),
      results: ids('tool-result'),
      pins: val.pinned === true ? [seq] : [],
      turn: this.turn,
    };
  }

  find(seq) {
    return this.nodes.findIndex((node) => node.seq === seq);
  }

  tokens() {
    return this.nodes.reduce((sum, node) => sum + node.tokens, 0);
  }

  /** Which calls are answered, and before which nodes a cut parts nothing. */
  pairs() {
    const count = this.nodes.length;
    const lists = () => this.nodes.map(() => []);
    const [open, dead, orphaned, steps] = [lists(), lists(), lists(), new Array(count + 2).fill(0)];
    const hold = (from, to) => {
      steps[from + 1] += 1;
      steps[to + 1] -= 1;
    };
    const waiting = [];
    this.nodes.forEach((node, at) => {
      for (const id of node.calls) waiting.push({ id, at });
      for (const id of node.results) {
        const index = waiting.findLastIndex((call) => call.id === id);
        if (index >= 0) hold(waiting.splice(index, 1)[0].at, at);
        else {
          hold(Math.max(at - 1, 0), at);
          orphaned[at].push(id);
        }
      }
    });
    for (const { id, at } of waiting) {
      const goesOn = ({ kind }) => kind === 'assistant' || (kind === 'user' && this.turn === undefined);
      if (this.nodes[at].turn === this.turn && !this.nodes.slice(at + 1).some(goesOn)) {
        hold(at, count);
        open[at].push(id);
      } else dead[at].push(id);
    }
    let parted = 0;
    return { open, dead, orphaned, balanced: steps.slice(0, count + 1).map((step) => (parted += step) === 0) };
  }

  /** Everything but the newest `retain` tokens, at least one node, and whole exchanges. */
  rangeBut(retain) {
    const { nodes } = this;
    let kept = 0;
    let cut = nodes.length;
    while (cut > 0 && (cut === nodes.length || kept < retain)) kept += nodes[(cut -= 1)].tokens;
    const { balanced } = this.pairs();
    while (cut > 0 && !balanced[cut]) cut -= 1;
    if (!nodes.slice(0, cut).some(({ kind }) => kind !== 'checkpoint')) return undefined;
    return { start: nodes[0].seq, end: nodes[cut - 1].seq };
  }

  check(range) {
    const [first, last] = [range.start, range.end].map((seq) => {
      const at = this.find(seq);
      return at < 0 ? fail('not-on-surface', seq) : at;
    });
    if (first > last) fail('inverted-range', range);
    const { balanced } = this.pairs();
    if (!balanced[first]) fail('unbalanced', range.start);
    if (!balanced[last + 1]) fail('unbalanced', range.end);
    return this.nodes.slice(first, last + 1);
  }
}

const draft = (tag, val) => ({ payload: { tag, val }, surface: undefined, sources: new Uint32Array() });
const texts = (content) => content.flatMap((block) => (block.tag === 'text' ? [block.val] : [])).join('\n');

/** The user's requests, one a line; those of an earlier summary among them. */
function summaryOf(events) {
  const requests = events.flatMap(({ payload: { tag, val } }) => {
    if (tag !== 'user-message') return [];
    const text = texts(val.content);
    if (val.source !== CHECKPOINT) return [text.replace(/\s+/g, ' ').slice(0, 120)];
    return [...text.matchAll(/^- (.*)$/gm)].map((match) => match[1]);
  });
  return `## Requests\n${requests.slice(-40).map((request) => `- ${request}`).join('\n')}`;
}

const readEach = (session, seqs) => seqs.map((seq) => log(() => session.read(seq, 1))[0]);

/** Append what `make` makes at the log's head, as long as it stands there. */
function write(session, surface, make) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const drafts = make();
    try {
      return session.append(drafts, surface.next) + drafts.length - 1;
    } catch (error) {
      const failure = error.payload ?? error;
      if (failure.tag !== 'conflict') fail('session', failure);
      surface.catchUp(session);
    }
  }
  return fail('changed');
}

class Compactor {
  surfaces = new Map();

  constructor(settings) {
    this.settings = settings;
  }

  static create({ contextWindow, policy }) {
    const { thresholdRatio = 0.8, retainRatio = 0.16, retainTokens } = policy;
    for (const [key, ratio] of [['threshold-ratio', thresholdRatio], ['retain-ratio', retainRatio]]) {
      if (!(ratio > 0 && ratio <= 1)) throw { key: `policy.${key}`, message: `${ratio} is not above 0 and at most 1` };
    }
    if (contextWindow === 0) throw { key: 'context-window', message: 'a window of 0 tokens holds nothing' };
    return new Compactor({ window: contextWindow ?? WINDOW, thresholdRatio, retainRatio, retainTokens });
  }

  read(session) {
    const id = session.id();
    const surface = this.surfaces.get(id) ?? new Surface();
    this.surfaces.set(id, surface);
    surface.catchUp(session);
    return surface;
  }

  measured(surface, agent, prompt = '', prefix = []) {
    const { settings } = this;
    const window = agent.contextWindow ?? settings.window;
    const threshold = Math.max(1, Math.min(Math.floor(window * settings.thresholdRatio), window - (agent.outputTokens ?? 0)));
    const around = Math.ceil(prompt.length / 4) + prefix.reduce((sum, { content }) => sum + price(content), 0);
    return {
      totalTokens: surface.tokens() + agent.toolsTokens + around,
      surfaceTokens: surface.tokens(),
      thresholdTokens: threshold,
      retainTokens: Math.min(settings.retainTokens ?? Math.floor(window * settings.retainRatio), threshold),
      contextWindow: window,
      nodes: surface.nodes.length,
    };
  }

  measure(session, agent, prompt, prefix) {
    return this.measured(this.read(session), agent, prompt, prefix);
  }

  surface(session) {
    const surface = this.read(session);
    const { balanced, open, dead, orphaned } = surface.pairs();
    return surface.nodes.map(({ seq, kind, tokens, pins }, at) => ({
      seq,
      kind,
      tokens,
      balancedBefore: balanced[at],
      openCalls: open[at],
      deadCalls: dead[at],
      orphanedResults: orphaned[at],
      pinned: pins.length > 0,
    }));
  }

  compactIfNeeded(session, agent, prompt, prefix, trigger, signal) {
    const surface = this.read(session);
    const now = this.measured(surface, agent, prompt, prefix);
    if (trigger === 'pressure' && now.totalTokens < now.thresholdTokens) return undefined;
    const range = surface.rangeBut(trigger === 'pressure' ? now.retainTokens : 0);
    if (!range || surface.failures >= MOST_FAILURES) return undefined;
    return this.compact(session, surface, range, signal, () => this.measured(surface, agent, prompt, prefix));
  }

  compactRegion(session, range, agent, signal) {
    const surface = this.read(session);
    return this.compact(session, surface, range, signal, () => this.measured(surface, agent));
  }

  compactNow(session, agent, { retainTokens }, signal) {
    const surface = this.read(session);
    const range = surface.rangeBut(retainTokens ?? 0);
    return range && this.compact(session, surface, range, signal, () => this.measured(surface, agent));
  }

  /** This backend leaves tool results as they are. */
  prune(session) {
    this.read(session);
    return [];
  }

  forget(id) {
    this.surfaces.delete(id);
  }

  compact(session, surface, range, signal, measure) {
    const before = measure();
    if (signal?.aborted()) fail('aborted');
    // Take the lock.
    const startSeq = write(session, surface, () => {
      surface.check(range);
      const { lock, turn } = surface;
      if (lock && !lock.stale) fail('busy', lock.seq);
      const stale = lock ? [draft('compact-end', { turn: lock.turn, error: 'it was abandoned' })] : [];
      return [...stale, draft('compact-start', { turn })];
    });
    surface.catchUp(session);
    try {
      const landed = this.land(session, surface, range, startSeq, signal);
      log(() => session.flush());
      surface.catchUp(session);
      return { ...landed, startSeq, before, after: measure() };
    } catch (error) {
      // The session is as it was; only the lock is to be given back.
      try {
        surface.catchUp(session);
        const { turn } = surface;
        if (surface.lock?.seq === startSeq) session.append([draft('compact-end', { turn, error: JSON.stringify(error) })], undefined);
      } catch {
        // It is stale when the session is reopened.
      }
      throw error;
    }
  }

  land(session, surface, range, startSeq, signal) {
    const nodes = surface.check(range);
    const { turn } = surface;
    const seqs = nodes.map((node) => node.seq);
    const shadowed = nodes.reduce((sum, node) => sum + node.tokens, 0);
    const summary = [{ tag: 'text', val: summaryOf(readEach(session, seqs)) }];
    const pinned = readEach(session, nodes.flatMap(({ pins }) => pins)).flatMap(({ payload }) => payload.val.content);
    const text = (val) => ({ tag: 'text', val });
    const content = [text('Requests of an earlier span of this session.\n\n<compacted-summary>'), ...summary, text('</compacted-summary>'), ...pinned];
    if (price(content) >= shadowed) fail('summary-rejected', { tag: 'not-smaller', val: [price(content), shadowed] });
    if (signal?.aborted()) fail('aborted');

    const list = Uint32Array.from(seqs);
    // The record, the node that takes the range's place, and the end: all or none.
    const endSeq = write(session, surface, () => {
      const stands = surface.lock?.seq === startSeq && String(surface.check(range).map(({ seq }) => seq)) === String(seqs);
      if (!stands) fail('changed');
      const record = { summary, shadowedRange: range, shadowedSeqs: list, shadowedTokenCount: shadowed };
      return [
        draft('compact-summary', { ...record, model: undefined, maxTokens: undefined, usage: undefined }),
        {
          payload: { tag: 'user-message', val: { content, source: CHECKPOINT, pinned: false } },
          surface: { tag: 'replace', val: range },
          sources: Uint32Array.from([startSeq, surface.next, ...seqs]),
        },
        draft('compact-end', { turn, error: undefined }),
      ];
    });
    return {
      summarySeq: endSeq - 2,
      endSeq,
      summary,
      shadowedRange: range,
      shadowedSeqs: list,
      shadowedTokenCount: shadowed,
      removedCallIds: nodes.flatMap(({ calls }) => calls),
      elidedSeqs: new Uint32Array(),
    };
  }
}

export const compact = { Compactor };
