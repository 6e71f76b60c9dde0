// The last lines of the routers' logs, and those that come.
import { useTail, type Tail } from "../amqp/tail.ts";
import type { Row } from "../model/values.ts";
import { outcome } from "../parts/confirm.tsx";
import type { PageProps } from "../parts/console.tsx";
import { TableOf, type Column } from "../parts/table.tsx";

const LEVELS = ["", "critical", "error", "warning", "notice", "info", "debug", "trace"];

export function timeOf(row: Row): string {
  return new Date(Number(row["at"]) * 1000).toISOString().replace("T", " ").slice(0, 23);
}

const COLUMNS: readonly Column[] = [
  { name: "at", title: "Time", cell: timeOf },
  { name: "level", title: "Level" },
  { name: "module", title: "Module" },
  { name: "text", title: "Text", kind: "long" },
  { name: "router", title: "Router" },
];

export function LogTail({ place, go }: PageProps) {
  const tail = useTail(place.given["router"] ?? "");
  const level = place.given["level"] ?? "";
  const worst = LEVELS.indexOf(level);
  const rows: Row[] = [...tail.lines].flatMap(([router, lines]) => lines.map((line, index) => ({ ...line, router, identity: `${line.at}-${index}` })));
  const some = level ? rows.filter((row) => LEVELS.indexOf(String(row["level"])) <= worst) : rows;
  return (
    <>
      <div class="tools">
        <label>Level{" "}
          <select value={level} onChange={(event) => go({ level: event.currentTarget.value })}>
            {LEVELS.map((one) => <option value={one}>{one ? `${one} and worse` : "all"}</option>)}
          </select>
        </label>
      </div>
      <NoLog errors={tail.errors} />
      <TableOf rows={some} columns={COLUMNS} place={place} go={go} name="log" first={{ column: "at", descending: true }} />
    </>
  );
}

/** Which routers give no lines, and why. */
export function NoLog({ errors }: Pick<Tail, "errors">) {
  return errors.size ? <ul class="old" role="status">{[...errors].map(([router, error]) => <li>{router}: {outcome(error)}</li>)}</ul> : null;
}
