// The last lines of the routers' logs, and those that come.
import { useContext, useEffect, useState } from "preact/hooks";
import { Mesh, PERIOD_MS } from "../amqp/live.ts";
import { agentOf } from "../amqp/session.ts";
import { linesOf, type Line } from "../model/log.ts";
import type { Row } from "../model/values.ts";
import { outcome } from "../parts/confirm.tsx";
import type { PageProps } from "../parts/console.tsx";
import { TableOf, type Column } from "../parts/table.tsx";

const LINES = 500;
const LEVELS = ["", "critical", "error", "warning", "notice", "info", "debug", "trace"];

const COLUMNS: readonly Column[] = [
  { name: "at", title: "Time", cell: (row) => new Date(Number(row["at"]) * 1000).toISOString().replace("T", " ").slice(0, 23) },
  { name: "level", title: "Level" },
  { name: "module", title: "Module" },
  { name: "text", title: "Text", kind: "long" },
  { name: "router", title: "Router" },
];

export function LogTail({ place, go }: PageProps) {
  const session = useContext(Mesh);
  const scope = place.given["router"] ?? "";
  const [logs, setLogs] = useState(new Map<string, readonly Line[]>());
  const [errors, setErrors] = useState(new Map<string, string>());
  useEffect(() => {
    let ended = false;
    const ask = async (router: string): Promise<void> => {
      const { state } = session;
      if (state.kind !== "open") return;
      try {
        const body = await state.management.request(agentOf(state, router), "GET-LOG", { limit: LINES });
        if (!ended) setLogs((old) => new Map(old).set(router, linesOf(body)));
        if (!ended) setErrors((old) => new Map([...old].filter(([name]) => name !== router)));
      } catch (error) {
        if (!ended) setErrors((old) => new Map(old).set(router, outcome(error)));
      }
    };
    const turn = (): void => {
      if (!document.hidden) for (const router of scope ? [scope] : session.routers) void ask(router);
    };
    setLogs(new Map());
    turn();
    const timer = setInterval(turn, PERIOD_MS);
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, [session, session.state, session.routers, scope]);
  const level = place.given["level"] ?? "";
  const worst = LEVELS.indexOf(level);
  const rows: Row[] = [...logs].flatMap(([router, lines]) => lines.map((line, index) => ({ ...line, router, identity: `${line.at}-${index}` })));
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
      {errors.size ? <ul class="old" role="status">{[...errors].map(([router, error]) => <li>{router}: {error}</li>)}</ul> : null}
      <TableOf rows={some} columns={COLUMNS} place={place} go={go} name="log" first={{ column: "at", descending: true }} />
    </>
  );
}
