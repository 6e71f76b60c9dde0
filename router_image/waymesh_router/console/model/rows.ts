// Rows of a table: which are shown, in which order, and as CSV.
import { shown, type Row, type Value } from "./values.ts";

export interface Order {
  readonly column: string;
  readonly descending: boolean;
}

/** The rows in one of whose columns all words of the search occur. */
export function found(rows: readonly Row[], columns: readonly string[], search: string): readonly Row[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const line = columns.map((name) => shown(row[name])).join("\n").toLowerCase();
    return words.every((word) => line.includes(word));
  });
}

function compared(left: Value | undefined, right: Value | undefined): number {
  if (typeof left === "number" && typeof right === "number") return left - right;
  return shown(left).localeCompare(shown(right), "en", { numeric: true });
}

function absent(value: Value | undefined): boolean {
  return value === null || value === undefined || value === "";
}

/** The rows in an order; absent values come last in both directions. */
export function ordered(rows: readonly Row[], order: Order | null): readonly Row[] {
  if (order === null) return rows;
  const sign = order.descending ? -1 : 1;
  return [...rows].sort((one, other) => {
    const left = one[order.column];
    const right = other[order.column];
    if (absent(left) || absent(right)) return Number(absent(left)) - Number(absent(right));
    return sign * compared(left, right);
  });
}

/** A cell of a CSV file. What a spreadsheet would take for a formula gets an apostrophe before it. */
export function csvCell(value: string): string {
  const safe = /^[=+\-@\t\r]/.test(value) && !/^-?\d+(\.\d+)?$/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function plain(value: Value | undefined): string {
  return typeof value === "number" ? String(value) : shown(value);
}

/** A table as CSV, one line for each row. */
export function csv(rows: readonly Row[], columns: readonly { name: string; title: string }[]): string {
  const lines = rows.map((row) => columns.map((column) => csvCell(plain(row[column.name]))).join(","));
  return [columns.map((column) => csvCell(column.title)).join(","), ...lines, ""].join("\r\n");
}
