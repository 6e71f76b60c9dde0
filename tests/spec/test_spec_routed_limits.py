"""Link routes to a container with a small channel-max or handle-max, which it tells late. Spec: 2.4.1, 2.5.1, 2.7.2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Peer, core_hub
from tests.spec.test_spec_link_routes import ENTITY
from waymesh_amqp.performatives import Attach, Begin, Detach


class Small:
    """A container that answers a begin when it is told to, and no attach."""

    def __init__(self, channel_max: int, handle_max: int) -> None:
        self.hub = core_hub()
        core: Any = self.hub.handler
        core.linkroutes.add(ENTITY)
        self.broker = self.hub.peer()
        self.broker.conn.role, self.broker.conn.origin = "route-container", "broker"
        self.broker.conn.settings.container_id = core.router_id
        self.broker.open(container_id="broker", channel_max=channel_max)
        self.handle_max = handle_max
        self.begun: list[int] = []  # channels of begins that wait for an answer
        self.links: dict[int, int] = {}  # by channel
        self.clients: list[Peer] = []

    def client(self, links: int = 1) -> Peer:
        """A client that attaches at once."""
        peer = self.hub.peer().open(container_id=f"client{len(self.clients)}").begin()
        self.clients.append(peer)
        answers = peer.send(*(frames.attach_receiver(f"l{number}", number) for number in range(links)))
        assert not answers, "the container has answered nothing yet"
        self.look(self.broker.frames())
        return peer

    def look(self, seen: list[Any]) -> None:
        """Note what the router asks for."""
        for frame in seen:
            if isinstance(frame.performative, Begin):
                self.begun.append(frame.channel)
            elif isinstance(frame.performative, Attach):
                assert frame.performative.handle <= self.handle_max, "the container would close the connection"
                self.links[frame.channel] = self.links.get(frame.channel, 0) + 1

    def answer_begin(self) -> None:
        channel = self.begun.pop(0)
        self.look(
            self.broker.exchange(frames.begin(channel=channel, remote_channel=channel, handle_max=self.handle_max))
        )

    def refused(self) -> int:
        """Clients' links that were refused so far."""
        return sum(isinstance(p, Detach) for peer in self.clients for p in peer.take())


def test_sessions_that_are_not_answered_yet_are_shared_once_they_are() -> None:
    small = Small(channel_max=3, handle_max=255)
    for _ in range(20):
        small.client()
    assert (len(small.begun), sum(small.links.values())) == (4, 4)
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 20
    assert small.refused() == 0


@pytest.mark.parametrize("handle_max", [0, 1, 2])
def test_further_sessions_are_begun_where_one_takes_few_links(handle_max: int) -> None:
    small = Small(channel_max=7, handle_max=handle_max)
    small.client(links=6)
    assert sum(small.links.values()) == 1, "as long as the container has not told its handle-max"
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 6
    assert max(small.links.values()) == handle_max + 1
    assert small.refused() == 0


def test_only_what_cannot_fit_is_refused() -> None:
    small = Small(channel_max=1, handle_max=1)
    for _ in range(6):
        small.client()
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 4
    assert small.refused() == 2


def test_a_client_that_leaves_before_has_no_link() -> None:
    small = Small(channel_max=0, handle_max=255)
    small.client()
    leaving = small.client()
    leaving.send(frames.close())
    small.answer_begin()
    assert sum(small.links.values()) == 1
