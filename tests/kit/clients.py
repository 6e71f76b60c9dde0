"""A scripted AMQP client on python-qpid-proton: its container runs in a thread, tests drive it with blocking calls.

```python
with Client(router.url) as client:
    receiver = client.receiver("orders", credit=10)
    sent = client.sender("orders").send("hello")
    receiver.next().accept()
    assert sent.outcome() == "accepted"
```
All waits have a deadline and fail with AssertionError."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

import proton
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, AtLeastOnce, AtMostOnce, Container, EventInjector

from tests.kit.garbage import GARBAGE, free
from tests.kit.outcomes import DEADLINE_S, STATES, Sent
from tests.kit.waiting import wait_until

T = TypeVar("T")


class Client:
    """One connection. Keyword arguments go to proton's `Container.connect` (user, allowed_mechs, ssl_domain …)."""

    def __init__(self, url: str, *, container_id: str | None = None, wait: bool = True, **options: Any) -> None:
        """`wait=False`: do not wait for the peer's open."""
        self._handler = _Handler(self)
        self._container = Container(self._handler)
        if container_id:
            self._container.container_id = container_id
        self._injector = EventInjector()
        self._pipe = list(self._injector.pipe)
        self._container.selectable(self._injector)
        self.opened = threading.Event()
        self.ended = threading.Event()
        self.error: str | None = None
        """Why the connection ended: `condition: description`, or proton's text."""
        self.closed_by_peer = False
        self._thread = threading.Thread(target=self._container.run, name="proton", daemon=True)
        GARBAGE.hold()
        self._thread.start()
        options.setdefault("allowed_mechs", None if options.get("ssl_domain") or "user" in options else "ANONYMOUS")
        self.connection: proton.Connection = self.call(lambda: self._container.connect(url, reconnect=False, **options))
        if wait:
            wait_until(lambda: self.opened.is_set() or self.ended.is_set(), DEADLINE_S, f"open of {url}")
            if not self.opened.is_set():
                self._stop()  # a thread that runs while the interpreter ends works on objects that are gone
                raise AssertionError(f"{url}: {self.error}")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` in the container's thread; its result or its exception."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001 - handed to the test
                future.set_exception(error)

        self._injector.trigger(ApplicationEvent("call", subject=run))
        return future.result(DEADLINE_S)

    def sender(self, address: str | None, *, presettled: bool = False, wait: bool = True, **options: Any) -> Sender:
        """A sender; None for an anonymous one. `wait=False`: do not wait for the peer's attach."""
        options["options"] = [AtMostOnce() if presettled else AtLeastOnce(), *options.get("options", [])]
        link = self.call(
            lambda: self._container.create_sender(self.connection, address, handler=self._handler, **options)
        )
        return self._handler.know(Sender(self, link), wait)

    def receiver(
        self, address: str | None, credit: int = 0, *, presettled: bool = False, wait: bool = True, **options: Any
    ) -> Receiver:
        """A receiver that is given `credit` once; `dynamic=True` for an address made by the peer."""
        options["options"] = [AtMostOnce() if presettled else AtLeastOnce(), *options.get("options", [])]

        def create() -> proton.Receiver:
            link = self._container.create_receiver(self.connection, address, handler=self._handler, **options)
            if credit:
                link.flow(credit)
            return link

        return self._handler.know(Receiver(self, self.call(create)), wait)

    def wait_ended(self) -> str | None:
        """Wait until the connection is over; the error, if any."""
        wait_until(self.ended.is_set, DEADLINE_S, "end of the connection")
        return self.error

    def close(self) -> None:
        """Close the connection and end the thread."""
        if self._thread.is_alive() and not self.ended.is_set():
            self.call(self.connection.close)
            self.ended.wait(DEADLINE_S)
        self._stop()

    def abort(self) -> None:
        """Drop the transport without a close, as a client that dies does."""

        def drop() -> None:
            if self.connection.transport and self.connection.transport._selectable:
                self.connection.transport._selectable.shutdown(socket.SHUT_RDWR)

        self.call(drop)
        self.ended.wait(DEADLINE_S)
        self._stop()

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._injector.trigger(ApplicationEvent("call", subject=self._container.stop))
            self._thread.join(DEADLINE_S)
            assert not self._thread.is_alive(), "the proton thread does not end"
        if not self._pipe:
            return
        free(self.connection)
        GARBAGE.let_go()
        # proton leaves the injector's pipe open; with over 1,023 descriptors its select() refuses new connections
        while self._pipe:
            os.close(self._pipe.pop())


class Link:
    """What senders and receivers share."""

    def __init__(self, client: Client, link: proton.Link) -> None:
        self.client = client
        self.link = link
        self.attached = threading.Event()
        self.detached = threading.Event()
        self.error: str | None = None
        """`condition: description` of the peer's detach."""

    @property
    def credit(self) -> int:
        """The link's credit now."""
        return self.client.call(lambda: int(self.link.credit))

    @property
    def address(self) -> str:
        """The address of the peer's terminus: the one it made, if it was asked to."""
        return str(self.client.call(lambda: self._remote_terminus().address))

    def wait_detached(self) -> str | None:
        """Wait until the peer detached; the error, if any."""
        wait_until(self.detached.is_set, DEADLINE_S, "detach by the peer")
        return self.error

    def close(self) -> None:
        """Detach (closed) and wait for the answer."""
        self.client.call(self.link.close)
        wait_until(lambda: self.detached.is_set() or self.client.ended.is_set(), DEADLINE_S, "answer to detach")

    def _remote_terminus(self) -> proton.Terminus:
        return self.link.remote_source if self.link.is_receiver else self.link.remote_target


class Sender(Link):
    """A sending link."""

    def send(self, message: proton.Message | Any, *, wait: bool = True) -> Sent:
        """Send a message (or a body), when there is credit; `wait=False`: at once, credit or not."""
        message = message if isinstance(message, proton.Message) else proton.Message(body=message)
        if wait:
            self.wait_credit()
        return self.client.call(lambda: self._send(message))

    def send_all(self, messages: list[Any]) -> list[Sent]:
        """Send many, as credit comes."""
        return [self.send(message) for message in messages]

    def send_some(self, messages: list[proton.Message]) -> list[Sent]:
        """Send the first ones of these, as many as there is credit for now."""
        return self.client.call(lambda: [self._send(message) for message in messages[: max(self.link.credit, 0)]])

    def wait_credit(self, count: int = 1) -> int:
        """Wait for at least `count` credit; the credit."""
        return wait_until(lambda: self.credit >= count and self.credit, DEADLINE_S, lambda: f"credit; {self.error}")

    def _send(self, message: proton.Message) -> Sent:
        delivery = self.link.send(message)
        sent = Sent(self.link.snd_settle_mode == proton.Link.SND_SETTLED)
        if not sent.presettled:
            self.client._handler.sent[delivery] = sent
        return sent


class Receiver(Link):
    """A receiving link: deliveries wait in a queue for `next()`. Credit is given by `flow` only."""

    def __init__(self, client: Client, link: proton.Link) -> None:
        super().__init__(client, link)
        self.arrived: queue.Queue[Received] = queue.Queue()
        self.drained = threading.Event()

    def next(self, deadline_s: float = DEADLINE_S) -> Received:
        """Wait for the next delivery."""
        try:
            return self.arrived.get(timeout=deadline_s)
        except queue.Empty:
            raise AssertionError(f"no delivery within {deadline_s} s; link error {self.error}") from None

    def take(self, count: int, *, accept: bool = True) -> list[Received]:
        """Wait for `count` deliveries and accept them."""
        found = [self.next() for _ in range(count)]
        if accept:
            for received in found:
                received.accept()
        return found

    def flow(self, credit: int) -> None:
        """Give more credit."""
        self.client.call(lambda: self.link.flow(credit))

    def drain(self, credit: int = 0) -> None:
        """Ask for what there is, up to the credit; wait until the peer used it up or gave it back."""
        self.drained.clear()
        self.client.call(lambda: self.link.drain(credit))
        wait_until(self.drained.is_set, DEADLINE_S, "end of drain")


class Received:
    """A delivery that came in."""

    def __init__(self, receiver: Receiver, delivery: proton.Delivery, message: proton.Message) -> None:
        self.receiver = receiver
        self.delivery = delivery
        self.message = message
        self.body: Any = message.body  # any AMQP value
        # proton's types know None alone
        self.properties = cast("dict[str, Any]", message.properties)
        self.settled = bool(delivery.settled)

    def accept(self) -> None:
        """Settle as accepted."""
        self._settle(proton.Delivery.ACCEPTED)

    def reject(self, condition: str | None = None, description: str = "") -> None:
        """Settle as rejected."""
        self._settle(proton.Delivery.REJECTED, condition=(condition, description))

    def release(self) -> None:
        """Settle as released."""
        self._settle(proton.Delivery.RELEASED)

    def modify(self, *, failed: bool = True, undeliverable: bool = False, annotations: Any = None) -> None:
        """Settle as modified."""
        self._settle(proton.Delivery.MODIFIED, failed=failed, undeliverable=undeliverable, annotations=annotations)

    def _settle(self, state: int, **details: Any) -> None:
        def run() -> None:
            local = self.delivery.local
            if state == proton.Delivery.MODIFIED:
                local.failed = details["failed"]
                local.undeliverable = details["undeliverable"]
                if details["annotations"]:
                    local.annotations = details["annotations"]
            elif details.get("condition", (None,))[0]:
                local.condition = proton.Condition(*details["condition"])
            self.delivery.update(state)
            self.delivery.settle()

        self.receiver.client.call(run)


class _Handler(MessagingHandler):
    """Turns proton's events into what waiting tests look at."""

    def __init__(self, client: Client) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=True)
        self.client = client
        self.links: dict[proton.Link, Sender | Receiver] = {}
        self.early: dict[proton.Link, list[Callable[[Any], None]]] = {}
        self.sent: dict[proton.Delivery, Sent] = {}
        self.received: list[proton.Delivery] = []
        """Kept, so that they go when the thread has ended and not with the test's last look at them: see Garbage."""

    def know(self, link: L, wait: bool) -> L:
        """Make a link known; what happened to it before is told now."""

        def run() -> None:
            self.links[link.link] = link
            for action in self.early.pop(link.link, []):
                action(link)

        self.client.call(run)
        if wait:
            wait_until(
                lambda: link.attached.is_set() or link.detached.is_set() or self.client.ended.is_set(),
                DEADLINE_S, "attach",
            )
        return link

    def on_call(self, event: Any) -> None:
        event.subject()

    def on_connection_opened(self, event: Any) -> None:
        self.client.opened.set()

    def on_connection_remote_close(self, event: Any) -> None:
        """Not MessagingHandler's on_connection_error: that one does not tell of amqp:connection:forced."""
        self.client.error = _text(event.connection.remote_condition)
        self.client.closed_by_peer = True
        event.connection.close()
        self.client.ended.set()

    def on_transport_error(self, event: Any) -> None:
        """Not logged: `on_transport_closed` takes the error."""

    def on_transport_closed(self, event: Any) -> None:
        """Of a connection that is cut, proton tells the end before the error; the condition is there already."""
        self.client.error = self.client.error or _text(event.transport.condition)
        self.client.ended.set()

    def on_link_remote_open(self, event: Any) -> None:
        self._tell(event.link, lambda link: link.attached.set())

    def on_link_remote_close(self, event: Any) -> None:
        error = _text(event.link.remote_condition)
        self._tell(event.link, lambda link: _detached(link, error))

    on_link_remote_detach = on_link_remote_close

    def on_link_error(self, event: Any) -> None:
        event.link.close()

    def on_link_flow(self, event: Any) -> None:
        link = event.link
        if link.is_receiver and link.drain_mode and link.credit == 0:
            self._tell(link, lambda known: known.drained.set())
        elif link.is_sender and link.drain_mode:
            link.drained()

    def on_message(self, event: Any) -> None:
        delivery, message = event.delivery, event.message
        self.received.append(delivery)
        self._tell(event.link, lambda link: link.arrived.put(Received(link, delivery, message)))

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if delivery.link.is_receiver:
            return
        sent = self.sent.get(delivery)
        if sent is None or not delivery.updated:
            return
        remote = delivery.remote
        sent.state = STATES.get(delivery.remote_state, sent.state)
        sent.condition = _text(remote.condition)
        if sent.state == "modified":
            sent.failed, sent.undeliverable = bool(remote.failed), bool(remote.undeliverable)
            sent.annotations = remote.annotations
        if delivery.settled:
            del self.sent[delivery]
            sent.settled.set()

    def _tell(self, link: proton.Link, action: Callable[[Any], None]) -> None:
        known = self.links.get(link)
        if known is None:
            self.early.setdefault(link, []).append(action)
        else:
            action(known)


L = TypeVar("L", Sender, Receiver)


def exchange(sender: str, receiver: str, address: str) -> None:
    """One message from a client at the URL `sender` to one at `receiver`, which accepts it."""
    with Client(sender) as one, Client(receiver) as other:
        taken = other.receiver(address, credit=1)
        sent = one.sender(address).send(address)
        received = taken.next()
        received.accept()
        assert received.message.body == address
        assert sent.outcome() == "accepted"


def _detached(link: Link, error: str | None) -> None:
    link.error = error
    link.detached.set()


def _text(condition: proton.Condition | None) -> str | None:
    return f"{condition.name}: {condition.description or ''}" if condition else None
