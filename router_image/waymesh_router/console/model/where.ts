// Conditions of a QUERY.

/** A text as it stands in a condition. */
export function quoted(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

/** All of the conditions; "" for none. */
export function all(...conditions: (string | false | undefined)[]): string {
  const some = conditions.filter((one): one is string => Boolean(one));
  return some.length > 1 ? some.map((one) => `(${one})`).join(" AND ") : (some[0] ?? "");
}
