// Message flow: from which router to which, by address, since the page was opened.
import { useContext, useRef, useState } from "preact/hooks";
import { Mesh, useLive } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { flowOf } from "../model/flow.ts";
import { fragmentOf } from "../model/place.ts";
import type { Reading } from "../model/rates.ts";
import { duration, text, type Row } from "../model/values.ts";
import type { PageProps } from "../parts/console.tsx";
import { Freshness, TableOf, type Column } from "../parts/table.tsx";
import { MOST, TooMany } from "./links.tsx";
import { FlowOfReport } from "./report.tsx";

const ADDRESSES: Query = {
  type: "org.apache.qpid.dispatch.router.address",
  attributes: ["identity", "key", "deliveriesIngress", "deliveriesEgress"],
  where: "key LIKE 'M%'",
  count: MOST,
};
const COLUMNS: readonly Column[] = [
  { name: "address", title: "Address", cell: (row) => <a href={fragmentOf("links", { address: text(row, "key") })}>{text(row, "address")}</a> },
  { name: "from", title: "Entered at", hint: "Routers to which the producers are connected" },
  { name: "to", title: "Left at", hint: "Routers to which the consumers are connected; none: nothing has been taken yet" },
  { name: "count", title: "Deliveries", kind: "number" },
];

export function Flow({ place, go }: PageProps) {
  const session = useContext(Mesh);
  const answers = useLive(ADDRESSES, "");
  const first = useRef(new Map<string, Reading>());
  const [, again] = useState(0);
  for (const { router, now } of answers) if (now && !first.current.has(router)) first.current.set(router, now);
  const scope = place.given["router"] ?? "";
  const counted = answers.map(({ router, now }) => ({ router, first: first.current.get(router)?.rows ?? [], now: now?.rows ?? [] }));
  const rows: Row[] = flowOf(counted).filter((row) => !scope || [row["from"], row["to"]].some((side) => String(side).split(", ").includes(scope)));
  const since = Math.min(...[...first.current.values()].map((reading) => reading.at));
  const restart = (): void => {
    first.current = new Map();
    again((turn) => turn + 1);
  };
  return (
    <>
      <Freshness answers={answers} />
      <TooMany full={answers.some((answer) => answer.now?.rows.length === MOST)} />
      <p class="hint">
        {`Of the last ${Number.isFinite(since) ? duration((performance.now() - since) / 1000) : "0 s"}, at ${first.current.size} of ${session.routers.length} routers. `}
        Where several routers are on both sides, their pairs are not known.{" "}
        <button onClick={restart}>Begin anew</button>
      </p>
      <FlowOfReport />
      <TableOf rows={rows} columns={COLUMNS} place={place} go={go} name="flow" first={{ column: "count", descending: true }} />
    </>
  );
}
