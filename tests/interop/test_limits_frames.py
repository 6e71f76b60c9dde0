"""Frames that mean harm cost a router little memory and time, end the right thing, and leave others alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.interop.hostile import exchange_message
from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh, patient_port
from tests.kit.fixtures import StartRouter
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Flow,
    Terminus,
    Transfer,
    encode_frame,
)
from waymesh_amqp.types import Raw, Symbol, encode
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]

MIB = 1 << 20
WINDOW = 1_000_000
LIST32 = b"\xd0"
MAP32 = b"\xd1"
ARRAY32 = b"\xf0"
TEXT = b"\x00\x53\x77\xa1\x01x"


@pytest.fixture
def bounded(router1: RouterProcess) -> Iterator[Callable[[int], None]]:
    """Call it to see that others are served, and that memory has grown by so many MiB at most. Called at the end."""
    exchange_message(router1.port)
    before = router1.resident_bytes()

    def check(most_mib: int = 16) -> None:
        exchange_message(router1.port)
        grown = (router1.resident_bytes() - before) / MIB
        assert grown <= most_mib, f"{grown:.1f} MiB more"

    yield check
    check(32)
    assert "internal error" not in router1.log


@pytest.fixture
def raw(router1: RouterProcess, bounded: Callable[[int], None]) -> Iterator[RawClient]:
    """A client that heeds no session window, so it gets one that is never used up."""
    with RawClient(patient_port(router1, maxSessionFrames=WINDOW)) as raw:
        raw.open()
        raw.begin()
        yield raw


def entity(router: RouterProcess) -> dict[str, int]:
    """Counts of the entity `router`."""
    with ManagementClient(router.url, timeout_s=60.0) as client:
        (row,) = client.query("router", [])
    return dict(row)


def nested(depth: int) -> bytes:
    """Lists in lists."""
    value = b"\x45"
    for _ in range(depth):
        value = LIST32 + (len(value) + 4).to_bytes(4, "big") + b"\0\0\0\x01" + value
    return value


# ---- time
def test_frame_that_never_ends_does_not_keep_a_connection_alive(start_router: StartRouter) -> None:
    """Single octets are not progress: only a whole frame, or 16 KiB of one."""
    port = free_port()
    router = start_router(extra=section("listener", host="127.0.0.1", port=port, idleTimeoutSeconds=1))
    router.ports.append(port)
    router.wait_listening()
    with RawClient(port) as raw:
        raw.open()
        raw.send(b"\0\0\x30\0\x02\0\0\0")
        end = time.monotonic() + 60
        told = b""
        while b"local-idle-timeout" not in told:
            raw.send(b"\0")
            told += raw.waiting(0.05)
            assert time.monotonic() < end
        exchange_message(router.port)


def test_idle_time_out_is_what_ends_peers_that_do_nothing(start_router: StartRouter) -> None:
    port = free_port()
    router = start_router(extra=section("listener", host="127.0.0.1", port=port, idleTimeoutSeconds=1))
    router.ports.append(port)
    router.wait_listening()
    with RawClient(port) as raw:
        raw.open()
        assert raw.close_error() == ("amqp:resource-limit-exceeded", "local-idle-timeout expired")


# ---- values
@pytest.mark.parametrize(
    "value",
    [
        LIST32 + b"\0\0\0\x08\xff\xff\xff\xff\x40\x40\x40\x40",
        MAP32 + b"\0\0\0\x08\x7f\xff\xff\xfe\x40\x40\x40\x40",
        ARRAY32 + b"\0\0\0\x06\x7f\xff\xff\xff\x40\x40",
        b"\xb0\x7f\xff\xff\xff\0",
        b"\xa3\xffx",
        nested(65),
        nested(1500),
        b"\x00" * 5000 + b"\x40",
    ],
    ids=["list", "map", "array of nulls", "binary", "symbol", "65 lists", "1500 lists", "5000 descriptors"],
)
@pytest.mark.parametrize("where", ["begin", "attach"])
def test_declared_sizes_and_nesting_are_refused_with_little_work(
    raw: RawClient, router1: RouterProcess, bounded: Callable[[int], None], where: str, value: bytes
) -> None:
    begin = router1.cpu_s()
    performative = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    if where == "begin":
        performative.properties = Raw(value)
        raw.send(encode_frame(7, performative))
    else:
        terminus = Terminus("source", address="a")
        raw.send(encode_frame(0, Attach("n", 9, role=True, source=terminus, properties=Raw(value))))
    assert raw.close_error()[0] == "amqp:decode-error"
    assert router1.cpu_s() - begin < 5
    bounded(16)


@pytest.mark.parametrize("depth", [65, 1500, 2500])
def test_deeply_nested_annotations_of_a_message_hurt_nobody(raw: RawClient, depth: int) -> None:
    key = encode("key")
    body = key + nested(depth)
    section_ = b"\x00\x53\x72" + MAP32 + (len(body) + 4).to_bytes(4, "big") + b"\0\0\0\x02" + body
    raw.attach_receiver(address := fresh(), credit=10)
    handle = raw.attach_sender(address)
    max_frame = 16000
    data = section_ + b"\x00\x53\x77\x40"
    for at in range(0, len(data), max_frame):
        raw.transfer(handle, data[at : at + max_frame], more=at + max_frame < len(data)) if at == 0 else raw.put(
            Transfer(handle=handle, more=at + max_frame < len(data)), data[at : at + max_frame]
        )
    while not isinstance(raw.frame()[0], (Disposition, Transfer)):
        pass


# ---- memory
def test_annotations_that_never_end_are_kept_up_to_8_mib_for_a_connection(
    raw: RawClient, router1: RouterProcess, bounded: Callable[[int], None]
) -> None:
    """Sections that a router must read are kept until they are complete: 1 MiB each, 8 MiB for all links."""
    start = b"\x00\x53\x72" + MAP32 + (1_000_000).to_bytes(4, "big") + b"\0\0\0\x02" + encode("key") + b"\xb0"
    start += (999_986).to_bytes(4, "big")
    handles = [raw.attach_sender(None) for _ in range(60)]
    for handle in handles:
        raw.transfer(handle, start, more=True)
        for _ in range(60):
            raw.put(Transfer(handle=handle, more=True), bytes(16000))
    rejected = 0
    while rejected < 40:
        if isinstance(answer := raw.frame()[0], Disposition):
            rejected += (answer.first if answer.last is None else answer.last) - answer.first + 1
    bounded(24)
    for handle in handles:
        raw.put(Transfer(handle=handle, aborted=True, more=False))
    for handle in handles:  # room again: nothing stays counted
        raw.transfer(handle, start, more=True)
        raw.put(Transfer(handle=handle, aborted=True, more=False))
    raw.attach_receiver(address := fresh(), credit=1)
    raw.transfer(raw.attach_sender(address), b"\x00\x53\x77\x40", settled=True)
    raw.delivery()


@pytest.mark.parametrize("what", ["annotations", "addresses"])
def test_long_annotations_and_addresses_of_ended_messages_are_not_kept(
    raw: RawClient, bounded: Callable[[int], None], what: str
) -> None:
    """Each link remembers those of its last message if they are short, in case the next one has the same."""
    long = "x" * 800_000
    for number in range(60):
        handle = raw.attach_sender(None)
        if what == "annotations":
            message = Message(to=fresh(), message_annotations={Symbol("key"): f"{number} {long}"})
        else:
            message = Message(to=f"{number} {long}")
        data = encode_message(message)
        raw.transfer(handle, data[:16000], more=True, settled=True)
        for at in range(16000, len(data), 16000):
            raw.put(Transfer(handle=handle, more=at + 16000 < len(data)), data[at : at + 16000])
    bounded(16)


def test_deliveries_that_a_consumer_never_settles_are_limited_by_the_credit_of_their_sender(
    router1: RouterProcess, bounded: Callable[[int], None]
) -> None:
    """As many again are taken of clients that send more than their credit: with 50, all fits the session's window."""
    with RawClient(patient_port(router1, linkCapacity=50)) as raw:
        raw.open()
        raw.begin()
        raw.attach_receiver(address := fresh(), credit=2**31)
        handle = raw.attach_sender(address)
        for _ in range(50):
            raw.transfer(handle, b"\x00\x53\x77\x40")
        for _ in range(50):
            raw.delivery()
        # Those of connections of other tests may end a little later.
        wait_until(lambda: entity(router1)["unsettledDeliveries"] == 50)
        for _ in range(51):
            raw.transfer(handle, b"\x00\x53\x77\x40")
        error = raw.expect(Detach).error
        assert error is not None
        assert error.condition == "amqp:link:transfer-limit-exceeded"


