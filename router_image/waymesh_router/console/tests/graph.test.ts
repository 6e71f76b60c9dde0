import assert from "node:assert/strict";
import { test } from "node:test";
import { graphOf, placed } from "../model/graph.ts";
import { linesOf } from "../model/log.ts";

const NODES = new Map([
  ["A", [{ id: "A", nextHop: "(self)", routerLink: null }, { id: "B", nextHop: null, routerLink: "1", cost: 7 }, { id: "C", nextHop: "B", routerLink: null, cost: 8 }]],
  ["B", [{ id: "A", nextHop: null, routerLink: "1", cost: 7 }, { id: "C", nextHop: null, routerLink: "2", cost: 1 }]],
]);
const CONNECTIONS = new Map([
  ["A", [{ role: "normal" }, { role: "normal" }, { role: "route-container", container: "artemis" }, { role: "inter-router", container: "B" }]],
  ["B", [{ role: "edge", container: "E" }]],
]);

test("pairs of routers have one edge with its cost; clients of a router are one leaf", () => {
  const { nodes, edges } = graphOf(["A", "B", "C"], NODES, CONNECTIONS);
  assert.deepEqual(nodes.map((node) => `${node.kind} ${node.label}`), ["interior A", "interior B", "interior C", "client 2 clients", "broker artemis", "edge E"]);
  assert.deepEqual(edges.map((edge) => [edge.source.id, edge.target.id, edge.cost]), [
    ["A", "B", 7], ["B", "C", 1], ["A", "clients of A", 0], ["A", "broker artemis", 0], ["B", "edge E", 0],
  ]);
});

test("neighbours have an edge also if the best path leads elsewhere; its cost is not known", () => {
  const nodes = new Map([
    ["A", [{ id: "B", nextHop: null, routerLink: "1", cost: 1 }, { id: "C", nextHop: "B", routerLink: "2", cost: 2 }]],
    ["B", [{ id: "A", nextHop: "C", routerLink: "1", cost: 3 }]],
  ]);
  const { edges } = graphOf(["A", "B", "C"], nodes, new Map());
  assert.deepEqual(edges.map((edge) => [edge.source.id, edge.target.id, edge.cost]), [["A", "B", 1], ["A", "C", 0]]);
});

test("places depend on names alone, and stay when a router comes", () => {
  const where = (routers: string[], known = new Map<string, { x: number; y: number }>()) => {
    const { nodes, edges } = graphOf(routers, NODES, CONNECTIONS);
    placed(nodes, edges, known);
    return new Map(nodes.map((node) => [node.id, { x: node.x ?? NaN, y: node.y ?? NaN }]));
  };
  const first = where(["A", "B"]);
  assert.deepEqual(where(["A", "B"]), first);
  const later = where(["A", "B", "C"], first);
  for (const [id, place] of first) assert.deepEqual(later.get(id), place);
  assert.ok(Number.isFinite(later.get("C")?.x));
});

test("lines of a log", () => {
  assert.deepEqual(linesOf([["SERVER", "info", "text", "f.py", 1, 12.5], "?"]), [{ module: "SERVER", level: "info", text: "text", at: 12.5 }]);
  assert.deepEqual(linesOf(null), []);
});
