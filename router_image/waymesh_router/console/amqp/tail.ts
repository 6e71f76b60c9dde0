// The last lines of the routers' logs, asked for again and again while a page shows them.
import { useContext, useEffect, useState } from "preact/hooks";
import { linesOf, type Line } from "../model/log.ts";
import { Mesh, PERIOD_MS } from "./live.ts";
import { agentOf } from "./session.ts";

export const LINES = 500;

export interface Tail {
  /** By router, the oldest first. */
  readonly lines: ReadonlyMap<string, readonly Line[]>;
  /** Why a router gives none. */
  readonly errors: ReadonlyMap<string, unknown>;
}

/** The lines of the routers in the scope, "" for all. */
export function useTail(scope: string): Tail {
  const session = useContext(Mesh);
  const [lines, setLines] = useState(new Map<string, readonly Line[]>());
  const [errors, setErrors] = useState(new Map<string, unknown>());
  useEffect(() => {
    let ended = false;
    const ask = async (router: string): Promise<void> => {
      const { state } = session;
      if (state.kind !== "open") return;
      try {
        const body = await state.management.request(agentOf(state, router), "GET-LOG", { limit: LINES });
        if (!ended) setLines((old) => new Map(old).set(router, linesOf(body)));
        if (!ended) setErrors((old) => new Map([...old].filter(([name]) => name !== router)));
      } catch (error) {
        if (!ended) setErrors((old) => new Map(old).set(router, error));
      }
    };
    const turn = (): void => {
      if (!document.hidden) for (const router of scope ? [scope] : session.routers) void ask(router);
    };
    setLines(new Map());
    turn();
    const timer = setInterval(turn, PERIOD_MS);
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, [session, session.state, session.routers, scope]);
  return { lines, errors };
}
