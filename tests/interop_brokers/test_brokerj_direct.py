"""Broker-J without a router: a failure here is no fault of the router."""

from __future__ import annotations

import proton
import pytest

from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.brokers.process import PASSWORD, USER
from tests.kit.clients import Client

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]


def test_send_and_receive(brokerj: BrokerJ) -> None:
    queue = fresh("direct")
    brokerj.create("queue", queue)
    with Client(f"amqp://127.0.0.1:{brokerj.port}", user=USER, password=PASSWORD, allowed_mechs="PLAIN") as client:
        assert client.sender(queue).send("hello").outcome() == "accepted"
        assert brokerj.depth(queue) == 1
        received = client.receiver(queue, credit=1).next()
        assert received.body == "hello"
        received.accept()


def test_durable_messages_survive_sigkill(brokerj_durable: BrokerJ) -> None:
    queue = fresh("direct")
    brokerj_durable.create("queue", queue, durable=True)
    url = f"amqp://127.0.0.1:{brokerj_durable.port}"
    with Client(url, user=USER, password=PASSWORD, allowed_mechs="PLAIN") as client:
        sender = client.sender(queue)
        for number in range(5):
            assert sender.send(proton.Message(body=number, durable=True)).outcome() == "accepted"
        brokerj_durable.kill()
        client.wait_ended()
    brokerj_durable.start()
    assert brokerj_durable.depth(queue) == 5
