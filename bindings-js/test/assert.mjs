// As much of node:assert as the behaviour tests use, for runtimes without it.
function same(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  return keys.length === others.length && keys.every((key) => same(a[key], b[key]));
}

function fail(message) {
  throw new Error(message);
}

export default {
  fail,
  ok: (value, message) => value || fail(message ?? 'not true'),
  equal: (a, b, message) => Object.is(a, b) || fail(`${message ?? ''} ${String(a)} is not ${String(b)}`),
  deepEqual: (a, b, message) => same(a, b) || fail(`${message ?? ''} ${JSON.stringify(a)} is not ${JSON.stringify(b)}`),
  match: (text, pattern) => pattern.test(text) || fail(`${text} does not match ${pattern}`),
};
