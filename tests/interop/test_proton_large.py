"""Messages of any size pass through with bounded memory, at the pace of their consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import proton
import pytest

from tests.interop.raw_client import RawClient
from tests.interop.shared import ADDRESSES, fresh, wait_consumers
from tests.interop.streaming import StreamReceiver, StreamSender, digest
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Disposition

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]

MEBIBYTE = 1024 * 1024
GROWTH = 10 * MEBIBYTE
OPENED = 24 * MEBIBYTE
"""The window that a sender gets with its first credit: three times what a link may keep."""
QUIET_S = 0.3


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


class Memory:
    """The most that each router's memory has grown since this was made."""

    def __init__(self, routers: list[RouterProcess]) -> None:
        self._routers = routers
        self._before = [router.resident_bytes() for router in routers]
        self.growth = [0] * len(routers)

    def look(self) -> None:
        """Measure."""
        now = [router.resident_bytes() - before for router, before in zip(self._routers, self._before)]
        self.growth = [max(pair) for pair in zip(self.growth, now)]


def wait_stalled(sender: StreamSender) -> int:
    """Until the sender gets nothing out for QUIET_S; the bytes that are out."""
    last, since = -1, time.monotonic()

    def quiet() -> bool:
        nonlocal last, since
        if sender.handed != last:
            last, since = sender.handed, time.monotonic()
        return sender.handed > 0 and time.monotonic() - since > QUIET_S

    wait_until(quiet, 60.0, "the sender to stall")
    return last


def run(sender: StreamSender, receivers: list[StreamReceiver], memory: Memory, size: int) -> None:
    """Wait until all is through, with an eye on the memory."""

    def through() -> bool:
        memory.look()
        return all(receiver.complete for receiver in receivers)

    wait_until(through, 180.0, lambda: f"message; sent {sender.handed}, taken {[r.taken for r in receivers]}")
    sender.wait_accepted()
    assert [receiver.digest for receiver in receivers] == [digest(size)] * len(receivers)


def warmed_up(mesh: Mesh) -> Mesh:
    """A megabyte has passed, so that buffers have the size that they keep."""
    address = fresh()
    with Client(mesh.routers[0].url) as sending, Client(mesh.routers[-1].url) as receiving:
        receiver = StreamReceiver(receiving, address)
        StreamSender(sending, address, MEBIBYTE).wait_accepted()
        assert receiver.complete
    return mesh


def test_100_megabytes_over_two_hops(start_mesh: StartMesh, stack: ExitStack) -> None:
    mesh = warmed_up(start_mesh(3, extra=ADDRESSES))
    size, address = 100 * MEBIBYTE, fresh()
    receiver = StreamReceiver(stack.enter_context(Client(mesh["C"].url)), address)
    memory = Memory(mesh.routers)
    sender = StreamSender(stack.enter_context(Client(mesh["A"].url)), address, size)
    run(sender, [receiver], memory, size)
    assert max(memory.growth) < GROWTH + OPENED, memory.growth


def test_100_megabytes_to_a_slow_consumer(start_mesh: StartMesh, stack: ExitStack) -> None:
    """While it does not read, its window pushes back to the sender, hop by hop."""
    mesh = warmed_up(start_mesh(3, extra=ADDRESSES))
    size, address = 100 * MEBIBYTE, fresh()
    receiver = StreamReceiver(stack.enter_context(Client(mesh["C"].url)), address, open_=False)
    memory = Memory(mesh.routers)
    sender = StreamSender(stack.enter_context(Client(mesh["A"].url)), address, size)
    stalled = wait_stalled(sender)
    memory.look()
    assert stalled < 40 * MEBIBYTE + OPENED
    assert max(memory.growth) < GROWTH + OPENED, memory.growth
    receiver.start_reading()
    run(sender, [receiver], memory, size)
    assert max(memory.growth) < GROWTH + OPENED, memory.growth


@pytest.mark.parametrize("priority", [4, 9])
def test_others_go_on_beside_a_stalled_large_message(line4: Mesh, stack: ExitStack, priority: int) -> None:
    """Small messages of any priority pass between the same routers while a large one waits for its consumer."""
    size, address, other = 20 * MEBIBYTE, fresh(), fresh()
    receiver = StreamReceiver(stack.enter_context(Client(line4["D"].url)), address, open_=False)
    sender = StreamSender(stack.enter_context(Client(line4["A"].url)), address, size)
    wait_stalled(sender)
    small = stack.enter_context(Client(line4["D"].url)).receiver(other, 100)
    producer = stack.enter_context(Client(line4["A"].url)).sender(other)
    sent = producer.send_all([proton.Message(body=number, priority=priority) for number in range(20)])
    assert [received.body for received in small.take(20)] == list(range(20))
    assert [s.outcome() for s in sent] == ["accepted"] * 20
    receiver.start_reading()
    receiver.wait_complete()
    sender.wait_accepted()
    assert receiver.digest == digest(size)


