// The mesh as a picture: routers, costs, traffic, brokers, edge routers and clients; and the same as a table.
import type { JSX } from "preact";
import { useContext, useMemo, useRef, useState } from "preact/hooks";
import { isOld, Mesh, useLive, type Answer } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { graphOf, placed, type Edge, type Node } from "../model/graph.ts";
import { fragmentOf } from "../model/place.ts";
import { perSecond, type Row } from "../model/values.ts";
import { withRates } from "../model/rates.ts";
import type { PageProps } from "../parts/console.tsx";
import { Freshness, TableOf, type Column } from "../parts/table.tsx";

const NODES: Query = { type: "org.apache.qpid.dispatch.router.node", attributes: ["id", "nextHop", "cost", "routerLink"], where: "routerLink IS NOT NULL" };
const CONNECTIONS: Query = { type: "org.apache.qpid.dispatch.connection", attributes: ["container", "role", "host"], where: "role <> 'inter-router'" };
const ROUTERS: Query = {
  type: "org.apache.qpid.dispatch.router", attributes: ["identity", "id", "deliveriesIngress", "deliveriesEgress", "deliveriesTransit"],
};
const COLUMNS: readonly Column[] = [
  { name: "from", title: "From" }, { name: "to", title: "To" }, { name: "kind", title: "What" }, { name: "cost", title: "Cost", kind: "number" },
];

function rowsBy(answers: readonly Answer[]): Map<string, readonly Row[]> {
  return new Map(answers.map((answer) => [answer.router, answer.now?.rows ?? []]));
}

/** What rows say, as a text; made once for each reading. */
const texts = new WeakMap<readonly Row[], string>();

function textOf(answers: readonly Answer[]): string {
  return answers.map(({ router, now }) => {
    if (!now) return router;
    let said = texts.get(now.rows);
    if (said === undefined) texts.set(now.rows, (said = JSON.stringify(now.rows)));
    return `${router} ${said}`;
  }).join("\n");
}

export function Topology({ place, go }: PageProps) {
  const session = useContext(Mesh);
  const nodes = useLive(NODES, "");
  const connections = useLive(CONNECTIONS, "");
  const routers = useLive(ROUTERS, "");
  const known = useRef(new Map<string, { x: number; y: number }>());
  const complete = nodes.length >= session.routers.length;
  const shape = `${session.routers.join(" ")}\n${textOf(nodes)}\n${textOf(connections)}`;
  const graph = useMemo(() => {
    const made = graphOf(session.routers, rowsBy(nodes), rowsBy(connections));
    if (complete) {
      placed(made.nodes, made.edges, known.current);
      known.current = new Map(made.nodes.map((node) => [node.id, { x: node.x ?? 0, y: node.y ?? 0 }]));
    }
    return made;
  }, [shape, complete]);
  const readings = routers.map(({ router, now }) => `${router} ${now?.at}`).join("\n");
  const rates = useMemo(() => new Map(routers.map(({ router, now, before }) => {
    const [row] = now ? withRates(now, before, ["deliveriesIngress", "deliveriesEgress", "deliveriesTransit"]) : [];
    return [router, row];
  })), [readings]);
  const lost = [...session.gone, ...routers.filter(isOld).map((answer) => answer.router)].sort().join("\n");
  const silent = useMemo(() => new Set(lost.split("\n")), [lost]);
  const table = useMemo(() => {
    const rows = graph.edges.map((edge) => ({
      identity: `${edge.source.id} ${edge.target.id}`, from: edge.source.label, to: edge.target.label,
      kind: edge.target.kind === "interior" ? "routers" : edge.target.kind, cost: edge.cost || null,
    }));
    return <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="edges" />;
  }, [graph, place]);
  return (
    <>
      <Freshness answers={routers} />
      {complete ? <Graph nodes={graph.nodes} edges={graph.edges} silent={silent} rates={rates} place={place} go={go} /> : <p>Asking the routers…</p>}
      {table}
    </>
  );
}

