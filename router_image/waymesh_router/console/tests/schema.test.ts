// The entity types of a schema, and what a form sends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, columnsOf, fieldsOf, ownerOf, typesOf } from "../model/schema.ts";

const SCHEMA = {
  entityTypes: {
    entity: { operations: [], attributes: {} },
    address: {
      fullyQualifiedType: "long.address",
      operations: ["CREATE", "READ", "DELETE"],
      attributes: {
        identity: { type: "string" },
        name: { type: "string" },
        priority: { type: "integer", create: true, update: true },
        prefix: { type: "string", create: true, required: true },
        waypoint: { type: "boolean", create: true, default: false },
        distribution: { type: ["closest", "multicast"], create: true },
        sizes: { type: "map", create: true },
        old: { type: "string", create: true, deprecated: true },
        count: { type: "integer" },
      },
    },
  },
};
const [address] = typesOf(SCHEMA);
assert.ok(address);

test("types without entities and deprecated attributes are left out", () => {
  assert.equal(typesOf(SCHEMA).length, 1);
  assert.ok(!address.attributes.some((one) => one.name === "old"));
  assert.deepEqual(columnsOf(address, 4), ["identity", "name", "prefix", "priority"]);
});

test("a form has what can be set, required fields first", () => {
  assert.deepEqual(fieldsOf(address, true).map((one) => one.name), ["name", "prefix", "priority", "waypoint", "distribution", "sizes"]);
  assert.deepEqual(fieldsOf(address, false).map((one) => one.name), ["priority"]);
});

test("only changes are sent, with the types of the schema", () => {
  const fields = fieldsOf(address, true);
  const texts = { name: "a", prefix: "p", priority: "7", waypoint: "yes", sizes: '{"x": 1}', distribution: "" };
  const before = { prefix: "p", distribution: "closest" };
  assert.deepEqual(changesOf(fields, texts, before), { name: "a", priority: 7, waypoint: true, sizes: { x: 1 }, distribution: null });
  assert.throws(() => changesOf(fields, { priority: "x" }, {}), /not a whole number/);
  assert.throws(() => changesOf(fields, { sizes: "{" }, {}), /not JSON/);
});

test("entities of the operator name their resource", () => {
  assert.equal(ownerOf("k8s/shop/Address/news"), "Address news in namespace shop");
  assert.equal(ownerOf("k8s/x"), "");
  assert.equal(ownerOf("mine"), "");
});
