// Certificates of the sslProfiles, those that expire first at the top.
import { useLive } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { duration, number } from "../model/values.ts";
import type { PageProps } from "../parts/console.tsx";
import { Details, Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";

const QUERY: Query = { type: "org.apache.qpid.dispatch.sslProfile", attributes: ["identity", "name", "certFile", "caCertFile", "protocols", "notAfter"] };
const SOON_S = 14 * 86400;
const COLUMNS: readonly Column[] = [
  { name: "name", title: "sslProfile" },
  { name: "notAfter", title: "Expires", cell: (row) => <Expiry at={number(row, "notAfter")} /> },
  { name: "certFile", title: "Certificate" },
  { name: "caCertFile", title: "Authorities" },
  { name: "router", title: "Router" },
];

export function Certificates({ place, go }: PageProps) {
  const answers = useLive(QUERY, place.given["router"] ?? "");
  const rows = rowsOfAll(answers, ({ now }) => now?.rows ?? []);
  return (
    <>
      <Freshness answers={answers} />
      <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="certificates" first={{ column: "notAfter", descending: false }}
        open={(row) => <Details row={row} />} />
    </>
  );
}

function Expiry({ at }: { at: number }) {
  if (!at) return <span>no certificate</span>;
  const left = at - Date.now() / 1000;
  const day = new Date(at * 1000).toISOString().slice(0, 10);
  return <span class={left < SOON_S ? "bad" : undefined}>{left < 0 ? `expired ${day}` : `${day}, in ${duration(left)}`}</span>;
}
