"""Many clients of a link route to a container with few channels and handles, which answers begins late.

The container answers no begin before all its channels are in use, so the router cannot know how many links a session
takes when the clients attach.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.interop.raw_client import WINDOW, RawClient, accepted
from tests.kit.fixtures import StartMesh, StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Detach,
    End,
    Flow,
    Terminus,
    Transfer,
)
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

CLIENTS = 300
CHANNEL_MAX = 63


class SlowBroker:
    """A container that accepts one connection at a time. Once it has answered the begins, it answers each attach, and
    sends the address of a link on it when it has credit."""

    def __init__(self, acceptor: socket.socket, handle_max: int) -> None:
        self._acceptor = acceptor
        self._handle_max = handle_max
        self._attaches: dict[tuple[int, int], Attach] = {}
        self._sent: Counter[int] = Counter()  # deliveries, by channel
        self.links: Counter[int] = Counter()
        """Links by channel."""

    def accept(self) -> None:
        """The next connection of the router, opened."""
        self._peer = accepted(self._acceptor, container_id="slow", channel_max=CHANNEL_MAX)
        self._attaches.clear()
        self._sent.clear()
        self.links.clear()

    def answer_begins(self) -> None:
        """Wait until all channels are in use, then answer all begins."""
        channels: list[int] = []
        while len(channels) <= CHANNEL_MAX:
            performative, _ = self._peer.frame()
            assert isinstance(performative, (Begin, Attach)), performative
            if isinstance(performative, Begin):
                channels.append(self._peer.channel)
            else:
                self._take(performative)
        assert max(channels) == CHANNEL_MAX
        windows: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW}
        for channel in channels:
            self._peer.put(Begin(remote_channel=channel, handle_max=self._handle_max, **windows), channel=channel)
        for (channel, _), attach in self._attaches.items():
            self._answer(channel, attach)

    def serve(self, deliveries: int) -> None:
        """Answer attaches until so many deliveries have been sent in all."""
        while self._sent.total() < deliveries:
            performative, _ = self._peer.frame()
            channel = self._peer.channel
            assert not isinstance(performative, (Detach, End)), performative
            if isinstance(performative, Attach):
                self._take(performative)
                self._answer(channel, performative)
            elif isinstance(performative, Flow) and performative.handle is not None and performative.link_credit:
                self._deliver(channel, performative.handle)

    def leave(self) -> None:
        """End the connection without a close."""
        self._peer.__exit__()

    def _take(self, attach: Attach) -> None:
        channel = self._peer.channel
        assert attach.handle <= self._handle_max, "the container would close the connection"
        self._attaches[channel, attach.handle] = attach
        self.links[channel] += 1

    def _answer(self, channel: int, attach: Attach) -> None:
        answer = Attach(
            name=attach.name,
            handle=attach.handle,
            role=False,
            source=attach.source,
            target=attach.target,
            initial_delivery_count=0,
        )
        self._peer.put(answer, channel=channel)

    def _deliver(self, channel: int, handle: int) -> None:
        number = self._sent[channel]
        self._sent[channel] += 1
        source = self._attaches[channel, handle].source
        assert source is not None
        tag = number.to_bytes(4, "big")
        transfer = Transfer(handle=handle, delivery_id=number, delivery_tag=tag, message_format=0, settled=True)
        self._peer.put(transfer, str(source.address).encode(), channel=channel)


class Crowd:
    """Clients with one receiver each, which are attached at once."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._clients = [stack.enter_context(RawClient(port)) for _ in range(CLIENTS)]
        for number, client in enumerate(self._clients):
            client.open(container_id=f"client{number}")
            client.begin()

    def attach(self) -> None:
        """Send all attaches, and credit."""
        for number, client in enumerate(self._clients):
            source, target = Terminus(kind="source", address=f"slow.{number}"), Terminus(kind="target")
            client.put(Attach(name="l", handle=0, role=True, source=source, target=target))
            client.flow(0, 1)

    def answers(self) -> Counter[str]:
        """How many links work; and of the refused ones, the conditions."""
        found: Counter[str] = Counter()
        for number, client in enumerate(self._clients):
            answer = client.expect(Attach)
            if answer.source is None:
                detach = client.expect(Detach)
                assert detach.error is not None
                found[str(detach.error.condition)] += 1
                client.put(Detach(handle=0, closed=True))
                continue
            _, payload = client.delivery()
            assert payload == f"slow.{number}".encode()
            found["attached"] += 1
        return found

    def detached(self) -> None:
        """Wait until all links are detached, and answer."""
        for client in self._clients:
            client.expect(Detach)
            client.put(Detach(handle=0, closed=True))


