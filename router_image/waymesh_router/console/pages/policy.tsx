// Policy: what was denied, by router, vhost and user group; the dry run; what would be allowed.
import { useLive } from "../amqp/live.ts";
import type { Management, Query } from "../amqp/management.ts";
import { fragmentOf } from "../model/place.ts";
import { text, type Row } from "../model/values.ts";
import { Action } from "../parts/confirm.tsx";
import type { PageProps } from "../parts/console.tsx";
import { PolicyCheck } from "../parts/policy_check.tsx";
import { Details, Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";

const PREFIX = "org.apache.qpid.dispatch.";
const DENIED = ["sessionDenied", "senderDenied", "receiverDenied", "maxMessageSizeDenied"];
const OF_DENIED: readonly Column[] = [
  { name: "sessionDenied", title: "Sessions", kind: "number" },
  { name: "senderDenied", title: "Senders", kind: "number" },
  { name: "receiverDenied", title: "Receivers", kind: "number" },
  { name: "maxMessageSizeDenied", title: "Too large", kind: "number", hint: "Transfers refused for their size" },
];
const ROUTER: Column = { name: "router", title: "Router" };

const POLICY: Query = {
  type: `${PREFIX}policy`,
  attributes: ["identity", "enableVhostPolicy", "dryRun", "connectionsCurrent", "connectionsDenied", "linksDenied", "maxMessageSizeDenied", "totalDenials", "dryRunDenials"],
};
const POLICY_COLUMNS: readonly Column[] = [
  ROUTER,
  { name: "enableVhostPolicy", title: "Vhosts checked" },
  { name: "dryRun", title: "Dry run", hint: "Denials are counted and logged, but not enforced" },
  { name: "connectionsCurrent", title: "Clients", kind: "number" },
  { name: "connectionsDenied", title: "Connections denied", kind: "number" },
  { name: "linksDenied", title: "Links denied", kind: "number" },
  { name: "totalDenials", title: "All denials", kind: "number" },
  { name: "dryRunDenials", title: "Would be denied", kind: "number" },
];
const VHOSTS: Query = { type: `${PREFIX}vhostStats`, attributes: ["identity", "hostname", "connectionsApproved", "connectionsCurrent", "connectionsDenied", ...DENIED, "dryRunDenials"] };
const VHOST_COLUMNS: readonly Column[] = [
  { name: "hostname", title: "Vhost" },
  { name: "connectionsCurrent", title: "Clients", kind: "number" },
  { name: "connectionsApproved", title: "Accepted", kind: "number" },
  { name: "connectionsDenied", title: "Denied", kind: "number" },
  ...OF_DENIED,
  { name: "dryRunDenials", title: "Would be denied", kind: "number" },
  ROUTER,
];
const GROUPS: Query = { type: `${PREFIX}vhostUserGroupStats`, attributes: ["identity", "hostname", "groupName", "linksDenied", "messagesDenied", ...DENIED] };
const GROUP_COLUMNS: readonly Column[] = [
  { name: "hostname", title: "Vhost" },
  { name: "groupName", title: "User group" },
  { name: "linksDenied", title: "Links", kind: "number" },
  { name: "messagesDenied", title: "Messages", kind: "number" },
  ...OF_DENIED,
  ROUTER,
];

export function Policy({ place, go }: PageProps) {
  const scope = place.given["router"] ?? "";
  const policy = useLive(POLICY, scope);
  const vhosts = useLive(VHOSTS, scope);
  const groups = useLive(GROUPS, scope);
  const rows = (answers: typeof policy): Row[] => rowsOfAll(answers, ({ now }) => now?.rows ?? []);
  return (
    <>
      <Freshness answers={policy} />
      <p><a href={fragmentOf("log", { ...(scope ? { router: scope } : {}), search: "POLICY deny" })}>Who was denied what: the log</a></p>
      <TableOf rows={rows(policy)} columns={POLICY_COLUMNS} place={place} go={go} name="policy" open={(row) => <OfRouter row={row} />} />
      <PolicyCheck place={place} go={go} />
      <h2>Vhosts</h2>
      <TableOf rows={rows(vhosts)} columns={VHOST_COLUMNS} place={place} go={go} name="vhosts" open={(row) => <Details row={row} />} />
      <h2>User groups</h2>
      <TableOf rows={rows(groups)} columns={GROUP_COLUMNS} place={place} go={go} name="user groups" open={(row) => <Details row={row} />} />
    </>
  );
}

function OfRouter({ row }: { row: Row }) {
  const router = text(row, "router");
  const dry = row["dryRun"] === true;
  const run = (management: Management, at: string): Promise<unknown> =>
    management.request(at, "UPDATE", { type: POLICY.type, identity: text(row, "identity") }, { dryRun: !dry });
  return (
    <>
      <p class="actions">
        <Action label={dry ? "Enforce policy" : "Dry run"} danger={!dry} router={router} run={run}
          what={dry ? `Deny again on router ${router}?` : `Deny nothing on router ${router}? Denials are only counted and logged: this gives no protection.`} />
      </p>
      <Details row={row} />
    </>
  );
}
