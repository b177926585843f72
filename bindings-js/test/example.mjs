import { createCompactor, fromMessages } from 'harness-compact';

// The conversation, as your loop keeps it.
const messages = [{ role: 'system', content: 'You are a coding agent.' }];
for (let turn = 1; turn <= 30; turn++) {
  messages.push({ role: 'user', content: `Request ${turn}: ${'please '.repeat(50)}` });
  messages.push({ role: 'assistant', content: 'Done. '.repeat(80) });
}
const session = fromMessages(messages, 'openai');

// Your model call: anything that streams. This one only says how long its prompt was.
const model = {
  async *stream({ messages }) {
    yield { type: 'text', text: `A summary of ${messages[0].content.length} characters.` };
    yield { type: 'finish', reason: 'stop' };
  },
};

const compactor = await createCompactor({ model });
const result = await compactor.compactIfNeeded({ session, contextWindow: 6000 }, messages[0].content);
console.log(`${compactor.runtime}: ${result.before.totalTokens} tokens became ${result.after.totalTokens}`);
console.log(`the next request has ${session.toMessages().length} messages`);