def test_delivery_in_fragments_of_one_octet_costs_memory_in_proportion(
    raw: RawClient, bounded: Callable[[int], None]
) -> None:
    raw.attach_receiver(address := fresh())
    handle = raw.attach_sender(address, wait_credit=False)
    raw.transfer(handle, b"\x00\x53\x75\xb0\x00\x10\x00\x00", more=True)
    fragment = encode_frame(0, Transfer(handle=handle, more=True), b"x")
    for _ in range(100):
        raw.send(fragment * 2000)
    raw.attach_receiver(fresh())
    bounded(24)


@pytest.mark.parametrize("settled", [False, True])
def test_a_delivery_that_is_begun_and_never_ended_holds_one_consumer_until_its_connection_is_ended(
    router1: RouterProcess, bounded: Callable[[int], None], settled: bool
) -> None:
    """There is no time limit: docs/decisions/0025. Who manages finds the link by its counts."""
    port = patient_port(router1)
    with RawClient(port) as hung, RawClient(port) as held, RawClient(port) as free:
        for client, container in ((hung, fresh()), (held, fresh()), (free, fresh())):
            client.open(container_id=container)
            client.begin()
        held.attach_receiver(address := fresh(), credit=10)
        handle = hung.attach_sender(address)
        hung.transfer(handle, b"\x00\x53\x75\xb0\x00\x10\x00\x00begun", more=True, settled=settled)
        assert held.expect(Transfer).more
        free.attach_receiver(address, credit=10)
        sender = free.attach_sender(address)
        while free.transfer(sender, TEXT, settled=True) < 9:  # all of them go to the other consumer
            assert free.delivery()[1] == TEXT
        with ManagementClient(router1.url) as management:
            names = ["owningAddr", "linkDir", "connectionId", "presettledCount", "unsettledCount"]
            rows = management.query("router.link", names)
            mine = [row for row in rows if str(row["owningAddr"]).endswith(address) and row["linkDir"] == "in"]
            row = min(mine, key=lambda row: int(row["presettledCount"]))
            assert row["unsettledCount"] == (not settled)
            management.update({"adminStatus": "deleted"}, "connection", identity=str(row["connectionId"]))
        assert held.expect(Transfer).aborted


