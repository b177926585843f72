/** Tokens of a request's tool schemas, a quarter of their JSON's length. */
export function toolsTokens(tools: readonly unknown[] | undefined): number {
  return tools?.length ? Math.ceil(JSON.stringify(tools).length / 4) : 0;
}
