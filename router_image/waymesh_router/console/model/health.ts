// What is wrong now, by the rules of the alerts in the chart, and what to do about it.
import { fragmentOf } from "./place.ts";
import { count, number, text, type Row } from "./values.ts";

export interface Fault {
  readonly severity: "bad" | "warning";
  readonly router: string;
  readonly what: string;
  readonly action: string;
  readonly href: string;
}

function counted(value: number, one: string, many: string): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** What a router says of itself. */
export function routerFaults(router: string, row: Row): Fault[] {
  const faults: Fault[] = [];
  const add = (severity: Fault["severity"], what: string, action: string, page: string, given = {}): void => {
    faults.push({ severity, router, what, action, href: fragmentOf(page, { router, ...given }) });
  };
  const stuck = number(row, "deliveriesStuck");
  if (stuck) {
    const action = "Find the consumers that do not settle: links with stuck deliveries.";
    const what = `${counted(stuck, "delivery has", "deliveries have")} been unsettled for a long time`;
    // The consumers may be connected to other routers.
    add("bad", what, action, "links", { router: "", show: "stuck" });
  }
  const blocked = number(row, "linksBlocked");
  if (blocked) {
    const action = "Add consumers, or let them grant credit: links without credit.";
    add("bad", `${counted(blocked, "link has", "links have")} had no credit for a long time`, action, "links", { show: "blocked" });
  }
  const memory = text(row, "memoryState");
  if (memory === "full") add("bad", "no memory is left for new clients", "Raise maxMemory, or add routers.", "overview");
  if (memory === "high") {
    add("warning", "new links of clients get no credit: memory is short", "Add consumers or routers.", "overview");
  }
  if (number(row, "linksHeld")) {
    const what = `${count(number(row, "linksHeld"))} links are held back: too many of their messages wait`;
    add("warning", what, "Add consumers for these addresses.", "links", { show: "waiting" });
  }
  const drain = text(row, "drainStatus");
  if (drain && drain !== "none") {
    add("warning", `the router is ${drain}`, "It serves no clients until draining is set to no.", "overview");
  }
  return faults;
}

/** Autolinks and connectors that do not work; the reason is that of the router. */
export function configuredFaults(router: string, autolinks: readonly Row[], connectors: readonly Row[]): Fault[] {
  const failed = autolinks.map((row): Fault => {
    const reason = text(row, "lastError");
    return {
      severity: "bad",
      router,
      what: `autolink ${text(row, "name")} (${text(row, "address")}) is ${text(row, "operStatus")}${reason ? `: ${reason}` : ""}`,
      action: "Check the broker, the address there and the rights of the router.",
      href: fragmentOf("autolinks", { router }),
    };
  });
  const lost = connectors.map((row): Fault => {
    const reason = text(row, "connectionMsg");
    return {
      severity: "bad",
      router,
      what: `connector ${text(row, "name")} to ${text(row, "host")}:${text(row, "port")} is not connected${reason ? `: ${reason}` : ""}`,
      action: "Check host, port, TLS and credentials, and whether the peer runs.",
      href: fragmentOf("log", { router, search: text(row, "name") }),
    };
  });
  return [...failed, ...lost];
}

/** A router that is in the mesh, or was, and does not answer. */
export function silent(router: string, reason: string): Fault {
  const action = "Check whether it runs and whether a path leads to it.";
  return { severity: "bad", router, what: `does not answer: ${reason}`, action, href: fragmentOf("topology") };
}
