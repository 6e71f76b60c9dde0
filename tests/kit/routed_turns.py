"""Cases of long turns with link routes: many routed links, sessions for them, or deliveries on one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.demand_turns import DEMAND_CASES
from tests.kit.long_turns import CASES, LINKS_A_SESSION, MOST, SETTINGS, Case, Scene, drop
from tests.kit.pump import Peer
from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_amqp.performatives import ErrorInfo, Terminus
from waymesh_router.core.containers.autolink import ACTIVE, FAILED, LAST_FORBIDDEN_S

ROUTE: Final = {"identity": "1", "direction": "both", "prefix": "b", "connection": "broker"}
SESSIONS_OF: Final = 4
"""So many things are one session with a routed link."""
WIDE: Final = {"incoming_window": MOST, "outgoing_window": MOST}

Built = tuple[Scene, Callable[[], object]]


class RoutedScene(Scene):
    """A core with a container, whose output is dropped like that of all peers once `rest` was called."""

    def __init__(self) -> None:
        super().__init__()
        self.core.linkroutes.add(ROUTE)
        self.container = Container(self.hub, credit=MOST, settings=SETTINGS)
        self.container.conn.link_capacity = MOST

    def rest(self) -> None:
        """The container answers nothing more."""
        self.hub.turn()
        self.container.peer.end.on_bytes = drop

    def open_windows(self) -> None:
        """The container takes and sends as many frames as it wants."""
        for session in self.container.conn.sessions.values():
            session.window_end = session.next_incoming_id + MOST
            self.container.send(frames.flow(session.channel, **WIDE))

    def sender(self, count: int) -> Peer:
        """A client that has sent this many unsettled deliveries to the container."""
        peer = self.senders(1, lambda _: "b/q")
        self.open_windows()
        self.rest()
        for number in range(count):
            peer.end.feed(frames.transfer(number))
            self.now_and_then(number)
        self.hub.turn()
        (session,) = self.container.conn.sessions.values()
        assert session.unsettled_out.count == count
        return peer

    def receiver(self, count: int) -> Peer:
        """A client that has received this many unsettled deliveries from the container."""
        peer = self.receivers(1, lambda _: "b/q", credit=MOST)
        self.open_windows()
        self.rest()
        (link,) = self.container.links
        for number in range(count):
            self.container.peer.end.feed(frames.transfer(number, handle=link.handle, channel=link.channel))
            self.now_and_then(number)
        self.hub.turn()
        assert peer.session().unsettled_out.count == count
        return peer

    def sessions(self, count: int) -> Peer:
        """A client with this many sessions, each with a routed link."""
        peer = self.peer()
        for channel in range(count):
            if channel:
                peer.end.feed(frames.begin(channel))
            peer.end.feed(frames.attach_sender(f"s{channel}", channel=channel, address="b/q"))
            self.now_and_then(channel)
        self.rest()
        assert peer.conn.links == count
        return peer


def _container_lost(count: int) -> Built:
    scene = RoutedScene()
    scene.sender(count)
    return scene, lambda: scene.container.conn.eof("killed")


def _sender_lost(count: int) -> Built:
    scene = RoutedScene()
    peer = scene.sender(count)
    return scene, lambda: peer.conn.eof("killed")


def _receiver_lost(count: int) -> Built:
    scene = RoutedScene()
    peer = scene.receiver(count)
    return scene, lambda: peer.conn.eof("killed")


def _receiver_detached(count: int) -> Built:
    scene = RoutedScene()
    peer = scene.receiver(count)
    return scene, lambda: scene.send(peer, frames.detach())


def _links_of_container(count: int) -> Built:
    scene = RoutedScene()
    scene.senders(count, "b/{}".format)
    scene.rest()
    return scene, lambda: scene.container.conn.eof("killed")


def _links_of_client(count: int) -> Built:
    scene = RoutedScene()
    peer = scene.senders(count, "b/{}".format)
    scene.rest()
    return scene, lambda: peer.conn.eof("killed")


def _sessions_idle(count: int) -> Built:
    scene = RoutedScene()
    peer = scene.sessions(count // SESSIONS_OF)
    peer.conn.eof("killed")
    for turn in scene.turns(lambda: None):
        turn()
    for session in scene.container.conn.sessions.values():
        for handle in range(len(session.links)):
            scene.container.peer.end.feed(frames.detach(handle, channel=session.channel, closed=True))
    return scene, scene.core.routed_attaches.tick


def _routes(count: int) -> Scene:
    """Link routes to a container that is not there."""
    scene = Scene()
    for number in range(count):
        scene.core.linkroutes.add({**ROUTE, "identity": f"{number}", "prefix": f"b.{number}"})
    return scene


def _container_comes(count: int) -> Built:
    scene = _routes(count)
    return scene, lambda: Container(scene.hub)


def _container_goes(count: int) -> Built:
    scene = _routes(count)
    container = Container(scene.hub)
    for turn in scene.turns(lambda: None):
        turn()
    assert len(list(scene.core.linkroutes.advertised())) == 2 * count
    return scene, lambda: container.conn.eof("killed")


def _autolinks(scene: Scene, count: int) -> None:
    """Autolinks to a container, half of them incoming."""
    for number in range(count):
        direction = ("in", "out")[number % 2]
        attrs = {"identity": f"{number}", "direction": direction, "address": f"q.{number}", "connection": "broker"}
        scene.core.autolinks.add(attrs)


def _autolinks_come(count: int) -> Built:
    scene = Scene()
    _autolinks(scene, count)
    return scene, lambda: Container(scene.hub, settings=SETTINGS)


def _autolinks_refused(count: int) -> Built:
    """The delay of all of them is over at once."""
    scene = Scene()
    container = Container(scene.hub, settings=SETTINGS)
    container.refusal = ErrorInfo(NOT_ALLOWED, "not now")
    for turn in scene.turns(lambda: _autolinks(scene, count)):
        turn()
    assert all(auto.status == FAILED for auto in scene.core.autolinks.all())
    scene.core.now += LAST_FORBIDDEN_S
    return scene, lambda: scene.core.autolinks.tick(scene.core.now)


def _autolinks_go(count: int) -> Built:
    scene = Scene()
    container = Container(scene.hub, settings=SETTINGS)
    for turn in scene.turns(lambda: _autolinks(scene, count)):
        turn()
    assert all(auto.status == ACTIVE for auto in scene.core.autolinks.all())
    return scene, lambda: container.conn.eof("killed")


def _dynamic(count: int) -> Built:
    scene = RoutedScene()
    peer = scene.senders(count, "a/{}".format)
    channel, handle = (count - 1) // LINKS_A_SESSION, min(count, LINKS_A_SESSION)
    source = Terminus("source", dynamic=True)
    return scene, lambda: peer.end.feed(frames.attach_receiver("dynamic", handle, channel=channel, source=source))


ALL_CASES: Final[Mapping[str, Case]] = {
    **CASES,
    **DEMAND_CASES,
    "routed-container": Case("a container is lost; unsettled deliveries on a link route to it", _container_lost),
    "routed-sender": Case("their sender is lost; unsettled deliveries on a link route", _sender_lost),
    "routed-receiver": Case("their receiver is lost; unsettled deliveries on a link route", _receiver_lost),
    "routed-detach": Case("their receiver detaches; unsettled deliveries on a link route", _receiver_detached),
    "routed-links": Case("a container is lost; routed links to it", _links_of_container),
    "routed-client": Case("a client is lost; its routed links", _links_of_client),
    "routes-there": Case("a container connects; link routes to it", _container_comes),
    "routes-gone": Case("a container is lost; link routes to it", _container_goes),
    "autolinks-there": Case("a container connects; autolinks to it", _autolinks_come),
    "autolinks-refused": Case("they are tried again; autolinks that a container has refused", _autolinks_refused),
    "autolinks-gone": Case("a container is lost; autolinks to it", _autolinks_go),
    "dynamic": Case("a client attaches a receiver with a dynamic address; other links of its session", _dynamic),
    "routed-sessions": Case("their links are gone; sessions for routed links, a quarter as many", _sessions_idle),
}
