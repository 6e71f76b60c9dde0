// What a page shows is asked for every two seconds, while it is shown, from the routers of its scope.
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { agentOf, type Session } from "./session.ts";
import type { Query } from "./management.ts";
import type { Reading } from "../model/rates.ts";

export const PERIOD_MS = 2000;
export const OLD_MS = 6000;
/** The shortest time between two drawings for answers: in a mesh of hundreds of routers, they come every few ms, and a
 * drawing takes longer. So it is the larger of these, the second of them for each router. */
const DRAW_MS = 200;
const DRAW_MS_OF_ROUTER = 3;

/** What one router answered. `before`: the answer before that. `error`: why there is none now; the readings stay. */
export interface Answer {
  readonly router: string;
  readonly now: Reading | null;
  readonly before: Reading | null;
  readonly error: string;
}

export const Mesh = createContext<Session>(null as unknown as Session);

/** The answers of the routers in the scope, "" for all; asked again and again while the page is visible. */
export function useLive(query: Query | null, scope: string): readonly Answer[] {
  const session = useContext(Mesh);
  const known = useRef(new Map<string, Answer>());
  const [, redraw] = useState(0);
  const key = JSON.stringify([query, scope]);
  const asked = useRef("");
  useEffect(() => {
    // What was read stays when a router comes or goes, or the connection is lost.
    if (asked.current !== key) known.current = new Map();
    asked.current = key;
    if (query === null) return undefined;
    let ended = false;
    let drawn = -Infinity;
    let waiting: ReturnType<typeof setTimeout> | undefined;
    const draw = (): void => {
      waiting ??= setTimeout(() => {
        waiting = undefined;
        drawn = performance.now();
        redraw((turn) => turn + 1);
      }, Math.max(0, drawn + Math.max(DRAW_MS, DRAW_MS_OF_ROUTER * session.routers.length) - performance.now()));
    };
    const busy = new Set<string>();
    const ask = async (router: string): Promise<void> => {
      const state = session.state;
      if (state.kind !== "open" || busy.has(router)) return;
      busy.add(router);
      const answer = await answered(session, router, query, known.current.get(router));
      busy.delete(router);
      if (ended) return;
      known.current.set(router, answer);
      draw();
    };
    const turn = (): void => {
      if (document.hidden) return;
      for (const router of scope ? [scope] : session.routers) void ask(router);
    };
    turn();
    const timer = setInterval(turn, PERIOD_MS);
    return () => {
      ended = true;
      clearInterval(timer);
      clearTimeout(waiting);
    };
  }, [key, session, session.state, session.routers]);
  return [...known.current.values()].sort((left, right) => left.router.localeCompare(right.router));
}

async function answered(session: Session, router: string, query: Query, last: Answer | undefined): Promise<Answer> {
  const state = session.state;
  try {
    if (state.kind !== "open") throw new Error("no connection");
    const rows = await state.management.query(agentOf(state, router), query);
    return { router, now: { at: performance.now(), rows }, before: last?.now ?? null, error: "" };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { router, now: last?.now ?? null, before: last?.before ?? null, error: reason };
  }
}

/** Whether figures are older than they should be. */
export function isOld(answer: Answer): boolean {
  return answer.error !== "" || (answer.now !== null && performance.now() - answer.now.at > OLD_MS);
}
