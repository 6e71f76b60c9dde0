"""Routed links that end with thousands of deliveries: each delivery ends once, before the link of the other side does,
whatever comes between the portions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Attached, Container
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Detach, Disposition, ErrorInfo, Terminus
from waymesh_amqp.types import decode
from waymesh_router.core.link_routing.endings import LINK_LOST
from waymesh_router.core.settlement.outcomes import MODIFIED_FAILED

FAILED = decode(MODIFIED_FAILED)[0]
MANY = 2_000
MOST = 1 << 30
WIDE = {"incoming_window": MOST, "outgoing_window": MOST}
DURABLE: Any = {"source": Terminus("source", address="b.q", durable=2, expiry_policy="never")}


class Scene:
    """A client with a routed link to a container. `noted`: what the client was sent, outcomes by delivery-id."""

    def __init__(self) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.core.budget.set_limits(MOST, MOST, MOST)
        self.core.linkroutes.add({"identity": "1", "direction": "both", "prefix": "b", "connection": "broker"})
        self.container = Container(self.hub, credit=MOST)
        self.container.conn.link_capacity = MOST
        self.client = self.connect()
        self.outcomes: dict[int, list[Any]] = {}
        self.detaches: list[Detach] = []

    def connect(self, container_id: str = "client") -> Peer:
        peer = self.hub.peer().open(container_id=container_id)
        peer.conn.link_capacity = MOST
        return peer.begin(**WIDE)

    def link(self) -> Attached:
        return self.container.links[0]

    def widen(self) -> None:
        """The container takes any number of frames, and the client sends any number."""
        for conn in (self.container.conn, self.client.conn):
            for session in conn.sessions.values():
                session.window_end = session.next_incoming_id + MOST
        self.container.send(frames.flow(self.link().channel, **WIDE))

    def sending(self) -> Scene:
        """MANY unsettled deliveries of the client's are at the container."""
        self.client.send(frames.attach_sender(address="b.q"))
        self.widen()
        self.send(range(MANY))
        assert self.rings() == (MANY, MANY)
        return self

    def receiving(self) -> Scene:
        """MANY unsettled deliveries of the container's are at the client."""
        self.client.send(frames.attach_receiver(**DURABLE), frames.credit(MOST, **WIDE))
        self.widen()
        link = self.link()
        for number in range(MANY):
            self.container.send(frames.transfer(number, handle=link.handle, channel=link.channel))
            self.client.take()
        assert self.rings() == (MANY, MANY)
        return self

    def send(self, ids: range, **over: Any) -> None:
        for number in ids:
            self.client.end.feed(frames.transfer(number, **over))
        self.look()

    def tell(self, data: bytes) -> None:
        """The client sends something."""
        self.client.end.feed(data)
        self.look()

    def look(self) -> None:
        for seen in self.client.frames():
            one = seen.performative if isinstance(seen, Seen) else None
            if isinstance(one, Detach):
                self.detaches.append(one)
            if isinstance(one, Disposition):
                assert not self.detaches, "an outcome after the detach is for nobody"
                for number in range(one.first, (one.first if one.last is None else one.last) + 1):
                    self.outcomes.setdefault(number, []).append(one.state)

    def finish(self) -> None:
        while self.core.context.portions:
            self.core.context.portions.run()
            self.look()
        assert self.rings() == (0, 0)
        assert self.core.budget.kept == 0
        assert all(link.partner is None or not link.over for link in self.core.links.values())

    def rings(self) -> tuple[int, int]:
        """Unsettled deliveries at the client and at the container."""
        found = []
        for conn in (self.client.conn, self.container.conn):
            rings = [(s.unsettled_in.count, s.unsettled_out.count) for s in conn.sessions.values()]
            found.append(sum(sum(pair) for pair in rings))
        return found[0], found[1]

    def states(self) -> list[Any]:
        """The outcomes of all deliveries, each of which has one."""
        assert {len(states) for states in self.outcomes.values()} == {1}
        return [self.outcomes[number][0] for number in sorted(self.outcomes)]


Loss = Callable[[Scene], object]
OF_CONTAINER: dict[str, Loss] = {
    "connection": lambda scene: scene.container.peer.kill(),
    "session": lambda scene: scene.container.end(scene.link().channel),
    "link": lambda scene: scene.container.detach(scene.link()),
}
OF_CLIENT: dict[str, Loss] = {
    "connection": lambda scene: scene.client.kill(),
    "session": lambda scene: scene.tell(frames.end()),
    "link": lambda scene: scene.tell(frames.detach(closed=False)),
}


