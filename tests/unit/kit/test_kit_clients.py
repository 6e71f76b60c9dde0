"""The scripted client, against a small proton peer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.relay import relay
from tests.kit.clients import Client

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def client() -> Iterator[Client]:
    with relay() as url, Client(url) as value:
        yield value


def test_send_and_accept(client: Client) -> None:
    receiver = client.receiver("q", credit=5)
    sent = client.sender("q").send("hello")
    received = receiver.next()
    assert received.body == "hello"
    assert not received.settled
    received.accept()
    assert sent.outcome() == "accepted"


def test_outcomes(client: Client) -> None:
    receiver, sender = client.receiver("q", credit=5), client.sender("q")
    sent = sender.send(1)
    receiver.next().reject("my:condition", "no good")
    assert (sent.outcome(), sent.condition) == ("rejected", "my:condition: no good")
    sent = sender.send(2)
    receiver.next().release()
    assert sent.outcome() == "released"
    sent = sender.send(3)
    receiver.next().modify(failed=True, undeliverable=True, annotations={"x-key": "value"})
    assert (sent.outcome(), sent.failed, sent.undeliverable) == ("modified", True, True)
    assert {str(key): value for key, value in (sent.annotations or {}).items()} == {"x-key": "value"}


def test_presettled(client: Client) -> None:
    receiver = client.receiver("q", credit=1)
    assert client.sender("q", presettled=True).send("x").presettled
    assert receiver.next().settled


def test_credit_and_drain(client: Client) -> None:
    sender = client.sender("q")
    assert sender.wait_credit() > 0
    sender.send("x")
    receiver = client.receiver("q")
    receiver.flow(3)
    receiver.next().accept()
    assert receiver.credit == 2
    receiver.drain()
    assert receiver.credit == 0


def test_dynamic_address_and_detach(client: Client) -> None:
    receiver = client.receiver(None, credit=1, dynamic=True)
    client.sender(receiver.address).send("reply")
    assert receiver.next().body == "reply"
    receiver.close()


def test_nobody_listens() -> None:
    with pytest.raises(AssertionError, match="refused"):
        Client("amqp://127.0.0.1:1")
