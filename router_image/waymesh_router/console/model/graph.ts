// The mesh as nodes and edges, in stable positions.
import { forceCenter, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationLinkDatum, type SimulationNodeDatum } from "d3-force";
import { text, type Row } from "./values.ts";

export type Kind = "interior" | "edge" | "broker" | "client";

export interface Node extends SimulationNodeDatum {
  readonly id: string;
  readonly kind: Kind;
  readonly label: string;
  /** The router to which a broker, an edge router or clients are connected; its own id for a router. */
  readonly router: string;
}

export interface Edge extends SimulationLinkDatum<Node> {
  readonly source: Node;
  readonly target: Node;
  readonly cost: number;
}

/** The nodes and edges of a mesh. `neighbours`: of each router those to which it is connected, with the cost of the path.
 * `connections`: of each router. All clients of a router are one leaf. */
export function graphOf(
  routers: readonly string[], nodes: ReadonlyMap<string, readonly Row[]>, connections: ReadonlyMap<string, readonly Row[]>,
): { nodes: Node[]; edges: Edge[] } {
  const found = new Map<string, Node>();
  const add = (node: Node): Node => found.get(node.id) ?? (found.set(node.id, node), node);
  for (const id of routers) add({ id, kind: "interior", label: id, router: id });
  const edges = routerEdges(nodes, found);
  for (const [router, rows] of connections) {
    const own = found.get(router);
    if (!own) continue;
    const clients = rows.filter((row) => text(row, "role") === "normal").length;
    if (clients) {
      const label = `${clients} ${clients === 1 ? "client" : "clients"}`;
      edges.push({ source: own, target: add({ id: `clients of ${router}`, kind: "client", label, router }), cost: 0 });
    }
    for (const row of rows) {
      const role = text(row, "role");
      if (role !== "edge" && role !== "route-container") continue;
      const name = text(row, "container") || text(row, "host");
      const kind = role === "edge" ? "edge" : "broker";
      edges.push({ source: own, target: add({ id: `${kind} ${name}`, kind, label: name, router }), cost: 0 });
    }
  }
  return { nodes: [...found.values()], edges };
}

/** One edge for each pair of neighbours, however many connections and links there are. The cost is 0 if it is not known, as
 * the best path leads elsewhere: a router tells the costs of paths only. */
function routerEdges(nodes: ReadonlyMap<string, readonly Row[]>, found: ReadonlyMap<string, Node>): Edge[] {
  const edges = new Map<string, Edge>();
  for (const [router, rows] of nodes) {
    const neighbours = rows.filter((row) => text(row, "id") !== router && row["routerLink"] !== null);
    for (const row of neighbours) {
      const ends = [found.get(router), found.get(text(row, "id"))].sort((one, other) => (one?.id ?? "").localeCompare(other?.id ?? ""));
      const [source, target] = ends;
      const key = `${source?.id}\n${target?.id}`;
      const cost = text(row, "nextHop") === "" ? Number(row["cost"] ?? 1) : 0;
      if (source && target && (cost || !edges.has(key))) edges.set(key, { source, target, cost });
    }
  }
  return [...edges.values()];
}

/** Puts nodes to places that depend on their names alone, so that they do not jump; those with a known place keep it. */
export function placed(nodes: Node[], edges: Edge[], known: ReadonlyMap<string, { x: number; y: number }>): void {
  const fresh = nodes.filter((node) => !known.has(node.id));
  for (const node of nodes) {
    const place = known.get(node.id);
    if (place) Object.assign(node, place, { fx: place.x, fy: place.y });
    else Object.assign(node, scattered(node.id, known.get(node.router)));
  }
  if (!fresh.length) return;
  let seed = 1;
  forceSimulation(nodes)
    .randomSource(() => (seed = (seed * 16807) % 2147483647) / 2147483647)
    .force("link", forceLink<Node, Edge>(edges).distance((edge) => (edge.target.kind === "interior" ? 120 : 60)))
    .force("apart", forceManyBody().strength(-400))
    .force("center", forceCenter(0, 0).strength(known.size ? 0 : 1))
    .force("x", forceX(0).strength(0.03))
    .force("y", forceY(0).strength(0.05))
    .stop()
    .tick(nodes.length > 300 ? 120 : 300);
}

function scattered(name: string, near: { x: number; y: number } | undefined): { x: number; y: number } {
  let hash = 2166136261;
  for (const letter of name) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 16777619) >>> 0;
  const angle = ((hash % 3600) / 3600) * 2 * Math.PI;
  const radius = near ? 60 : 100 + (hash % 97);
  return { x: (near?.x ?? 0) + radius * Math.cos(angle), y: (near?.y ?? 0) + radius * Math.sin(angle) };
}
