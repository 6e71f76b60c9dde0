// Addresses with their producers, consumers, rates, and what waits.
import { useLive, type Answer } from "../amqp/live.ts";
import type { Query } from "../amqp/management.ts";
import { fragmentOf } from "../model/place.ts";
import { sum, withRates } from "../model/rates.ts";
import { addressOf, number, text, type Row } from "../model/values.ts";
import type { PageProps } from "../parts/console.tsx";
import { Details, Freshness, TableOf, type Column } from "../parts/table.tsx";
import { MOST, TooMany } from "./links.tsx";

const COUNTERS = ["deliveriesIngress", "deliveriesEgress", "deliveriesTransit"];
const ADDRESSES: Query = {
  type: "org.apache.qpid.dispatch.router.address",
  attributes: [
    "identity", "key", "distribution", "inProcess", "subscriberCount", "containerCount", "priority", "deliveriesRedirectedToFallback",
    "expiredDeliveries", ...COUNTERS,
  ],
  where: "key LIKE 'M%'",
  count: MOST,
};
const LINKS: Query = {
  type: "org.apache.qpid.dispatch.router.link",
  attributes: ["identity", "owningAddr", "linkDir", "undeliveredCount", "unsettledCount", "creditAvailable", "deliveriesStuck"],
  where: "linkType = 'endpoint' AND owningAddr LIKE 'M%'",
  count: MOST * 10,
};

const COLUMNS: readonly Column[] = [
  { name: "address", title: "Address" },
  { name: "why", title: "Why it waits", kind: "long" },
  { name: "producers", title: "Producers", kind: "number", cell: (row) => <LinksOf row={row} name="producers" /> },
  { name: "consumers", title: "Consumers", kind: "number", cell: (row) => <LinksOf row={row} name="consumers" /> },
  { name: "deliveriesIngress/s", title: "In/s", kind: "rate", hint: "Deliveries a second that enter the mesh" },
  { name: "deliveriesEgress/s", title: "Out/s", kind: "rate", hint: "Deliveries a second that leave the mesh" },
  { name: "credit", title: "Credit", kind: "number", hint: "Credit of the consumers" },
  { name: "undelivered", title: "Undelivered", kind: "number" },
  { name: "unsettled", title: "Unsettled", kind: "number" },
  { name: "deliveriesIngress", title: "In", kind: "number" },
  { name: "deliveriesEgress", title: "Out", kind: "number" },
  { name: "distribution", title: "Distribution" },
  { name: "routers", title: "Routers" },
];

function LinksOf({ row, name }: { row: Row; name: string }) {
  return <a href={fragmentOf("links", { address: text(row, "identity") })}>{number(row, name)}</a>;
}

/** One row for each address of the mesh, from the rows of its routers. */
export function merged(addresses: readonly Answer[], links: readonly Answer[]): Row[] {
  const rows = new Map<string, (Row & { router: string })[]>();
  for (const { router, now, before } of addresses) {
    if (!now) continue;
    for (const row of withRates(now, before, COUNTERS)) {
      const key = text(row, "key");
      rows.set(key, [...(rows.get(key) ?? []), { ...row, router }]);
    }
  }
  const attached = Map.groupBy(links.flatMap((answer) => answer.now?.rows ?? []), (row) => text(row, "owningAddr"));
  return [...rows].map(([key, parts]) => addressRow(key, parts, attached.get(key) ?? []));
}

function addressRow(key: string, parts: readonly (Row & { router: string })[], links: readonly Row[]): Row {
  const producers = links.filter((row) => row["linkDir"] === "in");
  const consumers = links.filter((row) => row["linkDir"] === "out");
  const figures = {
    producers: producers.length,
    consumers: consumers.length,
    credit: sum(consumers, "creditAvailable") ?? 0,
    undelivered: sum(links, "undeliveredCount") ?? 0,
    unsettled: sum(links, "unsettledCount") ?? 0,
    atConsumers: sum(consumers, "unsettledCount") ?? 0,
  };
  const inside = sum(parts, "inProcess") ?? 0;
  const counters = [...COUNTERS, "expiredDeliveries", "deliveriesRedirectedToFallback"].flatMap((name) => [name, `${name}/s`]);
  return {
    identity: key,
    address: addressOf(key),
    distribution: text(parts[0], "distribution"),
    routers: parts.map((part) => part.router).join(", "),
    ...figures,
    why: inside ? "" : why(figures),
    ...Object.fromEntries(counters.map((name) => [name, sum(parts, name)])),
  };
}

/** Why messages of an address wait, or producers get no credit. */
export function why(figures: { producers: number; consumers: number; credit: number; unsettled: number; atConsumers: number }): string {
  if (figures.producers && !figures.consumers) return "no consumer";
  if (!figures.consumers || figures.credit) return "";
  if (figures.atConsumers) return "consumers do not settle what they have";
  return figures.unsettled ? "consumers grant no credit" : "";
}

export function Addresses({ place, go }: PageProps) {
  const scope = place.given["router"] ?? "";
  const addresses = useLive(ADDRESSES, scope);
  const links = useLive(LINKS, scope);
  return (
    <>
      <p><a href={fragmentOf("entities", { type: "router.config.address", create: "yes" })}>Configure an address…</a></p>
      <Freshness answers={addresses} />
      <TooMany full={addresses.some((answer) => answer.now?.rows.length === MOST)} />
      <TableOf rows={merged(addresses, links)} columns={COLUMNS} place={place} go={go} name="addresses"
        first={{ column: "address", descending: false }} open={(row) => <Details row={row} />} />
    </>
  );
}
