"""`waymesh up`: clients move to routers that were added, none of them twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proton
import pytest
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.kit.garbage import GARBAGE
from tests.kit.local_mode import DEADLINE_S, Up, mesh_up
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.e2e

CLIENTS = 60
OLDER_S = 8.0
"""Ages are whole seconds, read some time apart: who connected just before a router started may be taken for younger."""
TEXT = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 3
  listeners: [{name: amqp, port: 5672}]
"""


class Crowd(MessagingHandler):  # type: ignore[misc]
    """Clients that connect anew, to one router after the other, when their connection ends.

    What a router did not accept they send again: a client may have to move while its message is under way.
    """

    def __init__(self, urls: Callable[[], list[str]]) -> None:
        super().__init__()
        self.urls = urls
        self.places: dict[int, str] = {}
        self.moves: Counter[int] = Counter()
        self.received: set[int] = set()
        self.accepted: set[int] = set()
        self.senders: dict[int, proton.Sender] = {}
        self._turn = 0
        self._exchanging = False
        self._stopping = False
        self._wake = EventInjector()
        self.container = Container(self)
        self.container.selectable(self._wake)
        GARBAGE.hold()
        self.thread = threading.Thread(target=self.container.run, name="crowd", daemon=True)
        self.thread.start()

    def on_start(self, event: Any) -> None:
        for number in range(CLIENTS):
            self._connect(number, self.urls()[number % 3])

    def _connect(self, number: int, url: str) -> None:
        connection = self.container.connect(url, reconnect=False, allowed_mechs="ANONYMOUS")
        connection.number, connection.place = number, url
        self.container.create_receiver(connection, f"client-{number}")
        self.senders[number] = self.container.create_sender(connection, f"client-{number}")
        if self._exchanging:
            self._send(number)

    def _send(self, number: int) -> None:
        """Sends the message of a client to itself, if no router has accepted it yet."""
        if number not in self.accepted:
            self.senders[number].send(proton.Message(body=number))

    def on_connection_opened(self, event: Any) -> None:
        self.places[event.connection.number] = event.connection.place

    def on_transport_error(self, event: Any) -> None:
        """Not logged: `on_transport_closed` follows."""

    def on_transport_closed(self, event: Any) -> None:
        if self._stopping:
            return
        number = event.connection.number
        if self.places.pop(number, None) is not None:
            self.moves[number] += 1
        self._turn += 1
        urls = self.urls()
        self._connect(number, urls[self._turn % len(urls)])

    def on_message(self, event: Any) -> None:
        self.received.add(event.message.body)

    def on_accepted(self, event: Any) -> None:
        self.accepted.add(event.connection.number)

    def on_released(self, event: Any) -> None:
        """Also after the outcome `modified`, as python-qpid-proton reports it."""
        self._send(event.connection.number)

    def on_exchange(self, event: Any) -> None:
        self._exchanging = True
        for number in range(CLIENTS):
            self._send(number)

    def on_leave(self, event: Any) -> None:
        self.container.stop()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping = True
        self._wake.trigger(ApplicationEvent("leave"))
        self._wake.close()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()
        GARBAGE.let_go()

    def exchange(self) -> None:
        """Each client sends a message to itself."""
        self._wake.trigger(ApplicationEvent("exchange"))

    def largest(self) -> int:
        """Clients of the router that has the most."""
        return max(Counter(list(self.places.values())).values(), default=0)


def urls(up: Up, size: int) -> list[str]:
    return [up.url(f"mesh-{k}") for k in range(size)]


def test_clients_move_to_added_routers_and_none_twice(tmp_path: Path) -> None:
    sizes = [3]
    with mesh_up(tmp_path, TEXT, "mesh is ready: 3 routers") as up, Crowd(lambda: urls(up, sizes[-1])) as crowd:
        wait_until(lambda: len(crowd.places) == CLIENTS, DEADLINE_S, "all are connected")
        assert crowd.largest() == CLIENTS // 3
        connected = time.monotonic()
        wait_until(lambda: time.monotonic() > connected + OLDER_S, what="clients that are older than the added routers")
        up.edit("size: 3", "size: 5")
        up.wait_for("mesh is ready: 5 routers")
        sizes.append(5)

        def balanced() -> bool:
            return len(crowd.places) == CLIENTS and crowd.largest() <= 1.3 * CLIENTS / 5

        wait_until(balanced, 2 * DEADLINE_S, "no router has more than 1.3 times its share")
        crowd.exchange()
        wait_until(
            lambda: len(crowd.accepted) == len(crowd.received) == CLIENTS, DEADLINE_S, "each client has its message"
        )
        assert max(crowd.moves.values()) == 1