function Graph({ nodes, edges, silent, rates, place, go }: Pick<PageProps, "place" | "go"> & {
  nodes: readonly Node[]; edges: readonly Edge[]; silent: ReadonlySet<string>; rates: ReadonlyMap<string, Row | undefined>;
}) {
  const [view, setView] = useState<{ x: number; y: number; scale: number } | null>(null);
  const drag = useRef<{ x: number; y: number } | null>(null);
  const box = useMemo(() => boxOf(nodes), [nodes]);
  const { x, y, scale } = view ?? { x: 0, y: 0, scale: 1 };
  const chosen = nodes.find((node) => node.id === place.given["node"]);
  const lines = useRef(new WeakMap<Edge, Line>());
  // While the picture is moved, only its transform changes: the same elements are not compared again.
  const content = useMemo(() => {
    const flows = new Map([...rates].map(([router, row]) => [router, total(row)]));
    return (
      <>
        {edges.map((edge) => lineOf(edge, silent, flows, lines.current))}
        {nodes.map((node) => (
          <NodeDot node={node} bad={silent.has(node.id)} chosen={node === chosen} press={() => go({ node: node === chosen ? "" : node.id })} />
        ))}
      </>
    );
  }, [nodes, edges, silent, rates, place]);
  const moved = (event: PointerEvent): void => {
    const from = drag.current;
    if (!from) return;
    drag.current = { x: event.clientX, y: event.clientY };
    const width = (event.currentTarget as SVGSVGElement).clientWidth;
    const unit = Math.max(box.width / width, 0.1);
    setView({ x: x + (event.clientX - from.x) * unit, y: y + (event.clientY - from.y) * unit, scale });
  };
  return (
    <>
      <div class="tools">
        <button onClick={() => setView({ x, y, scale: scale * 1.25 })}>Larger</button>
        <button onClick={() => setView({ x, y, scale: scale / 1.25 })}>Smaller</button>
        <button onClick={() => setView(null)}>Fit</button>
        {chosen ? <Chosen node={chosen} row={rates.get(chosen.id)} /> : <span>Press a node to see what it is.</span>}
      </div>
      <svg class="graph" viewBox={`${box.x} ${box.y} ${box.width} ${box.height}`} role="group" aria-label="The mesh; the table below has the same"
        onPointerDown={(event) => { drag.current = { x: event.clientX, y: event.clientY }; }} onPointerMove={moved}
        onPointerUp={() => { drag.current = null; }} onPointerLeave={() => { drag.current = null; }}>
        <g transform={`translate(${x} ${y}) scale(${scale})`}>
          {content}
        </g>
      </svg>
    </>
  );
}

interface Line { readonly width: string; readonly bad: boolean; readonly drawn: JSX.Element }

/** The line of an edge. One that looks as before is the same element, which Preact does not compare again: most figures
 * change at each reading, but few widths do. */
function lineOf(
  edge: Edge, silent: ReadonlySet<string>, flows: ReadonlyMap<string, number>, known: WeakMap<Edge, Line>,
): JSX.Element {
  const { source, target } = edge;
  const bad = silent.has(source.id) || silent.has(target.id);
  const flow = Math.min(flows.get(source.router) ?? 0, flows.get(target.router) ?? 0);
  const width = (1 + Math.log10(1 + flow)).toFixed(1);
  const last = known.get(edge);
  if (last && last.width === width && last.bad === bad) return last.drawn;
  const middle = { x: ((source.x ?? 0) + (target.x ?? 0)) / 2, y: ((source.y ?? 0) + (target.y ?? 0)) / 2 };
  const drawn = (
    <g>
      <line x1={source.x} y1={source.y} x2={target.x} y2={target.y} class={bad ? "bad" : undefined} stroke-width={width} />
      {edge.cost > 1 ? <text x={middle.x} y={middle.y}>{edge.cost}</text> : null}
    </g>
  );
  known.set(edge, { width, bad, drawn });
  return drawn;
}

function total(row: Row | undefined): number {
  return ["deliveriesIngress/s", "deliveriesEgress/s", "deliveriesTransit/s"].reduce((sum, name) => sum + Number(row?.[name] ?? 0), 0);
}

function NodeDot({ node, bad, chosen, press }: { node: Node; bad: boolean; chosen: boolean; press: () => void }) {
  const classes = [node.kind, bad ? "bad" : "", chosen ? "chosen" : ""].filter(Boolean).join(" ");
  const radius = node.kind === "interior" ? 14 : 9;
  return (
    <g class={classes} transform={`translate(${node.x ?? 0} ${node.y ?? 0})`} role="button" tabIndex={0} aria-pressed={chosen}
      aria-label={`${node.kind} ${node.label}${bad ? ", does not answer" : ""}`} onClick={press}
      onKeyDown={(event) => { if (event.key === "Enter") press(); }}>
      <circle r={radius} />
      <text y={radius + 12}>{node.label.length > 24 ? `${node.label.slice(0, 23)}…` : node.label}</text>
    </g>
  );
}

function Chosen({ node, row }: { node: Node; row: Row | undefined }) {
  const rate = (name: string): string => perSecond(typeof row?.[name] === "number" ? row[name] : null);
  return (
    <span role="status">
      <strong>{node.label}</strong> ({node.kind})
      {row ? ` in ${rate("deliveriesIngress/s")}/s, out ${rate("deliveriesEgress/s")}/s, transit ${rate("deliveriesTransit/s")}/s` : ""}{" "}
      <a href={fragmentOf("connections", { router: node.router })}>connections</a>{" "}
      <a href={fragmentOf("links", { router: node.router })}>links</a>
    </span>
  );
}

function boxOf(nodes: readonly Node[]): { x: number; y: number; width: number; height: number } {
  const xs = nodes.map((node) => node.x ?? 0);
  const ys = nodes.map((node) => node.y ?? 0);
  const left = Math.min(...xs, -150) - 60;
  const top = Math.min(...ys, -100) - 40;
  return { x: left, y: top, width: Math.max(...xs, 150) + 60 - left, height: Math.max(...ys, 100) + 50 - top };
}
