// An action of the reader: says what it will do, asks, and shows what the router answered.
import type { ComponentChildren } from "preact";
import { useContext, useState } from "preact/hooks";
import { Mesh } from "../amqp/live.ts";
import { Refused, type Management } from "../amqp/management.ts";
import { agentOf } from "../amqp/session.ts";

export function Action({ label, what, router, run, danger }: {
  label: string;
  /** What it will do, as a question. */
  what: ComponentChildren;
  router: string;
  run: (management: Management, router: string) => Promise<unknown>;
  danger?: boolean;
}) {
  const session = useContext(Mesh);
  const [asked, setAsked] = useState(false);
  const [result, setResult] = useState("");
  const [busy, setBusy] = useState(false);
  const confirmed = async (): Promise<void> => {
    const { state } = session;
    if (state.kind !== "open") return;
    setBusy(true);
    try {
      await run(state.management, agentOf(state, router));
      setResult("Done.");
      setAsked(false);
    } catch (error) {
      setResult(outcome(error));
    }
    setBusy(false);
  };
  return (
    <span class="action">
      {asked
        ? <>
          <span>{what}</span>{" "}
          <button class={danger ? "danger" : undefined} disabled={busy} onClick={() => void confirmed()}>{label}</button>{" "}
          <button onClick={() => { setAsked(false); setResult(""); }}>Cancel</button>
        </>
        : <button onClick={() => { setAsked(true); setResult(""); }}>{label}…</button>}
      <span role="status">{result ? ` ${result}` : ""}</span>
    </span>
  );
}

/** Why a request failed, for the reader. */
export function outcome(error: unknown): string {
  if (!(error instanceof Refused)) return error instanceof Error ? error.message : String(error);
  if (error.status === 403) return `Not allowed: ${error.message}. You may only read here.`;
  return error.status ? `Refused (${error.status}): ${error.message}` : `No answer: ${error.message}`;
}
