// Rates from counters that were read twice.
import { number, type Row } from "./values.ts";

export interface Reading {
  /** When the answer arrived, in milliseconds. */
  readonly at: number;
  readonly rows: readonly Row[];
}

/** The rows of a reading by identity. */
export function byIdentity(reading: Reading | null): Map<string, Row> {
  return new Map(reading?.rows.map((row) => [String(row["identity"]), row]));
}

/** The increase a second of a counter, over the time between two readings; null without an earlier one. A counter that
 * has become smaller began anew, so it counts from 0. */
export function rate(now: Row, before: Row | undefined, seconds: number, name: string): number | null {
  if (before === undefined || seconds <= 0) return null;
  const change = number(now, name) - number(before, name);
  return (change < 0 ? number(now, name) : change) / seconds;
}

/** Adds to each row the rates of counters, under `name/s`. */
export function withRates(now: Reading, before: Reading | null, names: readonly string[]): Row[] {
  const earlier = byIdentity(before);
  const seconds = before === null ? 0 : (now.at - before.at) / 1000;
  return now.rows.map((row) => {
    const old = earlier.get(String(row["identity"]));
    const rates = names.map((name) => [`${name}/s`, rate(row, old, seconds, name)] as const);
    return { ...row, ...Object.fromEntries(rates) };
  });
}

/** The sum of a column, null if no row has a value. */
export function sum(rows: readonly Row[], name: string): number | null {
  const values = rows.map((row) => row[name]).filter((value) => typeof value === "number");
  return values.length ? values.reduce((left, right) => left + right, 0) : null;
}
