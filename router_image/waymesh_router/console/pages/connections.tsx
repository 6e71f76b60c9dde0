// Connections: who is connected, from where, by TLS or not; close, and trace.
import { useLive } from "../amqp/live.ts";
import type { Management, Query } from "../amqp/management.ts";
import { fragmentOf } from "../model/place.ts";
import { text, type Row } from "../model/values.ts";
import { Action } from "../parts/confirm.tsx";
import type { PageProps } from "../parts/console.tsx";
import { Details, Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";
import { MOST, TooMany } from "./links.tsx";

const TYPE = "org.apache.qpid.dispatch.connection";
const QUERY: Query = {
  type: TYPE,
  attributes: [
    "identity", "container", "user", "host", "role", "dir", "isAuthenticated", "isEncrypted", "sasl", "sslProto", "sslCipher", "tenant",
    "operStatus", "adminStatus", "enableProtocolTrace", "uptimeSeconds", "lastDlvSeconds", "properties",
  ],
  count: MOST,
};

const COLUMNS: readonly Column[] = [
  { name: "identity", title: "Connection" },
  { name: "container", title: "Container" },
  { name: "user", title: "User" },
  { name: "host", title: "Host" },
  { name: "role", title: "Role" },
  { name: "dir", title: "Direction" },
  { name: "security", title: "TLS" },
  { name: "sasl", title: "SASL" },
  { name: "uptimeSeconds", title: "Open for", kind: "duration" },
  { name: "lastDlvSeconds", title: "Last delivery", kind: "duration", hint: "Time since the last delivery" },
  { name: "tenant", title: "Tenant" },
  { name: "router", title: "Router" },
];

export function Connections({ place, go }: PageProps) {
  const answers = useLive(QUERY, place.given["router"] ?? "");
  const rows = rowsOfAll(answers, ({ now }) => now?.rows ?? [])
    .map((row) => ({ ...row, security: row["isEncrypted"] ? text(row, "sslProto") || "yes" : "no" }));
  return (
    <>
      <Freshness answers={answers} />
      <TooMany full={answers.some((answer) => answer.now?.rows.length === MOST)} />
      <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="connections" open={(row) => <ConnectionDetails row={row} />} />
    </>
  );
}

function ConnectionDetails({ row }: { row: Row }) {
  const router = text(row, "router");
  const identity = text(row, "identity");
  const update = (attributes: Record<string, unknown>) => (management: Management, at: string) =>
    management.request(at, "UPDATE", { type: TYPE, identity }, attributes);
  const traced = row["enableProtocolTrace"] === true;
  return (
    <>
      <p class="actions">
        <a href={fragmentOf("links", { router, connection: identity })}>Its links</a>{" "}
        <a href={fragmentOf("events", { router, connection: identity })}>Its events</a>{" "}
        <a href={fragmentOf("policy", { router, user: text(row, "user"), host: text(row, "host").replace(/:\d+$/, "").replace(/^\[|\]$/g, "") })}>Check policy</a>{" "}
        <Action label="Close" danger router={router}
          what={`Close connection ${identity} of ${text(row, "container")} (user ${text(row, "user") || "none"}, ${text(row, "host")})? Most clients connect again.`}
          run={update({ adminStatus: "deleted" })} />{" "}
        <Action label={traced ? "End trace" : "Trace"} router={router}
          what={traced ? "End the trace?" : "Write the frames of this connection to the log, module PROTOCOL?"}
          run={update({ enableProtocolTrace: !traced })} />
      </p>
      <Details row={row} />
    </>
  );
}
