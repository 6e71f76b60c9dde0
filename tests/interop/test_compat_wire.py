"""Frames that qdrouterd accepts, and how this router handles them. The items of docs/compatibility-items.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess
from waymesh_amqp.performatives import (
    Attach,
    Detach,
    Disposition,
    Flow,
    Terminus,
    Transfer,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.types import Described, Raw, UInt, ULong, encode
from waymesh_router.core.attaching import mesh_attach
from waymesh_router.core.link_kinds import CONTROL

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

BODY = b"\x00\x53\x77\xa1\x05hello"
STATE = encode(Described(ULong(0x23), [UInt(4), ULong(5)]))
"""`received`: the only state that a sender may give and that is no outcome. Spec: 3.4.1."""


@pytest.fixture
def client(router1: RouterProcess) -> Iterator[RawClient]:
    with RawClient(router1.port) as client:
        client.open()
        client.begin()
        yield client


def assert_passes(client: RawClient, handle: int) -> None:
    """Once the sender with this handle has credit, a message passes to the client's own receiver."""
    while not client.expect(Flow).link_credit:
        pass
    client.transfer(handle, BODY)
    assert client.delivery()[1] == BODY



def test_compat_01_one_capability_is_a_plain_symbol() -> None:
    """qdrouterd refuses an attach between routers whose capabilities are an array of one."""
    frame = encode_frame(0, mesh_attach("l", CONTROL, True))
    assert b"\xa3\x09qd.router" in frame
    assert b"\xe0" not in frame
    assert b"\xf0" not in frame
    attach, _ = decode_performative(frame[8:], 0, len(frame) - 8)
    assert isinstance(attach, Attach)
    assert attach.source is not None
    assert attach.source.capabilities == ["qd.router"]
    several = Terminus("source", capabilities=["one", "two"]).encode()
    assert b"\xa3\x03one\x03two" in several


def test_compat_09_dynamic_target_gets_an_address(client: RawClient) -> None:
    target = Terminus("target", dynamic=True)
    client.put(Attach("dynamic", 7, False, source=Terminus("source"), target=target, initial_delivery_count=0))
    answer = client.expect(Attach)
    assert answer.target is not None
    assert answer.target.dynamic
    address = answer.target.address
    assert isinstance(address, str)
    client.attach_receiver(address, credit=1)
    assert_passes(client, 7)


def test_compat_09_a_sender_without_initial_delivery_count_is_accepted(client: RawClient) -> None:
    address = fresh()
    client.attach_receiver(address, credit=1)
    client.put(Attach("old", 7, False, source=Terminus("source"), target=Terminus("target", address=address)))
    assert client.expect(Attach).target is not None
    assert_passes(client, 7)


def test_compat_09_a_tag_of_over_32_octets_passes_on_message_routes(client: RawClient) -> None:
    address = fresh()
    client.attach_receiver(address, credit=1)
    handle = client.attach_sender(address)
    client.transfer(handle, BODY, delivery_tag=b"t" * 200)
    assert client.delivery()[1] == BODY


def test_compat_10_a_coordinator_without_a_link_route_is_told_why(client: RawClient) -> None:
    client.put(
        Attach("tx", 7, False, source=Terminus("source"), target=Terminus("coordinator"), initial_delivery_count=0)
    )
    error = client.expect(Detach).error
    assert error is not None
    assert error.condition == "amqp:precondition-failed"
    assert "linkRoute" in (error.description or "")


def test_compat_11_some_deliveries_beyond_the_credit_are_tolerated(client: RawClient) -> None:
    """Nobody receives: there is no credit at all, and no link is detached."""
    handle = client.attach_sender(fresh(), wait_credit=False)
    for _ in range(10):
        client.transfer(handle, BODY)
    client.put(Flow(next_incoming_id=0, incoming_window=100, next_outgoing_id=10, outgoing_window=100, echo=True))
    seen = 0
    while seen < 10:
        frame, _ = client.frame()
        assert not isinstance(frame, Detach)
        if isinstance(frame, Disposition):
            seen += (frame.last if frame.last is not None else frame.first) - frame.first + 1


def test_compat_11_a_window_of_excess_is_the_end_of_tolerance(client: RawClient) -> None:
    handle = client.attach_sender(fresh(), wait_credit=False)
    for _ in range(600):
        client.transfer(handle, BODY, settled=True)
    error = client.expect(Detach).error
    assert error is not None
    assert error.condition == "amqp:link:transfer-limit-exceeded"


def test_compat_11_flows_that_renew_the_window_carry_the_links_state(client: RawClient) -> None:
    address = fresh("multicast")
    client.attach_receiver(address, credit=100_000)
    handle = client.attach_sender(address)
    seen = 0
    for _ in range(200):
        for _ in range(100):
            client.transfer(handle, BODY, settled=True)
        while seen < 100:
            frame, _ = client.frame()
            if isinstance(frame, Flow):
                assert frame.handle is not None
                assert (frame.link_credit or 0) + 100 < frame.incoming_window + 250
            seen += isinstance(frame, Transfer)
        seen = 0


@pytest.mark.parametrize("kind", ["closest", "multicast", "balanced"])
@pytest.mark.parametrize("far", [False, True])
def test_compat_12_the_state_of_a_transfer_is_passed_on(line2: Mesh, kind: str, far: bool) -> None:
    address = fresh(kind)
    with RawClient(line2["A"].port) as sending, RawClient(line2["B" if far else "A"].port) as receiving:
        sending.open()
        receiving.open(max_frame_size=4096)  # the longer message leaves in several frames
        for client in (sending, receiving):
            client.begin()
        receiving.attach_receiver(address, credit=10)
        handle = sending.attach_sender(address)
        payload = BODY[:3] + b"\xb1" + (12_000).to_bytes(4, "big") + b"x" * 12_000
        for data, settled in ((BODY, False), (payload, False), (BODY, True)):
            sending.transfer(handle, data, state=Raw(STATE), settled=settled)
            transfer, got = receiving.delivery()
            assert got == data
            assert isinstance(transfer.state, Described)
            assert encode(transfer.state) == STATE
            assert bool(transfer.settled) == settled
        sending.transfer(handle, BODY)
        transfer, _ = receiving.delivery()
        assert transfer.state is None
        receiving.accept(transfer.delivery_id or 0)
        sending.expect(Disposition)
