// Autolinks, link routes and exchanges, with the reason why one does not work.
import { useLive } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { withRates } from "../model/rates.ts";
import { text, type Row } from "../model/values.ts";
import { all, quoted } from "../model/where.ts";
import type { PageProps } from "../parts/console.tsx";
import { Details, Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";

const PREFIX = "org.apache.qpid.dispatch.router.config.";
const NAMES = ["identity", "name"];

interface Part {
  readonly name: string;
  readonly title: string;
  readonly query: Query;
  readonly counters: readonly string[];
  readonly columns: readonly Column[];
}

const PARTS: readonly Part[] = [
  {
    name: "autolinks", title: "Autolinks", counters: [],
    query: {
      type: `${PREFIX}autoLink`,
      attributes: [...NAMES, "address", "direction", "phase", "containerId", "connection", "externalAddress", "fallback", "operStatus", "lastError", "linkRef"],
    },
    columns: [
      { name: "name", title: "Autolink" }, { name: "address", title: "Address" }, { name: "direction", title: "Direction" },
      { name: "operStatus", title: "State" }, { name: "why", title: "Why", kind: "long" }, { name: "containerId", title: "Container" },
      { name: "connection", title: "Connector" }, { name: "externalAddress", title: "Address there" }, { name: "router", title: "Router" },
    ],
  },
  {
    name: "link routes", title: "Link routes", counters: [],
    query: {
      type: `${PREFIX}linkRoute`,
      attributes: [...NAMES, "prefix", "pattern", "direction", "containerId", "connection", "operStatus", "linkCount", "addExternalPrefix", "delExternalPrefix"],
    },
    columns: [
      { name: "name", title: "Link route" }, { name: "prefix", title: "Prefix" }, { name: "pattern", title: "Pattern" }, { name: "direction", title: "Direction" },
      { name: "operStatus", title: "State" }, { name: "linkCount", title: "Links", kind: "number" }, { name: "containerId", title: "Container" },
      { name: "connection", title: "Connector" }, { name: "router", title: "Router" },
    ],
  },
  {
    name: "exchanges", title: "Exchanges", counters: ["receivedCount", "droppedCount"],
    query: {
      type: `${PREFIX}exchange`,
      attributes: [...NAMES, "address", "bindingCount", "receivedCount", "forwardedCount", "divertedCount", "droppedCount", "matchMethod", "alternateAddress"],
    },
    columns: [
      { name: "name", title: "Exchange" }, { name: "address", title: "Address" }, { name: "bindingCount", title: "Bindings", kind: "number" },
      { name: "receivedCount/s", title: "In/s", kind: "rate" }, { name: "droppedCount/s", title: "Dropped/s", kind: "rate" },
      { name: "receivedCount", title: "In", kind: "number" }, { name: "forwardedCount", title: "Forwarded", kind: "number" },
      { name: "divertedCount", title: "Diverted", kind: "number" }, { name: "droppedCount", title: "Dropped", kind: "number" }, { name: "router", title: "Router" },
    ],
  },
];

/** Why an autolink is in its state. */
export function why(row: Row): string {
  const state = text(row, "operStatus");
  if (text(row, "lastError")) return text(row, "lastError");
  if (state === "inactive") return `no connection of container or connector ${text(row, "containerId") || text(row, "connection") || "(any)"}`;
  return state === "attaching" ? "the peer has not answered the attach" : "";
}

export function Autolinks({ place, go }: PageProps) {
  const show = place.given["show"] ?? "autolinks";
  const part = PARTS.find((one) => one.name === show) ?? PARTS[0];
  return part ? (
    <>
      <div class="tools">
        <label>Show{" "}
          <select value={part.name} onChange={(event) => go({ show: event.currentTarget.value, sort: "", row: "" })}>
            {PARTS.map(({ name, title }) => <option value={name}>{title}</option>)}
          </select>
        </label>
      </div>
      <Shown part={part} place={place} go={go} />
    </>
  ) : null;
}

function Shown({ part, place, go }: PageProps & { part: Part }) {
  const state = place.given["state"] ?? "";
  const query = { ...part.query, where: all(state && `operStatus = ${quoted(state)}`) };
  const answers = useLive(query, place.given["router"] ?? "");
  const rows = rowsOfAll(answers, ({ now, before }) => (now ? withRates(now, before, part.counters) : [])).map((row) => ({ ...row, why: why(row) }));
  return (
    <>
      <Freshness answers={answers} />
      <TableOf rows={rows} columns={part.columns} place={place} go={go} name={part.name} open={(row) => <Details row={row} />} />
    </>
  );
}
