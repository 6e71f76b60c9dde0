"""Link routes to a container with a small channel-max or handle-max, which it tells late. Spec: 2.4.1, 2.5.1, 2.7.2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Peer, core_hub, core_of
from tests.spec.test_spec_link_routes import ENTITY
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import Attach, Begin, Detach, Disposition


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
        self.broker.end.feed(frames.begin(channel=channel, remote_channel=channel, handle_max=self.handle_max))
        self.hub.finish()
        self.look(self.broker.frames())

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


def addressed(number: int) -> bytes:
    return encode_message(Message(to=f"q.{number}", body="x"))


def autolinks(small: Small, directions: str) -> list[Any]:
    """Autolinks in these directions, i and o, on the connection of the container."""
    core = core_of(small.hub)
    for number, direction in enumerate(directions):
        way = "in" if direction == "i" else "out"
        core.autolinks.add(
            {"identity": str(number), "address": f"a{number}", "direction": way, "connection": "broker", "phase": None}
        )
    small.look(small.broker.frames())
    return list(core.autolinks.all())


@pytest.mark.parametrize(("channel_max", "handle_max", "directions"), [
    (0, 255, "ioioioioio"), (0, 1, "io"), (0, 3, "iioo"), (1, 2, "iiiooo"), (63, 0, "ioio" * 8), (7, 3, "i" * 30 + "o"),
])  # fmt: skip
def test_autolinks_wait_for_the_limits_and_all_that_fit_are_attached(
    channel_max: int, handle_max: int, directions: str
) -> None:
    small = Small(channel_max, handle_max)
    made = autolinks(small, directions)
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == len(directions)
    assert [auto.last_error for auto in made] == [None] * len(made)
    assert not small.broker.conn.over


def test_autolinks_that_cannot_fit_fail_with_the_reason() -> None:
    small = Small(channel_max=0, handle_max=1)
    made = autolinks(small, "iioo")
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 2
    assert sorted(auto.last_error is None for auto in made) == [False, False, True, True]


def test_autolinks_and_link_routes_share_the_only_session() -> None:
    small = Small(channel_max=0, handle_max=7)
    autolinks(small, "io")
    for _ in range(4):
        small.client()
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 6
    assert small.refused() == 0


def test_a_removed_autolink_is_not_attached_later() -> None:
    small = Small(channel_max=0, handle_max=7)
    autolinks(small, "iii")
    core_of(small.hub).autolinks.remove("2")
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 2


def test_links_for_anonymous_senders_wait_for_the_limits_with_their_messages() -> None:
    small = Small(channel_max=0, handle_max=3)
    sender = small.hub.peer().open().begin()
    sender.send(frames.attach_sender(address=None))
    for number in range(4):
        sender.send(frames.transfer(number, addressed(number)))
    small.look(small.broker.frames())
    assert sum(small.links.values()) == 1
    while small.begun:
        small.answer_begin()
    assert sum(small.links.values()) == 4
    assert not [p for p in sender.take() if isinstance(p, Disposition)], "no message is released"
    sender.send(frames.transfer(4, addressed(4)))
    assert sum(small.links.values()) == 4, "the fifth cannot fit"
