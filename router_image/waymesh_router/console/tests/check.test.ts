import { equal, deepEqual } from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, verdictOf } from "../model/check.ts";

test("empty fields are not sent, except what is needed", () => {
  deepEqual(bodyOf({ user: "", host: " 10.0.0.1 ", direction: "" }), { host: "10.0.0.1", address: "", direction: "in" });
});

test("a vhost that begins with $ is that of a listener; groups are a list", () => {
  deepEqual(bodyOf({ user: "ann", host: "::1", hostname: "$management", tokenGroups: "a, b,", address: "x", direction: "out" }), {
    user: "ann", policyVhost: "$management", tokenGroups: ["a", "b"], host: "::1", address: "x", direction: "out",
  });
  equal(bodyOf({ hostname: "example.com" })["hostname"], "example.com");
});

test("an answer that is none allows nothing", () => {
  deepEqual(verdictOf({ allowed: true, reasons: ["a"] }), { allowed: true, reasons: ["a"] });
  deepEqual(verdictOf(null), { allowed: false, reasons: [] });
  deepEqual(verdictOf({ allowed: "yes", reasons: "x" }), { allowed: false, reasons: [] });
});
