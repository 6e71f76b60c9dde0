import assert from "node:assert/strict";
import { test } from "node:test";
import { configuredFaults, routerFaults } from "../model/health.ts";
import { fragmentOf, placeOf } from "../model/place.ts";
import { rate, sum, withRates } from "../model/rates.ts";
import { csv, csvCell, found, ordered } from "../model/rows.ts";
import { addressOf, bytes, duration, perSecond, shown } from "../model/values.ts";
import { all, quoted } from "../model/where.ts";

test("values are shown as a reader expects them", () => {
  assert.deepEqual([shown(1234567), shown(1.25), shown(true), shown(null), shown(["a", 1]), shown({ a: 1 })], ["1,234,567", "1.3", "yes", "", "a, 1", '{"a":1}']);
  assert.deepEqual([bytes(0), bytes(1023), bytes(1536), bytes(3 * 2 ** 30)], ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
  assert.deepEqual([duration(0.4), duration(61), duration(3660), duration(90000)], ["0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
  assert.deepEqual([perSecond(null), perSecond(0), perSecond(1.26), perSecond(1234.4)], ["–", "0", "1.3", "1,234"]);
  assert.deepEqual([addressOf("M0orders"), addressOf("Lnode"), addressOf("")], ["orders", "node", ""]);
});

test("a rate needs two readings, and a counter that began anew counts from 0", () => {
  const row = { identity: "1", count: 30 };
  assert.equal(rate(row, undefined, 2, "count"), null);
  assert.equal(rate(row, { count: 10 }, 2, "count"), 10);
  assert.equal(rate(row, { count: 90 }, 2, "count"), 15);
  const now = { at: 4000, rows: [row, { identity: "2", count: 5 }] };
  const rates = withRates(now, { at: 2000, rows: [{ identity: "1", count: 0 }] }, ["count"]);
  assert.deepEqual(rates.map((one) => one["count/s"]), [15, null]);
  assert.equal(sum(rates, "count/s"), 15);
  assert.equal(sum(rates, "other"), null);
});

test("rows are found by all words in any column, and ordered with absent values last", () => {
  const rows = [{ a: "Orders 10", b: 2 }, { a: "orders 9", b: null }, { a: "news", b: 10 }];
  assert.deepEqual(found(rows, ["a", "b"], "ORDERS 9").map((row) => row.a), ["orders 9"]);
  assert.equal(found(rows, ["a"], " "), rows);
  assert.deepEqual(ordered(rows, { column: "b", descending: true }).map((row) => row.b), [10, 2, null]);
  assert.deepEqual(ordered(rows, { column: "b", descending: false }).map((row) => row.b), [2, 10, null]);
  assert.deepEqual(ordered(rows, { column: "a", descending: false }).map((row) => row.a), ["news", "orders 9", "Orders 10"]);
});

test("no cell of a CSV file is a formula", () => {
  for (const start of ["=", "+", "-", "@", "\t", "\r"]) assert.match(csvCell(`${start}1+cmd`), /^"?'/);
  assert.deepEqual([csvCell("-5"), csvCell("-5.5"), csvCell('a"b,c'), csvCell("plain")], ["-5", "-5.5", '"a""b,c"', "plain"]);
  const columns = [{ name: "a", title: "A" }, { name: "b", title: "=B" }];
  assert.equal(csv([{ a: "=x", b: 1234 }], columns), "A,'=B\r\n'=x,1234\r\n");
});

test("a place is what its fragment says", () => {
  const given = { search: "a&b=c #?/", router: "", row: "A:1" };
  assert.deepEqual(placeOf(fragmentOf("links", given)), { page: "links", given: { search: "a&b=c #?/", row: "A:1" } });
  assert.deepEqual(placeOf(""), { page: "overview", given: {} });
});

test("names in conditions stay texts", () => {
  assert.equal(quoted("it's ' OR 1=1"), "'it''s '' OR 1=1'");
  assert.deepEqual([all(), all("", "a = 1"), all("a = 1", undefined, "b = 2 OR c = 3")], ["", "a = 1", "(a = 1) AND (b = 2 OR c = 3)"]);
});

test("a healthy router has no faults; each fault leads to the rows that make it", () => {
  const well = { deliveriesStuck: 0, linksBlocked: 0, linksHeld: 0, memoryState: "normal", drainStatus: "none" };
  assert.deepEqual(routerFaults("A", well), []);
  const ill = { deliveriesStuck: 1200, linksBlocked: 1, linksHeld: 2, memoryState: "full", drainStatus: "draining" };
  const faults = routerFaults("A", ill);
  assert.deepEqual(faults.map((fault) => fault.severity), ["bad", "bad", "bad", "warning", "warning"]);
  assert.match(faults[0]?.what ?? "", /1,200/);
  assert.equal(faults[0]?.href, "#/links?show=stuck");
  assert.equal(routerFaults("A", { memoryState: "high" })[0]?.severity, "warning");
});

test("what the configuration names and does not work says why", () => {
  const autolink = { name: "q", address: "orders", operStatus: "failed", lastError: "amqp:not-found" };
  const connector = { name: "b", host: "broker", port: "amqp", connectionMsg: "refused" };
  const texts = configuredFaults("A", [autolink], [connector]).map((fault) => fault.what);
  assert.deepEqual(texts, ["autolink q (orders) is failed: amqp:not-found", "connector b to broker:amqp is not connected: refused"]);
});

test("a connector that is not connected leads to what the log says of it", () => {
  const [fault] = configuredFaults("A", [], [{ name: "store", host: "broker", port: "5672", connectionMsg: "refused" }]);
  assert.equal(fault?.href, "#/log?router=A&search=store");
});
