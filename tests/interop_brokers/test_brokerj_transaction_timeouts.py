"""A transaction that Broker-J times out: it closes the connection, which all link routes of a connector share."""

from __future__ import annotations

from collections.abc import Iterator

import proton
import pytest

from tests.brokers.behind import ACTIVE_S, connected, connector, coordinator, link_routes
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.brokers.transactions import Transactions
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

VIRTUAL_HOST = "virtualhost/default/default"


@pytest.fixture
def impatient(brokerj: BrokerJ) -> Iterator[BrokerJ]:
    """Broker-J with a time-out for idle transactions, which by default it does not have."""
    brokerj.rest("POST", VIRTUAL_HOST, {"storeTransactionIdleTimeoutClose": 6000})
    yield brokerj
    brokerj.rest("POST", VIRTUAL_HOST, {"storeTransactionIdleTimeoutClose": 0})


def queue(broker: BrokerJ, prefix: str) -> str:
    name = fresh(prefix)
    broker.create_queue(name)
    return name


def wait_connected(router: RouterProcess, *names: str) -> None:
    wait_until(lambda: all(connected(router, name) for name in names), ACTIVE_S, router.log_tail)


def test_clients_of_the_connector_are_told_and_those_of_another_go_on(
    impatient: BrokerJ, start_router: StartRouter
) -> None:
    transactional = connector(impatient, "ledger") + link_routes("ledger", connection="ledger") + coordinator("ledger")
    router = start_router(extra=connector(impatient) + link_routes("routed") + transactional)
    wait_connected(router, "broker", "ledger")
    ledger = queue(impatient, "ledger")
    with Client(router.url) as idle, Client(router.url) as beside, Client(router.url) as elsewhere:
        senders = idle.sender(ledger), beside.sender(ledger)
        other = elsewhere.sender(queue(impatient, "routed"))
        transactions = Transactions(idle)
        assert transactions.declare() == "declared"
        transactions.send(senders[0], proton.Message(body="never committed"))
        reason = "qd:routed-link-lost: Connectivity to the peer container was lost: Idle transaction timed out"
        assert [sender.wait_detached() for sender in senders] == [reason, reason]
        assert other.send("hello").outcome() == "accepted"
        wait_connected(router, "ledger")
        assert beside.sender(ledger, name="again").send("hello").outcome() == "accepted"
        (received,) = beside.receiver(ledger, credit=2).take(1)
        assert received.body == "hello"
