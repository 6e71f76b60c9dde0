"""A tiny store-and-forward peer on proton: what checks the client programs and the test kit without a router.

A message goes to the next consumer of the sender's target address that has credit; its outcome goes back to the sender.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, cast

import proton
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.kit.garbage import GARBAGE
from tests.kit.ports import free_port

DEADLINE_S = 60.0


class Relay(MessagingHandler):
    """Listens on `port` of loopback while its container runs."""

    def __init__(self, port: int) -> None:
        super().__init__(prefetch=100, auto_accept=False, auto_settle=False)
        self.port = port
        self.listening = threading.Event()
        self.waiting: dict[str, deque[tuple[proton.Delivery, proton.Message]]] = defaultdict(deque)
        self.consumers: dict[str, list[proton.Sender]] = defaultdict(list)
        self.back: dict[proton.Delivery, proton.Delivery] = {}

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.acceptor = event.container.listen(f"127.0.0.1:{self.port}")
        self.listening.set()

    def on_end(self, event: Any) -> None:
        self.acceptor.close()
        self.container.stop()

    def on_connection_remote_close(self, event: Any) -> None:
        """Proton answers no close with amqp:connection:forced, which a router sends at its end."""
        event.connection.close()

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        link.snd_settle_mode = link.remote_snd_settle_mode  # some clients refuse any other answer
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        if link.is_sender:
            address = str(uuid.uuid4()) if link.remote_source.dynamic else link.remote_source.address
            link.source.address = address
            self.consumers[address].append(link)
        else:
            link.target.address = link.remote_target.address

    def on_link_closing(self, event: Any) -> None:
        self._forget(event.link)
        event.link.close()

    def on_link_remote_detach(self, event: Any) -> None:
        """A router that has routed the link waits for the answer before it answers its client's close."""
        self._forget(event.link)
        event.link.detach()

    def _forget(self, link: Any) -> None:
        for consumers in self.consumers.values():
            if link in consumers:
                consumers.remove(link)

    def on_sendable(self, event: Any) -> None:
        self._forward(event.link.source.address)

    def on_link_flow(self, event: Any) -> None:
        if event.link.is_sender and event.link.drain_mode:
            self._forward(event.link.source.address)
            event.link.drained()

    def on_message(self, event: Any) -> None:
        address = event.link.target.address or event.message.address
        self.waiting[address].append((event.delivery, event.message))
        self._forward(address)

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if delivery.link.is_sender and delivery.updated:
            incoming = self.back.pop(delivery, None)
            if incoming is not None:
                _copy_outcome(delivery, incoming)
            delivery.settle()

    def _forward(self, address: str) -> None:
        for sender in self.consumers[address]:
            while sender.credit > 0 and self.waiting[address]:
                incoming, message = self.waiting[address].popleft()
                outgoing = sender.send(message)
                assert isinstance(outgoing, proton.Delivery)
                if incoming.settled:
                    outgoing.settle()
                elif sender.remote_snd_settle_mode == proton.Link.SND_SETTLED:
                    outgoing.settle()
                    incoming.update(proton.Delivery.ACCEPTED)
                    incoming.settle()
                else:
                    self.back[outgoing] = incoming


@contextlib.contextmanager
def relay() -> Iterator[str]:
    """A running relay; its URL."""
    handler = Relay(free_port())
    container = Container(handler)
    injector = EventInjector()
    container.selectable(injector)
    thread = threading.Thread(target=container.run, daemon=True)
    GARBAGE.hold()
    thread.start()
    try:
        assert handler.listening.wait(DEADLINE_S)
        yield f"amqp://127.0.0.1:{handler.port}"
    finally:
        injector.trigger(ApplicationEvent("end"))
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the relay does not end"
        GARBAGE.let_go()


def _copy_outcome(outgoing: proton.Delivery, incoming: proton.Delivery) -> None:
    remote, local = outgoing.remote, incoming.local
    if outgoing.remote_state == proton.Delivery.MODIFIED:
        local.failed, local.undeliverable = remote.failed, remote.undeliverable
        local.annotations = cast("dict[str, Any]", remote.annotations)  # proton's types differ between the two sides
    if remote.condition:
        local.condition = remote.condition
    incoming.update(outgoing.remote_state or proton.Delivery.RELEASED)
    incoming.settle()
