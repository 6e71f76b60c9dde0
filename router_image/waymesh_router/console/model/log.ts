// Lines of a log as GET-LOG gives them.

export interface Line {
  readonly at: number;
  readonly module: string;
  readonly level: string;
  readonly text: string;
}

/** The lines of a reply: [module, level, text, file, line, seconds since 1970]. */
export function linesOf(body: unknown): Line[] {
  if (!Array.isArray(body)) return [];
  return body.filter(Array.isArray).map((line: readonly unknown[]) => ({
    module: String(line[0]), level: String(line[1]), text: String(line[2]), at: Number(line[5]),
  }));
}

/** What a line says that ends with `[event=…]`. `connection`, `link`: their identities on the router; "" for none. */
export interface Event {
  readonly at: number;
  readonly kind: string;
  readonly text: string;
  readonly user: string;
  readonly host: string;
  readonly connection: string;
  readonly link: string;
  /** Without class and phase. */
  readonly address: string;
}

// The router changes this text where peers write it, so it is the router's own.
const END = / \[event=([\w.]+)((?: \w+=(?:"(?:[^"\\]|\\.)*"|\S+))*)\]$/;
const FIELD = / (\w+)=("(?:[^"\\]|\\.)*"|\S+)/g;

/** The event of a line; null if it has none. */
export function eventOf(line: Line): Event | null {
  const found = END.exec(line.text);
  if (!found) return null;
  const fields = new Map([...(found[2] ?? "").matchAll(FIELD)].map(([, name = "", value = ""]) => [name, plain(value)]));
  const said = line.text.slice(0, found.index);
  const key = / address=(\S+)/.exec(said)?.[1] ?? "";
  return {
    at: line.at,
    kind: found[1] ?? "",
    text: said,
    user: fields.get("user") ?? "",
    host: fields.get("host") ?? "",
    connection: /^\[C(\d+)\]/.exec(said)?.[1] ?? "",
    link: /^\[C\d+\]\[L(\d+)\]/.exec(said)?.[1] ?? "",
    address: /^M\d/.test(key) ? key.slice(2) : key,
  };
}

function plain(value: string): string {
  if (!value.startsWith('"')) return value;
  try {
    return String(JSON.parse(value));
  } catch {
    return value;
  }
}

/** What the events are about, by the first word of their kind; also `chosen`. */
export function groupsOf(events: readonly Event[], chosen: string): string[] {
  const groups = new Set(events.map((event) => event.kind.split(".")[0] ?? ""));
  if (chosen) groups.add(chosen);
  return [...groups].sort();
}