# ---- floods
def test_flood_of_flows_and_ranges_of_dispositions_delays_nobody(
    raw: RawClient, router1: RouterProcess, bounded: Callable[[int], None]
) -> None:
    raw.attach_receiver(fresh())
    flow = Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1, handle=0)
    flow.delivery_count, flow.link_credit = 0, 2**31
    ranges = encode_frame(0, Disposition(role=True, first=0, last=2**31 - 2, settled=True))
    for _ in range(50):
        raw.send(encode_frame(0, flow) * 400 + ranges * 100)
    begin = router1.cpu_s()
    exchange_message(router1.port)
    assert router1.cpu_s() - begin < 10
    bounded(16)


def test_links_and_addresses_that_come_and_go_leave_nothing_on_any_router(line2: Mesh) -> None:
    first, second = line2.routers
    before = [(entity(router)["addrCount"], entity(router)["linkCount"]) for router in (first, second)]
    with RawClient(first.port) as raw:
        raw.open()
        raw.begin()
        for number in range(2000):
            source = Terminus("source", address=f"{fresh()}.{number}")
            raw.put(Attach(f"flood-{number}", number, role=True, source=source, target=Terminus("target")))
        for _ in range(2000):
            raw.expect(Attach)
        wait_until(lambda: entity(second)["addrCount"] >= before[1][0] + 2000, 60)
        exchange_message(second.port)
        for number in range(1000):
            raw.put(Detach(handle=number, closed=True))

    def counts() -> list[tuple[int, int]]:
        return [(entity(router)["addrCount"], entity(router)["linkCount"]) for router in (first, second)]

    def nothing_is_left() -> bool:
        """Or less than before, when links of an earlier client were still there."""
        return all(now <= then for pair in zip(counts(), before) for now, then in zip(*pair))

    wait_until(nothing_is_left, 60, lambda: f"{counts()} instead of {before}")
