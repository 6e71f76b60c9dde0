"""Telemetry records of routers: every number equals what was sent."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, Broker, Party
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.states import OPENED


def telemetry(one_in: int = 1, more: str = "") -> str:
    return f"telemetry {{\npath: /spool\nintervalSeconds: 10\nsampleOneIn: {one_in}\n{more}}}\n"


def line(names: str, one_in: int = 1, more: str = "") -> Network:
    """Routers in a row, each with telemetry."""
    network = Network()
    for name in names:
        network.router(name, telemetry(one_in, more))
    for one, other in itertools.pairwise(names):
        network.cable(one, other)
    network.start()
    network.until(lambda: not faults(network), 2.0)
    return network


def rows(router: SimRouter, kind: str, **wanted: Any) -> list[dict[str, Any]]:
    if router.router.collector is not None:
        router.router.collector.record_samples()
    return [row for row in router.records.rows[kind] if wanted.items() <= row.items()]


class Pair:
    """A sender at the first router, a receiver at the last."""

    def __init__(self, network: Network, address: str = "orders", credit: int = 1000) -> None:
        self.network = network
        first, *_, last = (*network.routers.values(), *network.routers.values())
        self.near, self.far = Party(network, "near"), Party(network, "far")
        connections = [self.near.dial(first), self.far.dial(last)]
        network.until(lambda: all(conn.state == OPENED for conn in connections), 1.0)
        self.receiver = self.far.receiver(connections[1].open_session(), address, credit=credit)
        self.sender = self.near.sender(connections[0].open_session(), address)
        network.until(lambda: self.sender.link.credit > 0, 1.0)

    def send(self, count: int, state: bytes = ACCEPTED) -> None:
        """So many deliveries, each with that outcome."""
        done = len(self.receiver.got)
        for _ in range(count):
            self.near.send(self.sender, message(b"x"))
        self.network.until(lambda: len(self.receiver.got) == done + count, 5.0)
        for got in self.receiver.got[done:]:
            self.far.settle(got, state)
        self.network.until(lambda: len(self.sender.outcomes) == done + count, 5.0)


def test_every_delivery_is_a_sample_where_one_in_one_is_taken() -> None:
    network = line("ABC")
    pair = Pair(network)
    pair.send(7)
    pair.send(3, REJECTED)
    a, b, c = network.routers.values()
    ins, outs = rows(a, "delivery"), rows(c, "delivery")
    assert Counter((row["half"], row["outcome"]) for row in ins) == {("in", "accepted"): 7, ("in", "rejected"): 3}
    assert Counter((row["half"], row["outcome"]) for row in outs) == {("out", "accepted"): 7, ("out", "rejected"): 3}
    assert rows(b, "delivery") == []
    assert {row["sid"] for row in ins} == {row["sid"] for row in outs}
    assert len({row["sid"] for row in ins}) == 10
    assert {row["path"] for row in outs} == {"A|B|C"}
    assert {(row["ingress"], row["egress"], row["hops"], row["consumer"]) for row in outs} == {("A", "C", 2, "far")}
    assert {(row["address"], row["phase"], row["producer"], row["weight"]) for row in ins} == {("orders", 0, "near", 1)}
    assert all(row["settle_us"] >= 4000 for row in ins), "two cables of a millisecond, there and back"
    assert all(not got.data.startswith(b"x-opt") for got in pair.receiver.got)
    assert pair.receiver.got[0].data == message(b"x"), "the client sees nothing of it"


def test_sender_and_receiver_at_one_router() -> None:
    network = line("A")
    Pair(network).send(4)
    assert Counter(row["half"] for row in rows(network.routers["A"], "delivery")) == {"in": 4, "out": 4}


def test_what_waits_for_credit_shows_as_queueing() -> None:
    network = line("A")
    pair = Pair(network, credit=1)
    for _ in range(2):
        pair.near.send(pair.sender, message(b"x"))
    network.run(2.0)
    pair.far.settle(pair.receiver.got[0])
    network.until(lambda: len(pair.receiver.got) == 2, 1.0)
    pair.far.settle(pair.receiver.got[1])
    network.until(lambda: len(pair.sender.outcomes) == 2, 1.0)
    waits = [row["queue_us"] for row in rows(network.routers["A"], "delivery", half="in")]
    assert waits[0] < 1000
    assert 1.9e6 < waits[1] < 2.2e6


def test_samples_stand_for_all_deliveries() -> None:
    network = line("AB", one_in=10, more="samplesPerSecond: 1000000\n")
    pair = Pair(network)
    for _ in range(20):
        pair.send(100)
    found = rows(network.routers["B"], "delivery", half="out")
    assert {row["weight"] for row in found} == {10.0}
    assert 1500 < sum(row["weight"] for row in found) < 2500


def test_a_busy_router_takes_fewer_samples_that_stand_for_more() -> None:
    network = line("A", more="samplesPerSecond: 20\n")
    pair = Pair(network)
    for _ in range(40):
        pair.send(100)
        network.run(0.25)
    found = rows(network.routers["A"], "delivery", half="in")
    later = [row for row in found if row["weight"] > 1]
    assert len(later) < 400
    assert 0.6 < sum(row["weight"] for row in found) / 4000 < 1.4


@pytest.mark.parametrize("setting", ["path", "sampleOneIn"])
def test_what_is_under_way_when_sampling_ends_ends_well(setting: str) -> None:
    network = line("AB")
    pair = Pair(network)
    for _ in range(5):
        pair.near.send(pair.sender, message(b"x"))
    network.until(lambda: len(pair.receiver.got) == 5, 5.0)
    for router in network.routers.values():
        (attrs,) = router.router.agent.adapters["telemetry"].rows(router.world.now)
        router.router.configure_telemetry({**attrs, setting: "" if setting == "path" else 0})
    for got in pair.receiver.got:
        pair.far.settle(got, ACCEPTED)
    network.until(lambda: len(pair.sender.outcomes) == 5, 5.0)
    pair.send(5)
    assert not any(rows(router, "delivery") for router in network.routers.values())


def test_a_clock_that_is_set_changes_no_duration_and_stops_nothing() -> None:
    network = line("A")
    pair, records = Pair(network), network.routers["A"].records
    for hours in (0, -3, 30):
        records.ahead_us = hours * 3_600_000_000
        pair.send(5)
        network.run(20.0)
    found = rows(network.routers["A"], "delivery", half="in")
    assert len(found) == 15
    assert all(row["settle_us"] < 100_000 for row in found)
    for kind in ("delivery", "router"):
        ahead = [round((ts - mono) / 3.6e9) for ts, mono in records.stamps[kind]]
        assert [hours for hours, _ in itertools.groupby(ahead)] == [0, -3, 30]
    monos = [mono for _, mono in records.stamps["router"]]
    assert all(9e6 < later - one < 11e6 for one, later in itertools.pairwise(monos))


def test_links_and_connections_from_their_beginning_to_their_end() -> None:
    network = line("A")
    pair = Pair(network)
    pair.send(5)
    a = network.routers["A"]
    assert [row["event"] for row in rows(a, "connection", container="near")] == ["open"]
    (opened,) = rows(a, "link", event="attach", dir="in", address="orders")
    pair.sender.link.detach()
    pair.near.wake()
    network.run(0.1)
    (ended,) = rows(a, "link", event="detach", link_id=opened["link_id"])
    assert (ended["deliveries"], ended["accepted"], ended["container"]) == (5, 5, "near")
    network.run(10.0)
    assert rows(a, "connection", event="interval", container="near")
    (counted,) = rows(a, "address", address="orders")
    assert (counted["ingress"], counted["egress"], counted["subscribers"]) == (5, 5, 1)
    (router,) = rows(a, "router")
    assert (router["accepted"], router["ingress"], router["cpu_us"], router["records"]["link"]) == (5, 5, 1, 4)
    network.run(30.0)
    assert len(rows(a, "address", address="orders")) == 1, "what does not change is not recorded again"
    assert len(rows(a, "router")) == 4


def test_paths_are_recorded_when_they_change() -> None:
    network = line("ABC")
    a = network.routers["A"]
    assert {row["dest"] for row in rows(a, "node", gone=False)} == {"A", "B", "C"}
    last = rows(a, "node", dest="B")[-1]
    assert last["neighbours"] == {"A": 1, "C": 1}
    network.routers["C"].crash()
    network.run(5.0)
    assert rows(a, "node", dest="C", gone=True)
    assert rows(a, "event", event="topology.change")


def test_how_long_the_paths_took_to_settle_is_recorded_once_for_each_episode() -> None:
    network = line("ABC")
    a = network.routers["A"]
    network.run(6.0)
    first, *_ = rows(a, "event", event="topology.converged")
    assert first["detail"]["change_id"] == rows(a, "event", event="topology.change")[-1]["detail"]["change_id"]
    before = len(rows(a, "event", event="topology.converged"))
    network.routers["C"].crash()
    network.run(12.0)
    (settled,) = rows(a, "event", event="topology.converged")[before:]
    last = rows(a, "event", event="topology.change")[-1]
    assert settled["detail"]["change_id"] == last["detail"]["change_id"] == str(a.router.topology_changes)
    assert 0 <= int(settled["detail"]["duration_us"]) < 2_000_000
    assert settled["object"] == "A"


def test_connections_that_the_mesh_depends_on_are_events() -> None:
    network = line("AB")
    a = network.routers["A"]
    (up,) = rows(a, "event", event="connection.up")
    assert (up["object"], up["severity"], up["detail"]["role"]) == ("B", "info", "inter-router")
    Pair(network)
    network.routers["B"].crash()
    network.until(lambda: bool(rows(a, "event", event="connection.down")), 5.0)
    (down,) = rows(a, "event", event="connection.down")
    assert (down["object"], down["severity"]) == ("B", "warning")
    assert len(rows(a, "event", event="connection.up")) == 1, "a client's are records of connections alone"


def test_refusals_and_warnings_are_events() -> None:
    network = Network()
    a = network.router("A", telemetry() + "address {\nprefix: closed\ndistribution: unavailable\n}\n")
    network.start()
    party = Party(network, "client")
    connection = party.dial(a)
    network.until(lambda: connection.state == OPENED, 1.0)
    party.receiver(connection.open_session(), "closed")
    network.until(lambda: bool(rows(a, "event", event="link.refused")), 1.0)
    (refused,) = rows(a, "event", event="link.refused")
    assert (refused["severity"], refused["detail"]["condition"]) == ("warning", "amqp:not-found")
    assert not any(a.core.denied.values()), "that is no denial"
    a.log("SERVER", "warning", "something odd")
    (said,) = rows(a, "event", event="log.warning")
    assert (said["object"], said["severity"], said["detail"]) == ("SERVER", "warning", {"text": "something odd"})


def test_counters_of_an_address_go_on_when_it_comes_again() -> None:
    network = line("A")
    a = network.routers["A"]
    for round_ in (1, 2):
        pair = Pair(network)
        pair.send(5)
        for party in (pair.near, pair.far):
            party.drop()
        network.until(lambda: "M0orders" not in a.core.addresses, 1.0)
        (*_, last) = rows(a, "address", address="orders")
        assert (last["ingress"], last["egress"], last["subscribers"]) == (5 * round_, 5 * round_, 0)


def test_an_autolink_goes_through_its_states() -> None:
    network = Network()
    link = "autoLink {\nname: jobs\naddress: jobs\ndirection: in\nconnection: broker\n}\n"
    route = "linkRoute {\nname: all\nprefix: all\ndirection: in\nconnection: broker\n}\n"
    a = network.router("A", telemetry() + link + route)
    broker = Broker(network)
    broker.connector(a, "broker")
    network.start()
    network.until(lambda: len(broker.links) == 1, 2.0)
    network.run(0.1)
    steps = [(row["from"], row["to"]) for row in rows(a, "autolink", name="jobs")]
    assert steps[-2:] == [("inactive", "attaching"), ("attaching", "active")]
    broker.drop()
    network.until(lambda: bool(rows(a, "autolink", name="jobs", to="inactive", **{"from": "active"})), 1.0)
    steps = [(row["from"], row["to"]) for row in rows(a, "autolink", name="jobs")]
    assert ("active", "inactive") in steps
    routed = [(row["from"], row["to"]) for row in rows(a, "linkroute")]
    assert routed[:3] == [(None, "inactive"), ("inactive", "active"), ("active", "inactive")]


def test_a_burst_brings_not_many_more_samples_than_a_second_may() -> None:
    network = line("A", more="samplesPerSecond: 20\n")
    pair = Pair(network, credit=100_000)
    for _ in range(20):
        pair.send(100)
    found = rows(network.routers["A"], "delivery", half="in")
    assert len(found) < 250, "and not 2000"
    assert 0.5 < sum(row["weight"] for row in found) / 2000 < 1.5


def test_records_are_published_on_request_with_the_counters_of_now() -> None:
    network = line("A")
    Pair(network).send(4)
    router = network.routers["A"]
    assert (router.records.published, rows(router, "router")) == (0, []), "neither is due yet"
    assert router.router.collector is not None
    router.router.collector.publish()
    network.until(lambda: router.records.published == 1, 5.0)
    assert [row["ingress"] for row in rows(router, "router")] == [4]
    network.run(5.0)
    assert router.records.published == 1