def _patient(port: int) -> str:
    """A listener for clients that send no empty frames."""
    return section("listener", host="127.0.0.1", port=port, idleTimeoutSeconds=0)


def _served(router: RouterProcess, count: str) -> bool:
    """Whether the router knows a container of the link route: its own (containerCount), or another router's."""
    with ManagementClient(router.url) as management:
        rows = {row["name"]: row for row in management.query("router.address")}
    return bool(rows.get("Dslow", {}).get(count))


@pytest.fixture
def acceptor() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(60.0)
        yield found


def _settings(acceptor: socket.socket) -> str:
    place: dict[str, Any] = {"host": "127.0.0.1", "port": acceptor.getsockname()[1]}
    connector = section("connector", name="broker", role="route-container", idleTimeoutSeconds=0, **place)
    route = {"prefix": "slow", "connection": "broker"}
    return connector + section("linkRoute", direction="in", **route) + section("linkRoute", direction="out", **route)


@pytest.mark.parametrize("handle_max", [255, 4])
def test_all_are_attached_at_once_and_after_a_reconnect(
    start_router: StartRouter, acceptor: socket.socket, handle_max: int
) -> None:
    port = free_port()
    router = start_router(extra=_settings(acceptor) + _patient(port))
    broker = SlowBroker(acceptor, handle_max)
    with ExitStack() as stack:
        broker.accept()
        crowd = Crowd(port, stack)
        wait_until(lambda: _served(router, "containerCount"))
        for left in (1, 0):
            crowd.attach()
            broker.answer_begins()
            broker.serve(CLIENTS)
            assert crowd.answers() == {"attached": CLIENTS}
            assert broker.links.total() == CLIENTS
            assert max(broker.links.values()) <= handle_max + 1
            broker.leave()
            if left:
                crowd.detached()
                broker.accept()
                wait_until(lambda: _served(router, "containerCount"))


def test_clients_of_the_next_router_are_attached_too(start_mesh: StartMesh, acceptor: socket.socket) -> None:
    port = free_port()
    mesh = start_mesh(2)
    a, b = mesh.routers
    here: dict[str, Any] = {"host": "127.0.0.1", "port": port, "idleTimeoutSeconds": 0}
    there: dict[str, Any] = {"host": "127.0.0.1", "port": acceptor.getsockname()[1], "idleTimeoutSeconds": 0}
    with ManagementClient(a.url) as management:
        management.create("listener", here)
    with ManagementClient(b.url) as management:
        management.create("connector", {**there, "role": "route-container"}, name="broker")
        management.create("linkRoute", {"prefix": "slow", "connection": "broker", "direction": "out"})
    broker = SlowBroker(acceptor, 255)
    with ExitStack() as stack:
        broker.accept()
        crowd = Crowd(port, stack)
        wait_until(lambda: _served(a, "remoteCount"))
        crowd.attach()
        broker.answer_begins()
        broker.serve(CLIENTS)
        assert crowd.answers() == {"attached": CLIENTS}


def test_only_those_are_refused_that_cannot_fit(start_router: StartRouter, acceptor: socket.socket) -> None:
    port = free_port()
    router = start_router(extra=_settings(acceptor) + _patient(port))
    broker = SlowBroker(acceptor, 0)
    with ExitStack() as stack:
        broker.accept()
        crowd = Crowd(port, stack)
        wait_until(lambda: _served(router, "containerCount"))
        crowd.attach()
        broker.answer_begins()
        broker.serve(CHANNEL_MAX + 1)
        fit = CHANNEL_MAX + 1
        assert crowd.answers() == {"attached": fit, "amqp:resource-limit-exceeded": CLIENTS - fit}