def test_others_go_on_beside_a_half_sent_message(line4: Mesh, stack: ExitStack) -> None:
    """Its producer has sent 20 of 40 kB and goes on when the others are through."""
    big, small = fresh(), fresh()
    receiver = StreamReceiver(stack.enter_context(Client(line4["D"].url)), big)
    other = stack.enter_context(Client(line4["D"].url)).receiver(small, 100)
    raw = stack.enter_context(RawClient(line4["A"].port))
    raw.open()
    raw.begin()
    handle = raw.attach_sender(big)
    raw.transfer(handle, b"\x00\x53\x75\xb0\x00\x00\x9c\x40" + bytes(10_000), more=True)
    rest = {"delivery_id": None, "delivery_tag": None, "message_format": None}
    raw.transfer(handle, bytes(10_000), more=True, **rest)
    wait_until(lambda: receiver.taken > 0, 20.0, "the first half")
    producer = stack.enter_context(Client(line4["A"].url)).sender(small)
    sent = producer.send_all([proton.Message(body=number) for number in range(20)])
    assert [received.body for received in other.take(20)] == list(range(20))
    assert [s.outcome() for s in sent] == ["accepted"] * 20
    raw.transfer(handle, bytes(10_000), more=True, **rest)
    raw.transfer(handle, bytes(10_000), **rest)
    receiver.wait_complete()
    assert raw.expect(Disposition).settled


def test_large_message_waits_for_credit(line2: Mesh, stack: ExitStack) -> None:
    """A consumer without credit: a bounded part of the message is held, the rest stays with its sender."""
    size, address = 60 * MEBIBYTE, fresh()
    consumer = stack.enter_context(Client(line2["B"].url))
    consumer.receiver(address)
    wait_consumers(line2["A"], address, 0, 1)
    memory = Memory(line2.routers)
    sender = StreamSender(stack.enter_context(Client(line2["A"].url)), address, size)
    assert wait_stalled(sender) < OPENED + 6 * MEBIBYTE
    receiver = StreamReceiver(stack.enter_context(Client(line2["B"].url)), address)
    run(sender, [receiver], memory, size)
    assert max(memory.growth) < GROWTH + OPENED, memory.growth


def test_multicast_of_a_large_message(line4: Mesh, stack: ExitStack) -> None:
    size, address = 10 * MEBIBYTE, fresh("multicast")
    receivers = [
        StreamReceiver(stack.enter_context(Client(line4[name].url)), address) for name in ("A", "B", "D", "D")
    ]
    wait_consumers(line4["A"], address, 1, 2)
    wait_consumers(line4["B"], address, 1, 2)
    sender = StreamSender(stack.enter_context(Client(line4["A"].url)), address, size)
    run(sender, receivers, Memory(line4.routers), size)


def test_multicast_of_a_large_message_with_a_slow_consumer(line4: Mesh, stack: ExitStack) -> None:
    size, address = 60 * MEBIBYTE, fresh("multicast")
    quick = StreamReceiver(stack.enter_context(Client(line4["B"].url)), address)
    slow = StreamReceiver(stack.enter_context(Client(line4["D"].url)), address, open_=False)
    wait_consumers(line4["A"], address, 0, 2)
    memory = Memory(line4.routers)
    sender = StreamSender(stack.enter_context(Client(line4["A"].url)), address, size)
    assert wait_stalled(sender) < size
    slow.start_reading()
    run(sender, [quick, slow], memory, size)
    assert max(memory.growth) < 2 * GROWTH + OPENED, memory.growth  # each copy waits on its own


def test_consumer_lost_in_the_middle_of_a_large_message(line4: Mesh, stack: ExitStack) -> None:
    size, address = 20 * MEBIBYTE, fresh()
    consumer = stack.enter_context(Client(line4["D"].url))
    StreamReceiver(consumer, address, open_=False)
    sender = StreamSender(stack.enter_context(Client(line4["A"].url)), address, size)
    wait_stalled(sender)
    consumer.abort()
    wait_until(lambda: sender.state is not None, 60.0, "an outcome")
    assert sender.state in (proton.Delivery.MODIFIED, proton.Delivery.RELEASED)
    again = stack.enter_context(Client(line4["D"].url)).receiver(address, 10)
    sent = stack.enter_context(Client(line4["A"].url)).sender(address).send("next")
    received = again.next()
    assert received.body == "next"
    received.accept()
    assert sent.outcome() == "accepted"


def test_producer_that_stops_in_a_message_nobody_wants_blocks_nobody(line4: Mesh, stack: ExitStack) -> None:
    """Its consumer left: the routers abort what they had begun to pass on, though the producer never ends it."""
    address = fresh()
    consumer = stack.enter_context(Client(line4["D"].url))
    StreamReceiver(consumer, address)
    raw = stack.enter_context(RawClient(line4["A"].port))
    raw.open()
    raw.begin()
    handle = raw.attach_sender(address)
    raw.transfer(handle, b"\x00\x53\x75\xb0\x00\x10\x00\x00" + bytes(1000), more=True)
    consumer.abort()
    assert raw.expect(Disposition).settled
    receiver = stack.enter_context(Client(line4["D"].url)).receiver(address, 10)
    sent = stack.enter_context(Client(line4["A"].url)).sender(address).send("next")
    received = receiver.next()
    assert received.body == "next"
    received.accept()
    assert sent.outcome() == "accepted"
