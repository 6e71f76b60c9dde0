"""Rejections have reasons, refusals the modes that were asked for, and sections may have symbolic descriptors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.raw_client import RawClient
from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section, standalone
from tests.kit.waiting import wait_until
from waymesh_amqp.message import decode_message
from waymesh_amqp.performatives import Attach, Detach, Disposition, Terminus
from waymesh_amqp.types import Described, Symbol, encode
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

BODY = b"\x00\x53\x77\xa1\x05hello"


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    """A plain router is the container of its link route `routed`."""
    folder, port = tmp_path_factory.mktemp("refused"), free_port()
    container = section("router", id="BR") + section("listener", host="127.0.0.1", port=port)
    extra = section("connector", name="broker", host="127.0.0.1", port=port, role="route-container")
    for way in ("in", "out"):
        extra += section("linkRoute", prefix="routed", connection="broker", direction=way)
    broker, router = RouterProcess(folder, "BR", container, [port]), standalone(folder, extra=extra)
    broker.start()
    router.start()
    yield router
    router.stop()
    broker.stop()


@pytest.fixture
def client(router: RouterProcess) -> Iterator[RawClient]:
    with RawClient(router.port) as client:
        client.open()
        client.begin()
        yield client


def outcome(client: RawClient) -> Described:
    state = client.expect(Disposition).state
    assert isinstance(state, Described)
    return state


def reason(client: RawClient) -> tuple[str, str]:
    """Condition and description of the error of a rejection."""
    state = outcome(client)
    assert state.descriptor == 0x25
    error = state.value[0]
    return str(error.value[0]), str(error.value[1])


def symbolic(name: str, value: object) -> bytes:
    return encode(Described(Symbol(name), value))


@pytest.mark.parametrize("payload", [BODY, b""])
def test_a_message_without_an_address_is_rejected_with_the_reason(client: RawClient, payload: bytes) -> None:
    sender = client.attach_sender(None)
    client.transfer(sender, payload)
    condition, text = reason(client)
    assert (condition, "no readable address" in text) == ("amqp:precondition-failed", True)


def test_a_message_whose_sections_cannot_be_read_is_rejected_with_the_reason(client: RawClient) -> None:
    address = fresh()
    client.attach_receiver(address, credit=10)
    sender = client.attach_sender(address)
    client.transfer(sender, b"\x00\x53\x72\xc1")
    assert reason(client)[0] == "amqp:decode-error"


def test_an_empty_transfer_on_a_link_route_is_rejected_at_once(router: RouterProcess, client: RawClient) -> None:
    """The link goes on: the container does not see it."""
    with ManagementClient(router.url) as management:
        wait_until(lambda: management.query("linkRoute", ["operStatus"])[0]["operStatus"] == "active")
    address = f"routed.{fresh()}"
    with Client(router.url) as other:
        receiver = other.receiver(address, credit=10)
        sender = client.attach_sender(address)
        client.transfer(sender, b"")
        assert reason(client)[0] == "amqp:decode-error"
        client.transfer(sender, BODY)
        got = receiver.next()
        got.accept()
        assert got.message.body == "hello"
    assert outcome(client).descriptor == 0x24


def test_a_refused_link_is_answered_with_the_modes_asked_for(client: RawClient) -> None:
    client.put(
        Attach("refused", 9, True, snd_settle_mode=1, rcv_settle_mode=1, source=Terminus("source"), target=None)
    )
    answer = client.expect(Attach)
    assert (answer.source, answer.snd_settle_mode, answer.rcv_settle_mode) == (None, 1, 1)
    assert client.expect(Detach).error is not None


def test_sections_may_have_symbolic_descriptors(client: RawClient) -> None:
    """The address in `to` is found, and the annotations of the client stay."""
    address = fresh()
    client.attach_receiver(address, credit=10)
    sender = client.attach_sender(None)
    annotations = symbolic("amqp:message-annotations:map", {Symbol("x-opt-mine"): 7})
    properties = symbolic("amqp:properties:list", ["id", None, address])
    client.transfer(sender, symbolic("amqp:header:list", [True]) + annotations + properties + BODY)
    _, payload = client.delivery()
    message = decode_message(payload)
    assert (message.to, message.body) == (address, "hello")
    assert message.message_annotations == {"x-opt-mine": 7}
