// What went from where to where while the page has watched.
import { number, text, type Row } from "./values.ts";

export interface Counted {
  readonly router: string;
  /** Rows of router.address, when the page began to watch, and now. */
  readonly first: readonly Row[];
  readonly now: readonly Row[];
}

interface Sides {
  readonly entered: Map<string, number>;
  readonly left: Map<string, number>;
}

/** One row for each address, ingress router and egress router between which something went. Routers count what enters and
 * what leaves at them: where several routers are on both sides, nobody knows the pairs, and one row has all of both. */
export function flowOf(counted: readonly Counted[]): Row[] {
  const addresses = new Map<string, Sides>();
  for (const { router, first, now } of counted) {
    const before = new Map(first.map((row) => [text(row, "key"), row]));
    for (const row of now) {
      const key = text(row, "key");
      const sides = addresses.get(key) ?? { entered: new Map<string, number>(), left: new Map<string, number>() };
      addresses.set(key, sides);
      const old = before.get(key);
      const entered = grown(row, old, "deliveriesIngress");
      const left = grown(row, old, "deliveriesEgress");
      if (entered) sides.entered.set(router, entered);
      if (left) sides.left.set(router, left);
    }
  }
  return [...addresses].flatMap(([key, sides]) => pairs(key, sides));
}

/** A counter that has become smaller began anew. */
function grown(now: Row, before: Row | undefined, name: string): number {
  const change = number(now, name) - number(before, name);
  return change < 0 ? number(now, name) : change;
}

function pairs(key: string, { entered, left }: Sides): Row[] {
  const row = (from: string, to: string, count: number): Row =>
    ({ identity: `${key} ${from} ${to}`, key, address: key.startsWith("M") ? key.slice(2) : key.slice(1), from, to, count });
  const [froms, tos] = [[...entered.keys()], [...left.keys()]];
  if (!froms.length && !tos.length) return [];
  if (froms.length <= 1 && tos.length) return tos.map((to) => row(froms[0] ?? "", to, left.get(to) ?? 0));
  if (tos.length <= 1) return froms.map((from) => row(from, tos[0] ?? "", entered.get(from) ?? 0));
  const all = (side: Map<string, number>): number => [...side.values()].reduce((sum, one) => sum + one, 0);
  return [row(froms.join(", "), tos.join(", "), Math.max(all(entered), all(left)))];
}
