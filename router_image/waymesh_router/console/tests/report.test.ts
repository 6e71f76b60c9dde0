import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_FINDINGS, reportOf } from "../model/report.ts";

const page = "/report/Ab_-9";

test("a summary is read as the analytics job writes it", () => {
  const summary = {
    made: "2026-01-31T05:10:00Z", headline: "mesh: 3 routers", hours: { first: "2026-01-31T04", last: "2026-01-31T05" },
    findings: [{ kind: "ConsumersStuck", severity: "bad", table: "links", text: "Stuck: a", action: "Look.", cases: ["a"] }],
    tables: { links: 3 },
  };
  assert.deepEqual(reportOf({ page, summary }), {
    page, made: "2026-01-31 05:10 UTC", headline: summary.headline, first: "2026-01-31 04:00 UTC", last: "2026-01-31 05:00 UTC",
    findings: [{ severity: "bad", text: "Stuck: a", action: "Look." }],
  });
  assert.equal(reportOf({ reason: "there is none" }), "there is none");
});

test("of a summary of any other shape, nothing but text is taken, and not too much", () => {
  const none = { page, made: "", headline: "", first: "", last: "", findings: [] };
  for (const summary of [null, 1, "x", [], { findings: {}, hours: 1, made: {} }]) assert.deepEqual(reportOf({ page, summary }), none);
  const many = reportOf({ page, summary: { findings: Array(1000).fill({ severity: "<b>", text: "x".repeat(1e5), action: ["y"] }) } });
  assert.ok(typeof many !== "string");
  assert.equal(many.findings.length, MOST_FINDINGS);
  assert.deepEqual(many.findings[0], { severity: "warning", text: `${"x".repeat(2000)}…`, action: "" });
  for (const wrong of [undefined, "//evil.example/", "javascript:alert(1)", "/report/", "/console/", "/report/../x"]) {
    assert.throws(() => reportOf({ page: wrong, summary: {} }), TypeError);
  }
});
