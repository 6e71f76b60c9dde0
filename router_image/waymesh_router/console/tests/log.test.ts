import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { eventOf, groupsOf, type Event, type Line } from "../model/log.ts";

function line(text: string): Line {
  return { at: 1, module: "ROUTER_CORE", level: "info", text };
}

test("a line of a link has its connection, link and address", () => {
  const event = eventOf(line("[C7][L12] Link attached: dir=in name=x address=M0orders [event=link.attached user=ann host=127.0.0.1:5 listener=web]"));
  deepEqual(event, {
    at: 1, kind: "link.attached", text: "[C7][L12] Link attached: dir=in name=x address=M0orders",
    user: "ann", host: "127.0.0.1:5", connection: "7", link: "12", address: "orders",
  });
});

test("values in quotes are those of JSON", () => {
  const event = eventOf(line('request refused [event=policy.denied user="a \\"b\\" \\u005bc]" host=[::1]:5]'));
  equal(event?.user, 'a "b" [c]');
  equal(event?.host, "[::1]:5");
});

test("an event without a peer", () => {
  equal(eventOf(line("draining [event=drain.started]"))?.kind, "drain.started");
});

test("lines without an event, or with one that is not at the end, have none", () => {
  for (const text of ["Router A started", "[event=x user=y] later", "a [event=", "a [event\\x3dlink.attached]"]) equal(eventOf(line(text)), null);
});

test("groups are those of the events and the chosen one", () => {
  const event = eventOf(line("x [event=link.lost]")) as Event;
  deepEqual(groupsOf([event, event], "policy"), ["link", "policy"]);
});
