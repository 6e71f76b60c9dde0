"""Edge routers with two uplinks, E0 – A – B – E0: what happens to traffic when an end of the uplink dies or drains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import proton
import pytest

from tests.interop.shared import fresh
from tests.interop.test_proton_drain import draining
from tests.kit.clients import Client
from tests.kit.edges import EdgeMesh
from tests.kit.mesh import wait_address
from tests.kit.outcomes import Sent
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]
WINDOW, CREDIT = 40, 20
"""Unsettled deliveries of a flow at a time, and how many of them its consumer has: the others wait on the way."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeMesh]:
    """Its tests start again what they kill."""
    with EdgeMesh(tmp_path_factory.mktemp("edges"), 2, [[0, 1], [0, 1]]) as mesh:
        yield mesh


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Flow:
    """Numbered messages from a producer at one router to a consumer at another, each sent once."""

    def __init__(
        self, stack: ExitStack, source: RouterProcess, target: RouterProcess, *, anonymous: bool = False
    ) -> None:
        self.address = fresh()
        self.receiver = stack.enter_context(Client(target.url)).receiver(self.address, CREDIT)
        client = stack.enter_context(Client(source.url))
        client.sender(self.address).wait_credit()
        self.sender = client.sender(None if anonymous else self.address)
        self.sent: list[Sent] = []
        self.arrived: list[int] = []
        self.times: list[float] = []

    def send(self, count: int) -> None:
        """Send as many as there is credit for, up to `count`."""
        numbers = range(len(self.sent), len(self.sent) + count)
        self.sent += self.sender.send_some([proton.Message(address=self.address, body=number) for number in numbers])

    def accept(self, count: int) -> None:
        """Accept what has arrived, up to `count`."""
        for _ in range(min(count, self.receiver.arrived.qsize())):
            received = self.receiver.next()
            self.arrived.append(received.body)
            self.times.append(time.monotonic())
            received.accept()
            self.receiver.flow(1)

    def move(self, kept: int = CREDIT // 2) -> None:
        """Send while there is room. The consumer always keeps some unsettled."""
        if not self.sender.client.ended.is_set():
            self.send(WINDOW - sum(not one.settled.is_set() for one in self.sent))
        if not self.receiver.client.ended.is_set():
            self.accept(self.receiver.arrived.qsize() - kept)

    def accepted(self) -> int:
        return sum(one.settled.is_set() and one.state == "accepted" for one in self.sent)

    def finished(self) -> bool:
        """Accept all, until each delivery has an outcome."""
        self.accept(CREDIT)
        return all(one.settled.is_set() for one in self.sent)

    def check_truth(self) -> Counter[str | None]:
        """What the producer was told is true. The number of each outcome, or of None."""
        by_state: dict[str | None, set[int]] = {"accepted": set(), "released": set(), "modified": set(), None: set()}
        for number, one in enumerate(self.sent):
            by_state[one.state].add(number)
        assert by_state["accepted"] <= set(self.arrived), "accepted and lost"
        assert not by_state["released"] & set(self.arrived), "released, though it had arrived"
        assert len(self.arrived) == len(set(self.arrived)), "arrived twice"
        return Counter(one.state for one in self.sent)

    def check(self) -> Counter[str | None]:
        """Each delivery has an outcome and it is true, and no link was lost. The number of each outcome."""
        counts = self.check_truth()
        assert None not in counts
        for link in (self.sender, self.receiver):
            assert not link.detached.is_set(), link.error
            assert not link.client.ended.is_set(), link.client.error
        return counts


def move(flows: list[Flow], count: int) -> None:
    """Until each flow has `count` more accepted deliveries."""
    goals = [(flow, flow.accepted() + count) for flow in flows]

    def reached() -> bool:
        for flow in flows:
            flow.move()
        return all(flow.accepted() >= goal for flow, goal in goals)

    wait_until(reached, 60.0, lambda: f"{[Counter(one.state for one in flow.sent) for flow in flows]}")


def finish(flows: list[Flow]) -> list[Counter[str | None]]:
    """The outcomes of each flow, checked."""
    wait_until(lambda: all(flow.finished() for flow in flows), 60.0, "outcomes")
    return [flow.check() for flow in flows]


def in_use(interior: RouterProcess, edge: RouterProcess) -> bool:
    """Whether the connection of an edge router is its uplink, as its interior router says."""
    with ManagementClient(interior.url) as client:
        rows = client.query("connection", ["container", "active"])
    return [bool(row["active"]) for row in rows if row["container"] == edge.name] == [True]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_no_message_is_lost_with_the_active_uplink(mesh: EdgeMesh, stack: ExitStack, how: str) -> None:
    """In all directions, in the middle of traffic, with deliveries that consumers have and have not settled."""
    edge, far = mesh.edges
    first = mesh.wait_active(edge)
    dying, other = sorted(mesh.interiors, key=lambda router: router.name != first)
    ends = [(edge, other), (other, edge), (edge, far), (far, edge)]
    flows = [*(Flow(stack, *pair) for pair in ends), Flow(stack, edge, other, anonymous=True)]
    move(flows, 50)
    assert (in_use(dying, edge), in_use(other, edge)) == (True, False)
    gone_at = time.monotonic()
    getattr(dying, how)()
    ended_s = time.monotonic() - gone_at
    try:
        move(flows, 50)
        outcomes = finish(flows)
        assert in_use(other, edge)
    finally:
        dying.start()
        mesh.wait_ready()
    for flow, counts in zip(flows, outcomes, strict=True):
        gap = max(b - a for a, b in zip(flow.times, flow.times[1:], strict=False) if b > gone_at)
        print(f"gap {gap:.2f} s, {dict(counts)}")
        assert gap < ended_s + 10.0, "the consumer takes nothing while this test waits for the end of the process"


def test_what_an_edge_had_when_it_died_is_modified_and_its_addresses_are_withdrawn(
    mesh: EdgeMesh, stack: ExitStack
) -> None:
    """What its consumer has not seen is released or, if it was on the way to the edge, modified."""
    dying, far = mesh.edges
    active = mesh.wait_active(dying)
    near, other = sorted(mesh.interiors, key=lambda router: router.name != active)
    flows = [Flow(stack, source, dying) for source in (near, other, far)]
    leaving = Flow(stack, dying, far)
    move([*flows, leaving], 30)
    for flow in flows:
        flow.send(WINDOW)
    seen = [[flow.receiver.next().body for _ in range(CREDIT // 2)] for flow in flows]
    dying.kill()
    try:
        for flow, unsettled in zip(flows, seen, strict=True):
            outcomes = [one.outcome() for one in flow.sent]
            assert set(outcomes) <= {"accepted", "modified", "released"}
            assert {number for number, state in enumerate(outcomes) if state == "accepted"} <= set(flow.arrived)
            assert [outcomes[number] for number in unsettled] == ["modified"] * len(unsettled)
            assert all(one.failed for one in flow.sent if one.state == "modified")
            wait_until(lambda flow=flow: flow.sender.credit == 0)  # type: ignore[misc]
            for router in mesh.interiors:
                wait_address(router, flow.address, 0, 0)
    finally:
        dying.start()
        mesh.wait_ready()
    for flow in flows:
        receiver = stack.enter_context(Client(dying.url)).receiver(flow.address, 1)
        again = flow.sender.send("again")
        assert receiver.take(1)[0].body == "again"
        assert again.outcome() == "accepted"


@pytest.mark.parametrize("who", ["edge", "interior"])
def test_draining_loses_nothing(mesh: EdgeMesh, stack: ExitStack, who: str) -> None:
    """Traffic from and to beyond the uplink. The drained router's own clients go, all others keep their links."""
    edge, far = mesh.edges
    active = mesh.wait_active(edge)
    near, other = sorted(mesh.interiors, key=lambda router: router.name != active)
    drained = edge if who == "edge" else near
    staying = [Flow(stack, far, other), Flow(stack, other, far)]
    crossing = [Flow(stack, edge, other), Flow(stack, other, edge), Flow(stack, edge, far), Flow(stack, far, edge)]
    flows = [*staying, *crossing]
    move(flows, 30)
    try:
        with draining(drained) as process:

            def over() -> bool:
                for flow in flows:
                    flow.move(kept=0)
                return process.poll() is not None

            wait_until(over, 60.0, drained.log_tail)
            assert process.returncode == 0
        if who == "edge":  # what its producers sent after the end of their connections has no outcome
            assert all("modified" not in flow.check_truth() for flow in crossing)
        else:
            staying += crossing
        move(staying, 30)
        assert all("modified" not in counts for counts in finish(staying))
    finally:
        drained.restart()
        mesh.wait_ready()
