"""`waymesh up`: a broker that connects to a router, AMQP over WebSocket, and a listener that only a cluster exposes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proton
import pytest
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.interop.raw_client import RawClient
from tests.kit.clients import Client
from tests.kit.garbage import GARBAGE
from tests.kit.local_mode import DEADLINE_S, Up, mesh_up
from tests.kit.web_socket import Rejected, WebSocket
from waymesh_amqp.message import Message, encode_message

pytestmark = pytest.mark.e2e

TEXT = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 2
  listeners:
  - {name: amqp, port: 5672, expose: {type: NodePort, allowUnprotected: true}}
  - {name: brokers, port: 5673, role: route-container}
  - {name: web, port: 8080, http: {allowedOrigins: ["https://shop.example.org"]}}
---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: store}
spec: {routerRef: {name: mesh}, direction: Incoming, brokerContainerId: store-1}
---
apiVersion: waymesh.io/v1alpha1
kind: AutoLink
metadata: {name: orders}
spec: {routerRef: {name: mesh}, brokerRef: {name: store}, address: orders, direction: in, phase: 0}
"""


class Broker(MessagingHandler):
    """It connects to a router, and sends one message over the link that the router attaches."""

    def __init__(self, url: str) -> None:
        super().__init__(prefetch=0)
        self.url = url
        self.sent = False
        self.settled = threading.Event()
        self._wake = EventInjector()
        self.container = Container(self)
        self.container.container_id = "store-1"
        self.container.selectable(self._wake)
        GARBAGE.hold()
        self.thread = threading.Thread(target=self.container.run, name="broker", daemon=True)
        self.thread.start()

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self.url, reconnect=False, allowed_mechs="ANONYMOUS")

    def on_link_opening(self, event: Any) -> None:
        event.link.source.copy(event.link.remote_source)
        event.link.target.copy(event.link.remote_target)
        event.link.open()

    def on_sendable(self, event: Any) -> None:
        if not self.sent:
            self.sent = True
            event.sender.send(proton.Message(body=f"from the broker at {self.url}"))

    def on_settled(self, event: Any) -> None:
        self.settled.set()

    def on_leave(self, event: Any) -> None:
        self.connection.close()

    def leave(self) -> None:
        """Close the connection, and wait for the end."""
        self._wake.trigger(ApplicationEvent("leave"))
        self._wake.close()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()
        GARBAGE.let_go()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with mesh_up(tmp_path, TEXT, "mesh is ready: 2 routers") as running:
        yield running


def test_brokers_connect_to_routers_that_they_choose(up: Up) -> None:
    assert "mesh: expose of listener amqp is ignored: its port is open on this machine" in up.text
    up.wait_for("Broker/store: mesh-0: no broker with container-id store-1 has connected")
    with Client(up.url("mesh-0")) as client:
        receiver = client.receiver("orders", credit=2)
        first = Broker(up._url("mesh-1", "listener/brokers"))
        up.wait_for("Broker/store is active on 1/2")
        up.wait_for("AutoLink/orders is active on 1/1")
        second = Broker(up._url("mesh-0", "listener/brokers"))
        received = receiver.take(2)
        assert {one.message.body for one in received} == {f"from the broker at {one.url}" for one in (first, second)}
        assert first.settled.wait(DEADLINE_S)
        assert second.settled.wait(DEADLINE_S)
        first.leave()
        second.leave()
        up.wait_for("Broker/store: mesh-0: no broker with container-id store-1 has connected", times=2)


def test_pages_of_allowed_origins_connect_by_web_socket(up: Up) -> None:
    port = int(up._url("mesh-0", "listener/web").rpartition(":")[2])
    with (
        Client(up.url("mesh-0")) as client,
        RawClient(port, over=WebSocket(port, origin="https://shop.example.org")) as page,
    ):
        receiver = client.receiver("news", credit=1)
        page.open()
        page.begin()
        page.transfer(page.attach_sender("news"), encode_message(Message(body="from a page")), settled=True)
        assert receiver.next().message.body == "from a page"
    with pytest.raises(Rejected, match="403"):
        WebSocket(port, origin="https://other.example.org")
