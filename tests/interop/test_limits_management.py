"""Requests that mean harm cost a router little: large ones, endless ones, and those whose replies nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.hostile import bounded, exchange_message
from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh, patient_port
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.performatives import Attach, Disposition, Terminus, Transfer
from waymesh_amqp.types import Described
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

MIB = 1 << 20
BUFFERED = 4 * MIB
FRAME = 16000
LINKS = 2000
ACCEPTED, RELEASED = 0x24, 0x26


@pytest.fixture
def guarded(start_router: StartRouter) -> Iterator[RouterProcess]:
    """A router with little room for messages; the port behind its first is of a listener for clients that only read."""
    port = free_port()
    reading = section("listener", name="reading", host="127.0.0.1", port=port, management="read")
    router = start_router()
    router.stop()
    text = router.config_path.read_text(encoding="utf-8")
    text = text.replace("mode: standalone", f"mode: standalone\n    maxBufferedBytes: {BUFFERED}")
    router.config_path.write_text(text + reading, encoding="utf-8")
    router.ports.append(port)
    router.start()
    yield router
    assert "internal error" not in router.log


def request(reply_to: str | None, entity: str, operation: str = "QUERY") -> bytes:
    """For all attributes of all entities of a type."""
    return encode_message(
        Message(
            to="$management",
            reply_to=reply_to,
            correlation_id="1",
            application_properties={
                "operation": operation,
                "name": "self",
                "type": "org.amqp.management",
                "entityType": f"org.apache.qpid.dispatch.{entity}",
            },
            body={"attributeNames": []},
            body_kind="value",
        )
    )


def nulls(size: int) -> bytes:
    """A message whose body is a list of that many nulls."""
    body = b"\x40" * size
    return b"\x00\x53\x77\xd0" + (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + body


def send(raw: RawClient, handle: int, data: bytes, finish: bool = True) -> None:
    """A delivery in frames; `finish`: with its last one."""
    for at in range(0, len(data), FRAME):
        part, more = data[at : at + FRAME], not finish or at + FRAME < len(data)
        if at == 0:
            raw.transfer(handle, part, more=more)
        else:
            raw.put(Transfer(handle=handle, more=more), part)


def state(raw: RawClient) -> Any:
    """Descriptor of the next outcome that comes."""
    state = raw.expect(Disposition).state
    assert isinstance(state, Described)
    return state.descriptor


@pytest.mark.parametrize(
    ("which", "fits", "too_large"), [(0, 900_000, 1_100_000), (1, 12_000, 20_000)], ids=["may write", "may only read"]
)
def test_requests_that_are_too_large_are_released_and_not_decoded(
    guarded: RouterProcess, which: int, fits: int, too_large: int
) -> None:
    with RawClient(guarded.ports[which]) as raw:
        raw.open()
        raw.begin()
        handle = raw.attach_sender("$management")
        for size, expected in ((fits, ACCEPTED), (too_large, RELEASED), (20 * MIB, RELEASED), (fits, ACCEPTED)):
            send(raw, handle, nulls(size))
            assert state(raw) == expected, size
    exchange_message(guarded.port)


def test_requests_of_very_many_values_are_refused_and_long_lists_of_addresses_are_not(guarded: RouterProcess) -> None:
    """A list of addresses is one text. A request of very many values would take the event loop half a second."""
    sources = ", ".join(f"orders.{number}.${{user}}" for number in range(10_000))
    group = {"users": "a", "remoteHosts": "*", "sources": sources}
    with ManagementClient(guarded.url, timeout_s=60.0) as client:
        row = client.create("vhost", {"hostname": "large", "groups": {"group": group}})
        assert row["groups"]["group"]["sources"] == sources
        with RawClient(guarded.port) as raw:
            raw.open()
            raw.begin()
            raw.attach_receiver(replies := fresh(), credit=1)
            hostile = Message(reply_to=replies, application_properties={"operation": "CREATE", "type": "vhost"})
            hostile.body = {"hostname": "hostile", "groups": [None] * 500_000}
            send(raw, raw.attach_sender("$management"), encode_message(hostile))
            reply = decode_message(raw.delivery()[1])
        assert reply.application_properties == {
            "statusCode": 400,
            "statusDescription": "the request has more than 10000 values",
        }
        assert [row["hostname"] for row in client.query("vhost", ["hostname"])] == ["large"]


@pytest.mark.by_exec
def test_requests_that_never_end_are_kept_up_to_the_budget_of_their_connection(guarded: RouterProcess) -> None:
    with bounded(guarded, 12), RawClient(guarded.port) as raw:
        raw.open()
        raw.begin()
        handles = [raw.attach_sender("$management") for _ in range(30)]
        for handle in handles:
            send(raw, handle, nulls(800_000), finish=False)
        for _ in range(30 - BUFFERED // 4 // 800_000 - 1):
            assert state(raw) == RELEASED
        with ManagementClient(guarded.url) as client:
            assert client.read("router")["id"] == "A"


def dropped(router: RouterProcess) -> int:
    """Pre-settled deliveries that the router has dropped, such as replies."""
    with ManagementClient(router.url, timeout_s=60.0) as client:
        return int(client.read("router")["droppedPresettledDeliveries"])


@pytest.mark.parametrize("entity", ["router", "router.link"], ids=["short", "long"])
@pytest.mark.by_exec
def test_replies_that_nobody_reads_are_dropped_beyond_a_part_of_the_budget(
    guarded: RouterProcess, entity: str
) -> None:
    """And those who read theirs get all of them."""
    port = patient_port(guarded)
    with RawClient(port) as links, RawClient(port) as raw, bounded(guarded, 24):
        links.open()
        links.begin()
        for number in range(LINKS):
            links.put(Attach(f"r{number}", number, role=True, source=Terminus("source", address=f"a.{number}")))
        for _ in range(LINKS):
            links.expect(Attach)
        raw.open()
        raw.begin()
        raw.attach_receiver(replies := fresh())
        handle = raw.attach_sender("$management")
        flood = request(replies, entity)
        for _ in range(8 if entity == "router.link" else 60):
            for _ in range(16):
                raw.transfer(handle, flood)
            answered = 0
            while answered < 16:
                answer = raw.expect(Disposition)
                answered += (answer.first if answer.last is None else answer.last) - answer.first + 1
            dropped(guarded)  # is answered meanwhile
        # Its reply overtakes long ones, which may not be complete yet.
        wait_until(lambda: dropped(guarded) > 0, 60.0)
