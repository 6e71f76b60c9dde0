// Health, rates, and the routers: what is wrong now, and what to do about it.
import { useContext } from "preact/hooks";
import { isOld, Mesh, useLive, type Answer } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { configuredFaults, routerFaults, silent, type Fault } from "../model/health.ts";
import { fragmentOf } from "../model/place.ts";
import { sum, withRates } from "../model/rates.ts";
import { perSecond, text, type Row } from "../model/values.ts";
import type { PageProps } from "../parts/console.tsx";
import { Chart } from "../parts/series.tsx";
import { Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";
import { LastReport } from "./report.tsx";

const COUNTERS = ["deliveriesIngress", "deliveriesEgress", "deliveriesTransit", "acceptedDeliveries", "rejectedDeliveries", "releasedDeliveries"];
const ROUTERS: Query = {
  type: "org.apache.qpid.dispatch.router",
  attributes: [
    "identity", "id", "mode", "version", "uptimeSeconds", "connectionCount", "linkCount", "addrCount", "unsettledDeliveries",
    "deliveriesStuck", "linksBlocked", "linksHeld", "bufferedBytes", "memoryUsage", "memoryState", "drainStatus", ...COUNTERS,
  ],
};
const AUTOLINKS: Query = {
  type: "org.apache.qpid.dispatch.router.config.autoLink",
  attributes: ["identity", "name", "address", "operStatus", "lastError"],
  where: "operStatus = 'failed' OR operStatus = 'inactive'",
};
const CONNECTORS: Query = {
  type: "org.apache.qpid.dispatch.connector",
  attributes: ["identity", "name", "host", "port", "connectionStatus", "connectionMsg"],
  where: "connectionStatus <> 'SUCCESS'",
};

const COLUMNS: readonly Column[] = [
  { name: "id", title: "Router", cell: (row) => <a href={fragmentOf("overview", { router: text(row, "router") })}>{text(row, "id")}</a> },
  { name: "mode", title: "Mode" },
  { name: "deliveriesIngress/s", title: "In/s", kind: "rate", hint: "Deliveries a second that enter the mesh here" },
  { name: "deliveriesEgress/s", title: "Out/s", kind: "rate", hint: "Deliveries a second that leave the mesh here" },
  { name: "deliveriesTransit/s", title: "Transit/s", kind: "rate", hint: "Deliveries a second passed on to another router" },
  { name: "connectionCount", title: "Connections", kind: "number", cell: (row) => figure(row, "connectionCount", "connections") },
  { name: "linkCount", title: "Links", kind: "number", cell: (row) => figure(row, "linkCount", "links") },
  { name: "addrCount", title: "Addresses", kind: "number" },
  { name: "unsettledDeliveries", title: "Unsettled", kind: "number" },
  { name: "deliveriesStuck", title: "Stuck", kind: "number" },
  { name: "linksBlocked", title: "Links blocked", kind: "number" },
  { name: "bufferedBytes", title: "Waiting", kind: "bytes" },
  { name: "memoryUsage", title: "Memory", kind: "bytes" },
  { name: "uptimeSeconds", title: "Uptime", kind: "duration" },
  { name: "version", title: "Version" },
];

function figure(row: Row, name: string, page: string) {
  return <a href={fragmentOf(page, { router: text(row, "router") })}>{String(row[name] ?? "")}</a>;
}

const SERIES = [{ title: "in/s", color: "--blue" }, { title: "out/s", color: "--green" }, { title: "rejected or released/s", color: "--red" }];

export function Overview({ place, go }: PageProps) {
  const session = useContext(Mesh);
  const scope = place.given["router"] ?? "";
  const routers = useLive(ROUTERS, scope);
  const autolinks = useLive(AUTOLINKS, scope);
  const connectors = useLive(CONNECTORS, scope);
  const rows = rowsOfAll(routers, ({ now, before }) => (now ? withRates(now, before, COUNTERS) : []));
  const fresh = rows.filter((row) => !routers.some((answer) => answer.router === row["router"] && isOld(answer)));
  const rates = Object.fromEntries(COUNTERS.map((name) => [name, sum(fresh, `${name}/s`)]));
  const lost = sum([{ a: rates["rejectedDeliveries"] ?? null }, { a: rates["releasedDeliveries"] ?? null }], "a");
  const values = [rates["deliveriesIngress"] ?? null, rates["deliveriesEgress"] ?? null, lost];
  const at = Math.max(0, ...routers.map((answer) => answer.now?.at ?? 0));
  const faults = faultsOf(routers, autolinks, connectors, session.gone);
  return (
    <>
      <Faults faults={faults} known={routers.some((answer) => answer.now)} />
      <LastReport />
      <section class="cards" aria-label="Rates">
        <Card title="Routers" value={String(fresh.length)} />
        <Card title="Connections" value={String(sum(fresh, "connectionCount") ?? "–")} />
        <Card title="In/s" value={perSecond(values[0] ?? null)} />
        <Card title="Out/s" value={perSecond(values[1] ?? null)} />
        <Card title="Rejected or released/s" value={perSecond(lost)} />
        <Card title="Unsettled" value={String(sum(fresh, "unsettledDeliveries") ?? "–")} />
      </section>
      <Chart series={SERIES} values={values} at={at} label="Deliveries a second, since the page was opened" />
      <Freshness answers={routers} />
      <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="routers" first={{ column: "id", descending: false }} />
    </>
  );
}

function Card({ title, value }: { title: string; value: string }) {
  return <div class="card"><div class="value">{value}</div><div>{title}</div></div>;
}

export function faultsOf(
  routers: readonly Answer[], autolinks: readonly Answer[], connectors: readonly Answer[], gone: ReadonlySet<string>,
): Fault[] {
  const faults = routers.flatMap(({ router, now, error }) => {
    if (error) return [silent(router, gone.has(router) ? "it is no longer in the mesh" : error)];
    return now?.rows.flatMap((row) => routerFaults(router, row)) ?? [];
  });
  const rows = (answers: readonly Answer[], router: string): readonly Row[] => answers.find((one) => one.router === router)?.now?.rows ?? [];
  const known = new Set([...autolinks, ...connectors].map((answer) => answer.router));
  const configured = [...known].flatMap((router) => configuredFaults(router, rows(autolinks, router), rows(connectors, router)));
  return [...faults, ...configured].sort((left, right) => left.severity.localeCompare(right.severity));
}

function Faults({ faults, known }: { faults: readonly Fault[]; known: boolean }) {
  return (
    <section aria-label="What is wrong now" class="faults">
      <h2>What is wrong now</h2>
      {faults.length
        ? <ul>{faults.map((fault) => (
          <li class={fault.severity}>
            <strong>{fault.router}</strong>: {fault.what}. <a href={fault.href}>{fault.action}</a>
          </li>
        ))}</ul>
        : <p>{known ? "Nothing." : "Not known yet."}</p>}
    </section>
  );
}
