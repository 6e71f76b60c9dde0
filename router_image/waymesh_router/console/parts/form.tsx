// A form for the attributes of an entity, made from the schema.
import { useContext, useState } from "preact/hooks";
import { Mesh } from "../amqp/live.ts";
import { agentOf } from "../amqp/session.ts";
import type { Management } from "../amqp/management.ts";
import { changesOf, fieldsOf, textOf, type Attribute, type EntityType } from "../model/schema.ts";
import type { Row, Value } from "../model/values.ts";
import { Action, outcome } from "./confirm.tsx";

export function EntityForm({ type, row, routers, send }: {
  type: EntityType;
  /** The entity; null to create one. */
  row: Row | null;
  /** Where it is changed or created. */
  routers: readonly string[];
  send: (management: Management, router: string, attributes: Record<string, Value>) => Promise<unknown>;
}) {
  const session = useContext(Mesh);
  const fields = fieldsOf(type, row === null);
  const before = row ?? {};
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [wrong, setWrong] = useState("");
  const verb = row === null ? "Create" : "Update";
  const changed = (): Record<string, Value> | null => {
    try {
      setWrong("");
      return changesOf(fields, texts, before);
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
      return null;
    }
  };
  const run = async (management: Management, router: string): Promise<void> => {
    const attributes = changed();
    if (attributes === null) throw new Error("The form has an error.");
    await send(management, router, attributes);
    setTexts({});
  };
  /** On each router, whatever others answer. */
  const everywhere = async (management: Management): Promise<void> => {
    const attributes = changed();
    const { state } = session;
    if (attributes === null || state.kind !== "open") throw new Error(attributes ? "No connection." : "The form has an error.");
    const answers = await Promise.all(routers.map((router) => send(management, agentOf(state, router), attributes)
      .then(() => "", (error: unknown) => `${router}: ${outcome(error)}`)));
    const failed = answers.filter(Boolean);
    if (failed.length) throw new Error(`${routers.length - failed.length} of ${routers.length} routers did it. ${failed.join("; ")}`);
    setTexts({});
  };
  const names = Object.keys(texts).filter((name) => texts[name] !== textOf(before[name]));
  return (
    <form class="form" aria-label={`${verb} ${type.name}`} onSubmit={(event) => event.preventDefault()}>
      {fields.map((field) => (
        <Field field={field} value={texts[field.name] ?? textOf(before[field.name])}
          change={(value) => setTexts({ ...texts, [field.name]: value })} />
      ))}
      {wrong ? <p class="bad" role="alert">{wrong}</p> : null}
      <p class="actions">
        {routers.length > 1
          ? <Action label={`${verb} on all`} router="" run={everywhere}
            what={`${verb} this ${type.name} on ${routers.length} routers${names.length ? ` (${names.join(", ")})` : ""}?`} />
          : null}
        {routers.map((router) => (
          <Action label={routers.length > 1 ? `${verb} on ${router}` : verb} router={router} run={run}
            what={`${verb} this ${type.name} on router ${router}${names.length ? ` (${names.join(", ")})` : ""}?`} />
        ))}
      </p>
    </form>
  );
}

function Field({ field, value, change }: { field: Attribute; value: string; change: (value: string) => void }) {
  const choices = field.type === "boolean" ? ["yes", "no"] : field.values;
  const preset = textOf(field.default);
  const hint = `${field.description}${preset ? ` Default: ${preset}.` : ""}`;
  const title = `${field.name}${field.required ? " (required)" : ""}`;
  return (
    <label>
      {title}
      {choices.length
        ? <select name={field.name} value={value} onChange={(event) => change(event.currentTarget.value)}>
          <option value="">{preset ? `default (${preset})` : "not set"}</option>
          {choices.map((choice) => <option value={choice}>{choice}</option>)}
        </select>
        : field.type === "map" || field.type === "list"
          ? <textarea name={field.name} value={value} placeholder="JSON" onInput={(event) => change(event.currentTarget.value)} />
          : field.hidden
            ? <input type="password" autocomplete="new-password" name={field.name} value={value} onInput={(event) => change(event.currentTarget.value)} />
            : <input name={field.name} value={value} placeholder={preset} autocomplete="off"
              inputMode={field.type === "integer" ? "numeric" : "text"} onInput={(event) => change(event.currentTarget.value)} />}
      <span class="hint">{hint}</span>
    </label>
  );
}
