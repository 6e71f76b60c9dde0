import assert from "node:assert/strict";
import { test } from "node:test";
import { flowOf } from "../model/flow.ts";
import type { Row } from "../model/values.ts";

const at = (deliveriesIngress: number, deliveriesEgress: number, key = "M0orders"): Row => ({ key, deliveriesIngress, deliveriesEgress });
const short = (rows: readonly Row[]): unknown[] => rows.map((row) => [row["address"], row["from"], row["to"], row["count"]]);

test("only what came since the first reading counts, and a router that began anew counts from 0", () => {
  const counted = [
    { router: "A", first: [at(10, 0)], now: [at(15, 0)] },
    { router: "B", first: [at(0, 10)], now: [at(0, 5)] },
  ];
  assert.deepEqual(short(flowOf(counted)), [["orders", "A", "B", 5]]);
  assert.deepEqual(flowOf(counted.map((one) => ({ ...one, first: one.now }))), []);
});

test("pairs are told where one side is one router", () => {
  const fan = [{ router: "A", first: [], now: [at(9, 0)] }, { router: "B", first: [], now: [at(0, 4)] }, { router: "C", first: [], now: [at(0, 5)] }];
  assert.deepEqual(short(flowOf(fan)), [["orders", "A", "B", 4], ["orders", "A", "C", 5]]);
  const merge = [{ router: "A", first: [], now: [at(1, 0)] }, { router: "B", first: [], now: [at(2, 0)] }, { router: "C", first: [], now: [at(0, 3)] }];
  assert.deepEqual(short(flowOf(merge)), [["orders", "A", "C", 1], ["orders", "B", "C", 2]]);
});

test("nothing is guessed where several routers are on both sides, and what was not taken has no second side", () => {
  const both = [{ router: "A", first: [], now: [at(2, 1)] }, { router: "B", first: [], now: [at(3, 4)] }];
  assert.deepEqual(short(flowOf(both)), [["orders", "A, B", "A, B", 5]]);
  assert.deepEqual(short(flowOf([{ router: "A", first: [], now: [at(2, 0)] }])), [["orders", "A", "", 2]]);
});
