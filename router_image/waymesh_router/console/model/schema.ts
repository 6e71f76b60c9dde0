// The entity types that a router has, from GET-SCHEMA, and forms for their attributes.
import { shown, type Row, type Value } from "./values.ts";

export interface Attribute {
  readonly name: string;
  readonly type: string;
  readonly values: readonly string[];
  readonly description: string;
  readonly required: boolean;
  readonly create: boolean;
  readonly update: boolean;
  readonly hidden: boolean;
  readonly default: Value;
}

export interface EntityType {
  readonly name: string;
  readonly long: string;
  readonly description: string;
  readonly operations: readonly string[];
  readonly attributes: readonly Attribute[];
}

const ALWAYS = ["name", "identity", "type"];

/** The types with entities of their own, by name. */
export function typesOf(body: unknown): readonly EntityType[] {
  const { entityTypes } = body as { entityTypes: Record<string, Record<string, unknown>> };
  return Object.entries(entityTypes)
    .map(([name, type]) => typeOf(name, type))
    .filter((type) => type.operations.includes("READ"))
    .sort((left, right) => left.name.localeCompare(right.name));
}

function typeOf(name: string, given: Record<string, unknown>): EntityType {
  const attributes = Object.entries((given["attributes"] ?? {}) as Record<string, Record<string, unknown>>);
  return {
    name,
    long: String(given["fullyQualifiedType"] ?? name),
    description: String(given["description"] ?? ""),
    operations: ((given["operations"] ?? []) as unknown[]).map(String),
    attributes: attributes.filter(([, one]) => !one["deprecated"] && !one["deprecationName"]).map(([key, one]) => attributeOf(key, one)),
  };
}

function attributeOf(name: string, given: Record<string, unknown>): Attribute {
  const kind = given["type"];
  return {
    name,
    type: Array.isArray(kind) ? "choice" : String(kind),
    values: Array.isArray(kind) ? kind.map(String) : [],
    description: String(given["description"] ?? ""),
    required: given["required"] === true,
    create: given["create"] === true || name === "name",
    update: given["update"] === true,
    hidden: given["hidden"] === true,
    default: (given["default"] ?? null) as Value,
  };
}

/** The attributes of a table: what one looks for first; at most `most`. */
export function columnsOf(type: EntityType, most = 7): readonly string[] {
  const rest = type.attributes.filter((one) => !ALWAYS.includes(one.name));
  const first = rest.filter((one) => one.required);
  const then = rest.filter((one) => !one.required && !["map", "list"].includes(one.type));
  return ["identity", ...(type.attributes.some((one) => one.name === "name") ? ["name"] : []), ...[...first, ...then].map((one) => one.name)].slice(0, most);
}

/** The attributes of a form. */
export function fieldsOf(type: EntityType, creating: boolean): readonly Attribute[] {
  const some = type.attributes.filter((one) => !["identity", "type"].includes(one.name) && (creating ? one.create : one.update));
  return [...some].sort((left, right) => rank(left) - rank(right));
}

function rank(attribute: Attribute): number {
  return attribute.name === "name" ? 0 : attribute.required ? 1 : 2;
}

/** A value as the text of its field. */
export function textOf(value: Value | undefined): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : typeof value === "boolean" ? shown(value) : String(value);
}

/** What to send: the fields whose texts differ from those of `before`; an emptied one as null. Raises Error. */
export function changesOf(fields: readonly Attribute[], texts: Readonly<Record<string, string>>, before: Row): Record<string, Value> {
  const found: Record<string, Value> = {};
  for (const field of fields) {
    const given = texts[field.name];
    if (given === undefined || given === textOf(before[field.name])) continue;
    found[field.name] = given === "" ? null : valueOf(field, given);
  }
  return found;
}

function valueOf(field: Attribute, given: string): Value {
  if (field.type === "boolean") return given === "yes";
  if (field.type === "integer") {
    const value = Number(given);
    if (!Number.isSafeInteger(value)) throw new Error(`${field.name}: not a whole number`);
    return value;
  }
  if (field.type !== "map" && field.type !== "list") return given;
  try {
    return JSON.parse(given) as Value;
  } catch {
    throw new Error(`${field.name}: not JSON`);
  }
}

/** The resource whose entity this is, as `Address news in namespace default`; "" if no operator owns it. */
export function ownerOf(name: string): string {
  const [mark, namespace, kind, ...rest] = name.split("/");
  return mark === "k8s" && namespace && kind && rest.length ? `${kind} ${rest.join("/")} in namespace ${namespace}` : "";
}
