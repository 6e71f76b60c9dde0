"""ActiveMQ Artemis, as it is embedded in programs: its jars, one configuration file, no console."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import proton

from tests.brokers.process import BrokerProcess
from tests.kit.bound import bound
from tests.kit.built import java_libraries
from tests.kit.clients import Client
from tests.kit.ports import free_port

SOURCES = Path(__file__).parent / "java" / "artemis"
MANAGEMENT = "activemq.management"
CONFIGURATION = """<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>waymesh-tests</name>
    <journal-type>NIO</journal-type>
    <security-enabled>false</security-enabled>
    <acceptors>
      <acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP</acceptor>
    </acceptors>{connections}
    <address-settings>
      <address-setting match="#">
        <auto-create-queues>false</auto-create-queues>
        <auto-create-addresses>false</auto-create-addresses>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
        <redelivery-delay>0</redelivery-delay>
      </address-setting>
    </address-settings>
  </core>
</configuration>
"""


CONNECTIONS = """
    <broker-connections>
      <amqp-connection uri="tcp://{place}" name="mesh" retry-interval="200" reconnect-attempts="-1">
        <sender address-match="nothing"/>
      </amqp-connection>
    </broker-connections>"""
"""A connection needs at least one link of its own; this one matches no queue."""


class Artemis(BrokerProcess):
    """One Artemis with a journal in its folder; it takes every user."""

    ready = "AMQ221007"

    def __init__(self, folder: Path, connects_to: str = "") -> None:
        """`connects_to`: HOST:PORT to which it opens an AMQP connection, again and again."""
        super().__init__(folder)
        self._port = free_port()
        (folder / "etc").mkdir(exist_ok=True)
        connections = CONNECTIONS.format(place=connects_to) if connects_to else ""
        text = CONFIGURATION.format(port=self._port, connections=connections)
        (folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")

    @property
    def port(self) -> int:
        """The port that takes user and password (PLAIN)."""
        return self._port

    def command(self) -> list[str]:
        """One small JVM; compiling less suits a process that lives for a minute."""
        return bound([
            "java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{java_libraries(SOURCES)}/*",
            "org.apache.activemq.artemis.core.server.embedded.Main", str(self.folder),
        ])  # fmt: skip

    # ---- management
    def manage(self, resource: str, operation: str, *arguments: Any) -> Any:
        """Call an operation of its management, e.g. `manage("queue.orders", "getMessageCount")`."""
        with Client(f"amqp://127.0.0.1:{self.port}") as client:
            replies = client.receiver(None, credit=1, dynamic=True)
            request = proton.Message(
                body=json.dumps(arguments),
                reply_to=replies.address,
                properties={"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation},
            )
            client.sender(MANAGEMENT).send(request)
            (reply,) = replies.take(1)
        properties: Any = reply.message.properties
        assert properties["_AMQ_OperationSucceeded"], f"{resource} {operation}: {reply.body!r}"
        values = json.loads(str(reply.body or "[null]"))
        return values[0] if values else None

    def container_id(self) -> str:
        """That of its own AMQP connections: it makes one for its journal."""
        return str(self.manage("broker", "getNodeID"))

    def create_queue(self, name: str, **more: object) -> None:
        """A queue that keeps durable messages as long as the broker's store lasts. `more`: as `ring_size`."""
        queue = {"name": name, "address": name, "routing-type": "ANYCAST", "durable": True, "auto-create-address": True}
        queue |= {attribute.replace("_", "-"): value for attribute, value in more.items()}
        self.manage("broker", "createQueue", json.dumps(queue))

    def depth(self, queue: str) -> int:
        """How many messages the queue has, those under way to consumers included."""
        return int(self.manage(f"queue.{queue}", "getMessageCount"))
