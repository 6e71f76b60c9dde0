// Values of management attributes, and how they are shown.

export type Value = string | number | boolean | null | Value[] | { [key: string]: Value };
export type Row = { readonly [name: string]: Value };

/** The number in a cell; 0 for what is none. */
export function number(row: Row | undefined, name: string): number {
  const value = row?.[name];
  return typeof value === "number" ? value : 0;
}

/** The text in a cell; "" for what is none. */
export function text(row: Row | undefined, name: string): string {
  const value = row?.[name];
  return value === null || value === undefined ? "" : typeof value === "string" ? value : shown(value);
}

/** Any value as one line of text. */
export function shown(value: Value | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return count(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return JSON.stringify(value);
}

/** A number with separators between thousands. */
export function count(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en-GB") : value.toFixed(1);
}

/** A rate a second; "–" if it is not known yet. */
export function perSecond(value: number | null): string {
  return value === null ? "–" : value >= 100 ? count(Math.round(value)) : value === 0 ? "0" : value.toFixed(1);
}

/** Bytes in the largest unit that leaves at least one. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = value;
  let unit = 0;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? rest : rest.toFixed(1)} ${units[unit] ?? ""}`;
}

/** Seconds as days, hours, minutes and seconds: the two largest. */
export function duration(seconds: number): string {
  const whole = Math.floor(seconds);
  const days = Math.floor(whole / 86400);
  const hours = Math.floor((whole % 86400) / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

/** The address of a key: without its class and, for mobile addresses, its phase. */
export function addressOf(key: string): string {
  return key.startsWith("M") ? key.slice(2) : key.slice(1);
}
