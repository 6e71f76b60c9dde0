"""Proton clients that serve an address as its waypoint or fallback destination."""

from __future__ import annotations

from contextlib import ExitStack

import proton
import pytest
from proton.reactor import LinkOption

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

ADDRESSES = "address {\nprefix: stored\nenableFallback: yes\n}\naddress {\nprefix: queue\nwaypoint: yes\n}\n"


class Capability(LinkOption):
    """A capability of the terminus at the router."""

    def __init__(self, name: str) -> None:
        self._name = name

    def apply(self, link: proton.Link) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(proton.symbol(self._name))


def test_clients_keep_messages_and_bring_them_back(start_router: StartRouter) -> None:
    router = start_router(extra=ADDRESSES)
    address = fresh("stored")
    with ExitStack() as stack:
        keeper, client = (stack.enter_context(Client(router.url)) for _ in range(2))
        kept = keeper.receiver(address, 10, options=[Capability("qd.fallback")])
        sent = client.sender(address).send("kept")
        message = kept.next()
        message.accept()
        assert (message.body, sent.outcome()) == ("kept", "accepted")
        back = keeper.sender(address, options=[Capability("qd.fallback")])
        receiver = client.receiver(address, 10)
        again = back.send(message.body)
        receiver.next().accept()
        assert again.outcome() == "accepted"
        refused = client.receiver(fresh("plain"), wait=False, options=[Capability("qd.fallback")]).wait_detached()
        assert str(refused).startswith("amqp:precondition-failed: ")


@pytest.mark.parametrize("second", ["qd.waypoint_1", "qd.waypoint.1"])
def test_a_client_is_a_waypoint(start_router: StartRouter, second: str) -> None:
    router = start_router(extra=ADDRESSES)
    address = fresh("queue")
    with ExitStack() as stack:
        waypoint, client = (stack.enter_context(Client(router.url)) for _ in range(2))
        receiver = client.receiver(address, 10)
        taking = waypoint.receiver(address, 10, options=[Capability("qd.waypoint")])
        giving = waypoint.sender(address, options=[Capability(second)])
        sent = client.sender(address).send("x")
        message = taking.next()
        passed = giving.send(message.body)
        received = receiver.next()
        received.accept()
        assert (received.body, passed.outcome()) == ("x", "accepted")
        message.accept()
        assert sent.outcome() == "accepted"
