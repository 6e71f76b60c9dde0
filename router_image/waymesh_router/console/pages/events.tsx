// Events: the lines of the logs that say what happened to whom, with links to the connection, the link and the address.
import { useTail } from "../amqp/tail.ts";
import { eventOf, groupsOf, type Event } from "../model/log.ts";
import { fragmentOf } from "../model/place.ts";
import { text, type Row } from "../model/values.ts";
import type { PageProps } from "../parts/console.tsx";
import { TableOf, type Column } from "../parts/table.tsx";
import { NoLog, timeOf } from "./log.tsx";

const COLUMNS: readonly Column[] = [
  { name: "at", title: "Time", cell: timeOf },
  { name: "kind", title: "Event" },
  { name: "user", title: "User" },
  { name: "host", title: "Host" },
  { name: "connection", title: "Connection", cell: connectionOf },
  { name: "link", title: "Link", cell: linkOf },
  { name: "address", title: "Address", cell: addressOf },
  { name: "text", title: "Text", kind: "long" },
  { name: "router", title: "Router" },
];

export function Events({ place, go }: PageProps) {
  const tail = useTail(place.given["router"] ?? "");
  const { kind = "", connection = "" } = place.given;
  const all: (Event & Row)[] = [...tail.lines].flatMap(([router, lines]) => lines.flatMap((line, index) => {
    const event = eventOf(line);
    return event ? [{ ...event, router, identity: `${line.at}-${index}` }] : [];
  }));
  const rows = all.filter((row) => (!kind || row.kind.startsWith(`${kind}.`)) && (!connection || row.connection === connection));
  return (
    <>
      <div class="tools">
        <label>About{" "}
          <select value={kind} onChange={(event) => go({ kind: event.currentTarget.value })}>
            <option value="">everything</option>
            {groupsOf(all, kind).map((group) => <option value={group}>{group}</option>)}
          </select>
        </label>
        {connection ? <button onClick={() => go({ connection: "" })}>{`Of connection ${connection} only: show all`}</button> : null}
      </div>
      <NoLog errors={tail.errors} />
      <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="events" first={{ column: "at", descending: true }} />
    </>
  );
}

function connectionOf(row: Row) {
  const connection = text(row, "connection");
  const router = text(row, "router");
  // Its end has no row any more; the events of it are here.
  return connection ? <a href={fragmentOf("connections", { router, row: `${router}:${connection}` })}>{connection}</a> : "";
}

function linkOf(row: Row) {
  const link = text(row, "link");
  const router = text(row, "router");
  return link ? <a href={fragmentOf("links", { router, connection: text(row, "connection"), row: `${router}:${link}` })}>{link}</a> : "";
}

function addressOf(row: Row) {
  const address = text(row, "address");
  return address ? <a href={fragmentOf("addresses", { search: address })}>{address}</a> : "";
}
