"""Many clients in one thread, which connect again elsewhere when their connection ends, and send messages meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import proton
from proton.handlers import IOHandler, MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.kit.garbage import GARBAGE

STOP_S = 60.0


@dataclass(frozen=True)
class Traffic:
    """What each client sends: so many messages are always under way, each is accepted `work_s` after it came, and
    followed by another one `gap_s` after it was accepted. `ring`: to the next client, else to itself."""

    under_way: int = 1
    work_s: float = 0.0
    gap_s: float = 0.0
    ring: bool = False


class Crowd(MessagingHandler):
    """Clients that connect anew, to one router after the other, when their connection ends.

    What was not accepted they send again: a client may have to move while its message is under way.
    """

    def __init__(self, count: int, urls: Callable[[], list[str]], traffic: Traffic | None = None) -> None:
        super().__init__(auto_accept=False)
        self.count = count
        self.urls = urls
        self.traffic = traffic or Traffic()
        self.places: dict[int, str] = {}
        self.moves: Counter[int] = Counter()
        self.received: Counter[tuple[int, int]] = Counter()
        """Messages by client and number: how often they were accepted by their receiver."""
        self.accepted: set[tuple[int, int]] = set()
        """Messages whose senders know that."""
        self.cut = 0
        """Messages whose receiver lost its connection before it accepted them."""
        self.waiting: dict[int, set[int]] = {number: set() for number in range(count)}
        """Of each client, the messages that it has not seen accepted."""
        self._senders: dict[int, proton.Sender] = {}
        self._sent = 0
        self._turn = 0
        self._sending = False
        self._stopping = False
        self._wake = EventInjector()
        self.container = Container(self, global_handler=Transports())
        self.container.selectable(self._wake)
        GARBAGE.hold()
        self.thread = threading.Thread(target=self.container.run, name="crowd", daemon=True)
        self.thread.start()

    # ---- connections
    def on_start(self, event: Any) -> None:
        places = self.urls()
        for number in range(self.count):
            self._connect(number, places[number % len(places)])

    def _connect(self, number: int, url: str) -> None:
        connection = self.container.connect(url, reconnect=False, allowed_mechs="ANONYMOUS")
        connection.number, connection.place = number, url
        target = (number + 1) % self.count if self.traffic.ring else number
        self.container.create_receiver(connection, f"client-{number}")
        self._senders[number] = self.container.create_sender(connection, f"client-{target}")
        for message in sorted(self.waiting[number]):
            self._send(number, message)

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
        places = self.urls()
        self._connect(number, places[self._turn % len(places)])

    # ---- messages
    def _send(self, number: int, message: int) -> None:
        delivery: Any = self._senders[number].send(proton.Message(body=[number, message]))
        delivery.message = message

    def _send_new(self, number: int) -> None:
        if self._sending:
            self._sent += 1
            self.waiting[number].add(self._sent)
            self._send(number, self._sent)

    def on_message(self, event: Any) -> None:
        number, message = event.message.body
        delivery = event.delivery
        self._after(self.traffic.work_s, lambda: self._accept(delivery, (number, message)))

    def _accept(self, delivery: proton.Delivery, message: tuple[int, int]) -> None:
        if delivery.link.connection.transport is None:
            self.cut += not self._stopping
        else:
            self.received[message] += 1
            self.accept(delivery)

    def on_accepted(self, event: Any) -> None:
        number = event.connection.number
        self.waiting[number].discard(event.delivery.message)
        self.accepted.add((number, event.delivery.message))
        self._after(self.traffic.gap_s, lambda: self._send_new(number))

    def on_released(self, event: Any) -> None:
        """Also after the outcome `modified`, as python-qpid-proton reports it."""
        number = event.connection.number
        if self._senders[number] == event.sender:
            self._send(number, event.delivery.message)

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        if delay_s:
            self.container.schedule(delay_s, _Timer(action))
        else:
            action()

    # ---- from other threads
    def on_begin(self, event: Any) -> None:
        self._sending = True
        for number in range(self.count):
            for _ in range(self.traffic.under_way):
                self._send_new(number)

    def on_finish(self, event: Any) -> None:
        self._sending = False

    def on_leave(self, event: Any) -> None:
        self.container.stop()

    def begin(self) -> None:
        """Start to send messages."""
        self._wake.trigger(ApplicationEvent("begin"))

    def finish(self) -> None:
        """Send no new messages."""
        self._wake.trigger(ApplicationEvent("finish"))

    def settled(self) -> bool:
        """Whether all messages that were sent are accepted; after `finish`."""
        return not self._sending and self._sent > 0 and not any(self.waiting.values())

    def spread(self) -> list[int]:
        """Clients of each router that has some, most first."""
        return sorted(Counter(list(self.places.values())).values(), reverse=True)

    def largest(self) -> int:
        """Clients of the router that has the most."""
        return max(self.spread(), default=0)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping = True
        self._wake.trigger(ApplicationEvent("leave"))
        self._wake.close()
        self.thread.join(STOP_S)
        assert not self.thread.is_alive()
        GARBAGE.let_go()


class Transports(IOHandler):
    """Of a container whose connections end at any time."""

    def on_selectable_expired(self, event: Any) -> None:
        """A heartbeat is due, on a connection whose end may have been seen at the same time."""
        if event.selectable._transport is not None:
            super().on_selectable_expired(event)


class _Timer(proton.Handler):
    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def on_timer_task(self, event: Any) -> None:
        self._action()
