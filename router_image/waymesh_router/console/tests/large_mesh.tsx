// The page Topology before a made mesh, for tests/bench/console_page.py: its figures change at each reading.
// It counts what Preact compares, which does not depend on the machine. Replies are decoded from AMQP as those of routers, but no network lies between.
import { options, render } from "preact";
import { useState } from "preact/hooks";
import rhea from "rhea";
import { Mesh } from "../amqp/live.ts";
import { rowsOf, type Query } from "../amqp/management.ts";
import type { Session } from "../amqp/session.ts";
import { Topology } from "../pages/topology.tsx";
import "../style.css";

const asked = new URLSearchParams(location.search);
const ROUTERS = Number(asked.get("routers"));
const EDGES = Number(asked.get("edges"));
const CLIENTS = Number(asked.get("clients"));

const names = Array.from({ length: ROUTERS }, (_, index) => `router-${String(index).padStart(3, "0")}`);
const neighbours = new Map(names.map((name) => [name, new Set<string>()]));
for (let edge = 0, step = 1; edge < EDGES; edge++) {
  const one = edge % ROUTERS;
  if (edge && one === 0) step++;
  const [left, right] = [names[one] as string, names[(one + step) % ROUTERS] as string];
  neighbours.get(left)?.add(right);
  neighbours.get(right)?.add(left);
}

let reading = 0;
/** The attributes and the rows that a router would answer, without `where`. */
function answerOf(router: string, query: Query): Record<string, unknown>[] {
  if (query.type.endsWith(".router")) {
    reading++;
    return [{ identity: `router/${router}`, id: router, deliveriesIngress: reading * 50, deliveriesEgress: reading * 50, deliveriesTransit: reading * 90 }];
  }
  const near = neighbours.get(router) ?? new Set();
  if (query.type.endsWith(".node")) {
    const rows = names.map((id, index) => ({
      identity: `router.node/${id}`, id, nextHop: id === router ? "(self)" : near.has(id) ? null : names[0], cost: near.has(id) ? 1 : 2,
      routerLink: near.has(id) ? String(index) : null,
    }));
    return query.where ? rows.filter((row) => row.routerLink !== null) : rows;
  }
  const clients = Array.from({ length: CLIENTS / ROUTERS }, (_, index) => ({
    identity: String(1000 + index), container: `client-${index}`, role: "normal", host: `10.0.0.${index}:5672`, dir: "in",
  }));
  const routers = [...near].map((id, index) => ({ identity: String(index), container: id, role: "inter-router", host: "10.1.0.1:55671", dir: "in" }));
  return query.where ? clients : [...clients, ...routers];
}

const encoded = new Map<string, Uint8Array>();
let answers = 0;
async function query(router: string, query: Query): Promise<unknown> {
  const live = query.type.endsWith(".router");
  const key = `${router} ${query.type}`;
  let bytes = live ? undefined : encoded.get(key);
  if (!bytes) {
    const rows = answerOf(router || (names[0] as string), query);
    const body = { attributeNames: query.attributes, results: rows.map((row) => query.attributes.map((name) => row[name] ?? null)) };
    bytes = rhea.message.encode({ body } as never) as unknown as Uint8Array;
    if (!live) encoded.set(key, bytes);
  }
  await new Promise((resolve) => setTimeout(resolve, 5 + (answers++ % 50)));
  return rowsOf(rhea.message.decode(bytes as never).body);
}

const session = {
  state: { kind: "open", self: names[0], management: { query, request: () => Promise.reject(new Error("no log")) } },
  routers: names, gone: new Set(),
} as unknown as Session;

function Bench() {
  const [given, setGiven] = useState<Record<string, string>>({});
  return (
    <Mesh.Provider value={session}>
      <main><Topology place={{ page: "topology", given }} go={(changes) => setGiven({ ...given, ...changes })} /></main>
    </Mesh.Provider>
  );
}

let compared = 0;
const before = options.diffed;
options.diffed = (vnode) => {
  compared++;
  before?.(vnode);
};
render(<Bench />, document.body);
Object.assign(globalThis, { answers: () => answers, compared: () => compared });
