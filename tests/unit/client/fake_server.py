"""A management server on proton, with faults to order. Its answers come from an `answer` function."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

import proton
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.kit.garbage import GARBAGE
from tests.kit.ports import free_port
from tests.kit.waiting import DEADLINE_S
from waymesh_amqp.message import decode_message, encode_message
from waymesh_router.management.agent import Agent

Answer = Callable[[proton.Message], "proton.Message | None"]


def silent(_request: proton.Message) -> None:
    """Never answers."""


def reply_with(properties: dict[str, Any] | None, body: Any = None) -> Answer:
    """Always the same answer."""

    def answer(request: proton.Message) -> proton.Message:
        return proton.Message(
            address=request.reply_to, correlation_id=request.correlation_id, properties=properties, body=body
        )

    return answer


def agent_answer(agent: Agent) -> Answer:
    """Answers of a real agent, over the bytes of the wire."""

    def answer(request: proton.Message) -> proton.Message | None:
        reply = agent.handle(decode_message(request.encode()), 0.0)
        if reply is None:
            return None
        message = proton.Message()
        message.decode(encode_message(reply))
        return message

    return answer


class FakeServer(MessagingHandler):
    """Listens on a free loopback port while it is entered; `requests` keeps what came, `addresses` to where."""

    def __init__(
        self,
        answer: Answer,
        *,
        refuse_link: bool = False,
        close_on_request: bool = False,
        tls: proton.SSLDomain | None = None,
    ) -> None:
        super().__init__()
        self.answer = answer
        self.refuse_link = refuse_link
        self.close_on_request = close_on_request
        self.tls = tls
        self.requests: list[proton.Message] = []
        self.addresses: list[str] = []
        self.connections = 0
        self.port = free_port()
        self._replies: dict[str, proton.Sender] = {}
        self._started = threading.Event()
        self._stop = EventInjector()
        self._open: list[proton.Connection] = []
        self._container = Container(self)
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        GARBAGE.hold()
        self._thread.start()
        assert self._started.wait(DEADLINE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.trigger(ApplicationEvent("halt"))
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        GARBAGE.let_go()

    def _run(self) -> None:
        self._container.run()

    def request(self, number: int) -> tuple[dict[str, Any], Any]:
        """The application properties and the body of one of the requests so far."""
        message = self.requests[number]
        return cast("dict[str, Any]", message.properties), message.body  # proton's types have None alone

    def on_start(self, event: proton.Event) -> None:
        scheme = "amqp" if self.tls is None else "amqps"
        self._acceptor = event.container.listen(f"{scheme}://{self.url}", self.tls)
        event.container.selectable(self._stop)
        self._started.set()

    def close_connections(self) -> None:
        """End the connections, as after an idle time-out; returns when that is under way."""
        done = threading.Event()
        self._stop.trigger(ApplicationEvent("let_go", subject=done))
        assert done.wait(DEADLINE_S)

    def on_let_go(self, event: ApplicationEvent) -> None:
        for connection in self._open:
            connection.condition = proton.Condition("amqp:resource-limit-exceeded", "local-idle-timeout expired")
            connection.close()
        self._open.clear()
        event.subject.set()

    def on_halt(self, _event: ApplicationEvent) -> None:
        self._acceptor.close()
        for connection in self._open:
            connection.close()
        self._stop.close()
        self._container.stop()

    def on_connection_opening(self, event: proton.Event) -> None:
        self.connections += 1
        assert event.connection is not None
        self._open.append(event.connection)

    def on_link_opening(self, event: proton.Event) -> None:
        link = event.link
        if isinstance(link, proton.Sender):
            address = f"temp.{len(self._replies)}"
            link.source.address = address
            self._replies[address] = link
        elif isinstance(link, proton.Receiver) and not self.refuse_link:
            address = str(link.remote_target.address)
            self.addresses.append(address)
            link.target.address = address

    def on_link_opened(self, event: proton.Event) -> None:
        link = event.link
        if self.refuse_link and isinstance(link, proton.Receiver):
            link.condition = proton.Condition("qd:no-route-to-dest", "No route to the destination node")
            link.close()

    def on_message(self, event: proton.Event) -> None:
        self.requests.append(event.message)
        if self.close_on_request:
            assert event.connection is not None
            event.connection.condition = proton.Condition("amqp:connection:forced", "closed by management")
            event.connection.close()
            return
        reply = self.answer(event.message)
        if reply is not None:
            self._replies[event.message.reply_to].send(reply)
