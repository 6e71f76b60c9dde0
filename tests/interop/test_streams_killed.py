"""A router is killed while long and half-sent messages go beside short ones: one outcome each, and nothing twice."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import proton
import pytest

from tests.interop.raw_client import RawClient
from tests.interop.shared import ADDRESSES, fresh, wait_consumers
from tests.interop.streaming import StreamReceiver, StreamSender
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh
from tests.kit.outcomes import Sent
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Disposition

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

LONG = 40 * 1024 * 1024
"""More than what routers and sockets keep: it cannot get through while its consumer reads nothing."""
HALF = b"\x00\x53\x75\xb0\x00\x00\x4e\x20" + bytes(10_000)
ENDED = {"accepted", "modified", "released"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


class Load(threading.Thread):
    """Sends numbers as fast as there is credit, until it is stopped."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(daemon=True)
        self._sender = sender
        self._stopped = threading.Event()
        self.sent: list[Sent] = []
        self.start()

    def run(self) -> None:
        while not self._stopped.wait(0.001):
            first = len(self.sent)
            self.sent += self._sender.send_some([proton.Message(body=first + number) for number in range(10)])

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class Short:
    """Short messages from one router to another, which are accepted."""

    def __init__(self, mesh: Mesh, stack: ExitStack) -> None:
        address = fresh()
        self._receiver: Receiver = stack.enter_context(Client(mesh.routers[-1].url)).receiver(address, 100_000)
        wait_consumers(mesh.routers[0], address, 0, 1)
        self._load = Load(stack.enter_context(Client(mesh.routers[0].url)).sender(address))
        stack.callback(self._load.stop)
        self.bodies: list[int] = []

    def take(self, count: int) -> None:
        for _ in range(count):
            received = self._receiver.next()
            received.accept()
            self.bodies.append(received.body)

    def check(self, sender_lost: bool) -> None:
        """Each has one outcome unless its sender's connection is lost, none came twice, all that are accepted came."""
        self._load.stop()
        sent = self._load.sent
        outcomes = [one.state if sender_lost else one.outcome() for one in sent]
        assert sender_lost or set(outcomes) <= ENDED, set(outcomes)
        accepted = {number for number, outcome in enumerate(outcomes) if outcome == "accepted"}
        assert accepted <= set(self.bodies)
        try:
            while True:
                self.bodies.append(self._receiver.arrived.get_nowait().body)
        except queue.Empty:
            pass
        assert len(self.bodies) == len(set(self.bodies))


@pytest.mark.parametrize("lost", ["A", "B", "C"])
def test_a_router_killed_beside_streams_costs_its_own_clients_only(
    start_mesh: StartMesh, stack: ExitStack, lost: str
) -> None:
    """All senders are at A, all consumers at C; the one of the long message has stopped."""
    mesh = start_mesh(3, extra=ADDRESSES)
    big, half = fresh(), fresh()
    stopped = StreamReceiver(stack.enter_context(Client(mesh["C"].url)), big, open_=False)
    begun = StreamReceiver(stack.enter_context(Client(mesh["C"].url)), half)
    wait_consumers(mesh["A"], big, 0, 1)
    wait_consumers(mesh["A"], half, 0, 1)
    long = StreamSender(stack.enter_context(Client(mesh["A"].url)), big, LONG)
    raw = stack.enter_context(RawClient(mesh["A"].port))
    raw.open()
    raw.begin()
    raw.transfer(raw.attach_sender(half), HALF, more=True)
    short = Short(mesh, stack)
    wait_until(lambda: begun.taken > 0 and long.handed > LONG // 20, 60.0, "both streams")
    short.take(500)
    mesh[lost].kill()
    if lost != "A":
        wait_until(lambda: long.state is not None, 60.0, "an outcome of the long message")
        assert long.state in (proton.Delivery.MODIFIED, proton.Delivery.RELEASED)
        assert raw.expect(Disposition).settled
    short.check(lost == "A")
    assert not stopped.complete
    assert not begun.complete
