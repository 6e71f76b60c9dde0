// The links of clients, brokers and routers: those on which something is wrong first.
import { useLive } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { fragmentOf } from "../model/place.ts";
import { withRates } from "../model/rates.ts";
import { addressOf, number, text, type Row } from "../model/values.ts";
import { all, quoted } from "../model/where.ts";
import { Action } from "../parts/confirm.tsx";
import type { PageProps } from "../parts/console.tsx";
import { Details, Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";

const TYPE = "org.apache.qpid.dispatch.router.link";
export const MOST = 1000;
const ATTRIBUTES = [
  "identity", "linkName", "linkType", "linkDir", "owningAddr", "connectionId", "operStatus", "adminStatus", "capacity",
  "creditAvailable", "undeliveredCount", "unsettledCount", "deliveriesStuck", "zeroCreditSeconds", "deliveryCount", "acceptedCount",
  "rejectedCount", "releasedCount", "modifiedCount", "droppedPresettledCount", "settleRate",
];
export const SHOWN: Readonly<Record<string, { title: string; where: string }>> = {
  "": { title: "all of clients and brokers", where: "linkType = 'endpoint'" },
  stuck: { title: "with stuck deliveries", where: "linkType = 'endpoint' AND deliveriesStuck > 0" },
  blocked: { title: "without credit", where: "linkType = 'endpoint' AND zeroCreditSeconds > 0" },
  waiting: { title: "with waiting messages", where: "linkType = 'endpoint' AND (undeliveredCount > 0 OR unsettledCount > 0)" },
  routers: { title: "between routers", where: "linkType <> 'endpoint'" },
};

/** Why nothing moves on a link, or what is noteworthy; "" for nothing. */
export function stateOf(row: Row): string {
  const incoming = text(row, "linkDir") === "in";
  const stuck = number(row, "deliveriesStuck");
  const client = text(row, "linkType") === "endpoint";
  if (stuck && !client) return `${stuck} stuck: a consumer behind ${incoming ? "this" : "the other"} router does not settle`;
  if (stuck) return `${stuck} stuck: ${incoming ? "no consumer has settled them" : "the consumer does not settle"}`;
  const seconds = number(row, "zeroCreditSeconds");
  if (seconds && incoming) return `no credit for ${seconds} s: no consumer, or none that takes more`;
  if (seconds && (number(row, "undeliveredCount") || !number(row, "unsettledCount"))) return `no credit for ${seconds} s: the consumer grants none`;
  if (number(row, "undeliveredCount")) return "messages wait";
  if (incoming && !number(row, "creditAvailable")) return "no credit: no consumer, or none that takes more";
  return text(row, "operStatus") === "up" ? "" : text(row, "operStatus");
}

const COLUMNS: readonly Column[] = [
  { name: "address", title: "Address" },
  { name: "role", title: "Peer is" },
  { name: "state", title: "What is wrong", kind: "long" },
  { name: "deliveryCount/s", title: "Deliveries/s", kind: "rate" },
  { name: "settleRate", title: "Settled/s", kind: "number", hint: "Settlements a second, over the last five seconds" },
  { name: "creditAvailable", title: "Credit", kind: "number" },
  { name: "undeliveredCount", title: "Undelivered", kind: "number", hint: "Deliveries that wait to be sent" },
  { name: "unsettledCount", title: "Unsettled", kind: "number" },
  { name: "deliveryCount", title: "Deliveries", kind: "number" },
  { name: "acceptedCount", title: "Accepted", kind: "number" },
  { name: "rejectedCount", title: "Rejected", kind: "number" },
  { name: "releasedCount", title: "Released", kind: "number" },
  { name: "connectionId", title: "Connection", cell: (row) => <ConnectionLink row={row} /> },
  { name: "linkName", title: "Link name" },
  { name: "router", title: "Router" },
];

/** The greater, the nearer to the cause: a consumer that does not settle makes producers and routers wait. */
export function rankOf(row: Row): number {
  if (!stateOf(row)) return 0;
  if (text(row, "linkType") !== "endpoint") return 1;
  return text(row, "linkDir") === "out" && number(row, "deliveriesStuck") ? 3 : 2;
}

function ConnectionLink({ row }: { row: Row }) {
  const id = text(row, "connectionId");
  const router = text(row, "router");
  return <a href={fragmentOf("connections", { router, row: `${router}:${id}` })}>{id}</a>;
}

function described(row: Row): Row {
  const role = text(row, "linkType") === "endpoint" ? (text(row, "linkDir") === "in" ? "producer" : "consumer") : text(row, "linkType");
  return { ...row, address: addressOf(text(row, "owningAddr")), role, state: stateOf(row), wrong: rankOf(row) };
}

export function Links({ place, go }: PageProps) {
  const show = place.given["show"] ?? "";
  const key = place.given["address"] ?? "";
  const connection = place.given["connection"] ?? "";
  const where = all(SHOWN[show]?.where, key && `owningAddr = ${quoted(key)}`, connection && `connectionId = ${quoted(connection)}`);
  const query: Query = {
    type: TYPE, attributes: ATTRIBUTES, where, count: MOST, orderBy: "deliveriesStuck DESC, zeroCreditSeconds DESC, undeliveredCount DESC",
  };
  const answers = useLive(query, place.given["router"] ?? "");
  const rows = rowsOfAll(answers, ({ now, before }) => (now ? withRates(now, before, ["deliveryCount"]) : [])).map(described);
  return (
    <>
      <div class="tools">
        <label>Links{" "}
          <select value={show} onChange={(event) => go({ show: event.currentTarget.value })}>
            {Object.entries(SHOWN).map(([name, { title }]) => <option value={name}>{title}</option>)}
          </select>
        </label>
        {key ? <button onClick={() => go({ address: "" })}>{`address ${addressOf(key)} ✕`}</button> : null}
        {connection ? <button onClick={() => go({ connection: "" })}>{`connection ${connection} ✕`}</button> : null}
      </div>
      <Freshness answers={answers} />
      <TooMany full={answers.some((answer) => answer.now?.rows.length === MOST)} />
      <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="links" open={(row) => <LinkDetails row={row} />}
        first={{ column: "wrong", descending: true }} />
    </>
  );
}

/** Says that a router has more rows than were asked for. */
export function TooMany({ full }: { full: boolean }) {
  return full ? <p class="banner">{`Only the first ${MOST} of each router are shown.`}</p> : null;
}

function LinkDetails({ row }: { row: Row }) {
  const disable = text(row, "linkType") === "endpoint" && text(row, "adminStatus") === "enabled";
  return (
    <>
      {disable
        ? <Action label="Detach" danger router={text(row, "router")}
          what={`Detach the link ${text(row, "linkName")} of connection ${text(row, "connectionId")}? Its client gets a detach with an error, and may attach again.`}
          run={(management, router) => management.request(router, "UPDATE", { type: TYPE, identity: text(row, "identity") }, { adminStatus: "disabled" })} />
        : null}
      <Details row={row} />
    </>
  );
}