@pytest.mark.parametrize("lost", OF_CONTAINER)
def test_a_lost_container(lost: str) -> None:
    scene = Scene().sending()
    OF_CONTAINER[lost](scene)
    scene.look()
    assert 0 < len(scene.outcomes) < MANY, "some now, the others in portions"
    assert scene.detaches == []
    scene.finish()
    assert scene.states() == [FAILED] * MANY
    (detach,) = scene.detaches
    condition = None if detach.error is None else detach.error.condition
    assert condition == (None if lost == "link" else LINK_LOST)


@pytest.mark.parametrize("settled", [False, True])
def test_what_a_client_sends_meanwhile_is_released(settled: bool) -> None:
    scene = Scene().sending()
    scene.container.peer.kill()
    scene.send(range(MANY, MANY + 3), settled=settled)
    scene.send(range(MANY + 3, MANY + 4), more=True, settled=settled)
    scene.finish()
    assert scene.states() == [FAILED] * MANY + ([] if settled else [RELEASED] * 4)
    assert len(scene.detaches) == 1


def test_a_container_that_settles_after_its_detach() -> None:
    scene = Scene().sending()
    link = scene.link()
    scene.container.detach(link)
    scene.container.send(frames.disposition(0, channel=link.channel, last=MANY - 1))
    scene.finish()
    assert len(scene.states()) == MANY
    assert all(state in (FAILED, ACCEPTED) for state in scene.states())
    assert ACCEPTED in scene.states()


@pytest.mark.parametrize("then", OF_CLIENT)
@pytest.mark.parametrize("lost", OF_CONTAINER)
def test_a_client_that_leaves_after_its_container(lost: str, then: str) -> None:
    scene = Scene().sending()
    OF_CONTAINER[lost](scene)
    OF_CLIENT[then](scene)
    scene.finish()
    assert then != "link" or len(scene.detaches) == 1, "its detach is answered"
    assert all(len(states) == 1 for states in scene.outcomes.values())


@pytest.mark.parametrize("then", OF_CONTAINER)
@pytest.mark.parametrize("lost", OF_CLIENT)
@pytest.mark.parametrize("direction", ["sending", "receiving"])
def test_a_container_that_leaves_after_its_client(lost: str, then: str, direction: str) -> None:
    scene = getattr(Scene(), direction)()
    OF_CLIENT[lost](scene)
    OF_CONTAINER[then](scene)
    scene.finish()
    assert lost != "link" or len(scene.detaches) == 1, "its detach is answered"


@pytest.mark.parametrize("lost", OF_CLIENT)
@pytest.mark.parametrize("direction", ["sending", "receiving"])
def test_a_lost_client(lost: str, direction: str) -> None:
    """The container decides about the deliveries: it gets no outcomes, and a detach without an error."""
    scene = getattr(Scene(), direction)()
    OF_CLIENT[lost](scene)
    scene.look()
    assert scene.link().detach is None
    assert scene.detaches == []
    scene.finish()
    assert scene.link().detach == Detach(scene.link().handle)
    assert scene.container.outcomes == []
    assert lost != "link" or [detach.closed for detach in scene.detaches] == [False]


def test_a_detach_is_answered_after_that_of_the_container() -> None:
    scene = Scene().receiving()
    scene.container.refusal = ErrorInfo("x", "")  # it does not answer detaches
    scene.tell(frames.detach(closed=False))
    scene.finish()
    assert scene.link().detach is not None
    assert scene.detaches == []
    scene.container.send(frames.detach(scene.link().handle, channel=scene.link().channel, closed=False))
    scene.look()
    assert len(scene.detaches) == 1


@pytest.mark.parametrize("lost", OF_CLIENT)
def test_a_client_that_returns_meanwhile_gets_its_subscription(lost: str) -> None:
    scene = Scene().receiving()
    OF_CLIENT[lost](scene)
    again = scene.client if lost == "link" else scene.connect()
    again.send(frames.attach_receiver(handle=1, **DURABLE), frames.credit(MOST, 1, **WIDE))
    scene.finish()
    first, second = scene.container.links
    assert first.attach.name == second.attach.name
    assert first.detach == Detach(first.handle)
    assert second.detach is None
    scene.container.send(frames.transfer(0, b"next", handle=second.handle, channel=second.channel))
    assert b"next" in [seen.payload for seen in again.frames() if isinstance(seen, Seen)]


def test_a_container_that_returns_meanwhile_gets_new_links_only() -> None:
    scene = Scene().sending()
    scene.container.peer.kill()
    returned = Container(scene.hub, credit=10)
    scene.tell(frames.attach_sender("more", 1, address="b.q"))
    scene.tell(frames.transfer(MANY, b"new", handle=1, settled=True))
    scene.finish()
    assert [link.bodies for link in returned.links] == [[b"new"]]
    assert scene.states() == [FAILED] * MANY
