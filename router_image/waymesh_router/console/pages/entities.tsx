// Entities of each type, with forms made from the schema: create, update, delete.
import { useContext, useEffect, useState } from "preact/hooks";
import { Mesh, useLive } from "../amqp/live.ts";
import { agentOf } from "../amqp/session.ts";
import type { Query } from "../amqp/management.ts";
import { columnsOf, ownerOf, typesOf, type EntityType } from "../model/schema.ts";
import { text, type Row } from "../model/values.ts";
import { Action, outcome } from "../parts/confirm.tsx";
import type { PageProps } from "../parts/console.tsx";
import { EntityForm } from "../parts/form.tsx";
import { Details, Freshness, rowsOfAll, TableOf, type Column } from "../parts/table.tsx";
import { MOST, TooMany } from "./links.tsx";

export function Entities({ place, go }: PageProps) {
  const { types, error } = useTypes(place.given["router"] ?? "");
  const chosen = types.find((one) => one.name === (place.given["type"] ?? "listener")) ?? types[0];
  if (error) return <p class="bad">{error}</p>;
  if (!chosen) return <p>Reading the schema…</p>;
  return (
    <>
      <p>
        <label>Type{" "}
          <select value={chosen.name} onChange={(event) => go({ type: event.currentTarget.value, row: "", sort: "", create: "" })}>
            {types.map((one) => <option value={one.name}>{one.name}</option>)}
          </select>
        </label>
      </p>
      <p class="hint">{chosen.description}</p>
      <OfType key={chosen.name} type={chosen} place={place} go={go} />
    </>
  );
}

function useTypes(router: string): { types: readonly EntityType[]; error: string } {
  const session = useContext(Mesh);
  const [known, setKnown] = useState<{ types: readonly EntityType[]; error: string }>({ types: [], error: "" });
  useEffect(() => {
    const { state } = session;
    if (state.kind !== "open") return;
    state.management.request(router ? agentOf(state, router) : "", "GET-SCHEMA")
      .then((body) => setKnown({ types: typesOf(body), error: "" }), (error: unknown) => setKnown({ types: [], error: outcome(error) }));
  }, [session, session.state, router]);
  return known;
}

function OfType({ type, place, go }: PageProps & { type: EntityType }) {
  const session = useContext(Mesh);
  const scope = place.given["router"] ?? "";
  const query: Query = { type: type.long, attributes: [], count: MOST };
  const answers = useLive(query, scope);
  const rows = rowsOfAll(answers, ({ now }) => now?.rows ?? []);
  const columns: readonly Column[] = [...columnsOf(type).map((name) => ({ name, title: name })), { name: "router", title: "router" }];
  const creates = type.operations.includes("CREATE");
  const creating = creates && place.given["create"] === "yes";
  const here = scope ? [scope] : session.routers.filter((router) => !session.gone.has(router));
  return (
    <>
      <Freshness answers={answers} />
      <TooMany full={answers.some((answer) => answer.now?.rows.length === MOST)} />
      {creates ? <button aria-expanded={creating} onClick={() => go({ create: creating ? "" : "yes" })}>{creating ? "Close the form" : `New ${type.name}`}</button> : null}
      {creating
        ? <EntityForm type={type} row={null} routers={here}
          send={(management, router, attributes) => management.request(router, "CREATE", { type: type.long, name: text(attributes, "name") }, attributes)} />
        : null}
      <TableOf rows={rows} columns={columns} place={place} go={go} name={type.name} open={(row) => <Entity type={type} row={row} />} />
    </>
  );
}

function Entity({ type, row }: { type: EntityType; row: Row }) {
  const router = text(row, "router");
  const identity = text(row, "identity");
  const owner = ownerOf(text(row, "name"));
  const [editing, setEditing] = useState(false);
  const updates = type.operations.includes("UPDATE") && type.attributes.some((one) => one.update);
  return (
    <>
      {owner ? <p>The operator owns this entity and restores it: change {owner} instead.</p> : null}
      <p class="actions">
        {updates ? <button aria-expanded={editing} onClick={() => setEditing(!editing)}>{editing ? "Close the form" : "Edit"}</button> : null}{" "}
        {type.operations.includes("DELETE")
          ? <Action label="Delete" danger router={router} what={`Delete ${type.name} ${text(row, "name") || identity} of router ${router}?`}
            run={(management, at) => management.request(at, "DELETE", { type: type.long, identity })} />
          : null}
        {updates || type.operations.includes("DELETE") ? null : <span class="hint">Entities of this type can only be read.</span>}
      </p>
      {editing
        ? <EntityForm type={type} row={row} routers={[router]}
          send={(management, at, attributes) => management.request(at, "UPDATE", { type: type.long, identity }, attributes)} />
        : null}
      <Details row={row} />
    </>
  );
}
