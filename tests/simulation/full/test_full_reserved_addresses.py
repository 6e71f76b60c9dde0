"""Addresses of the router itself: shown as Qpid Dispatch shows them (book 3.3.1), and closed to clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.full.containers import RELEASED, Party
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.addresses.reserved import RESERVED, ReservedAddresses
from waymesh_router.core.link_kinds import DISTRIBUTIONS

SERVICES = {
    "L$_management_internal": "closest",
    "L$displayname": "closest",
    "M0$management": "closest",
    "L$management": "closest",
}
CONTROL = {
    "Lqdhello": "flood",
    "Lqdrouter": "flood",
    "Tqdrouter": "flood",
    "Lqdrouter.ma": "multicast",
    "Tqdrouter.ma": "multicast",
}
SERVED = ("M0$management", "L$management", *CONTROL)
ADDRESSES = (
    "_local/qdhello",
    "_topo/0/A/qdrouter",
    "_topo/0/all/qdrouter",
    "amqp:/_topo/all/all/qdrouter.ma",
    "_local/$_management_internal",
    "_local/$displayname",
)


def rows(network: Network, router: str) -> dict[str, dict[str, Any]]:
    """The rows of `qdstat -a`, by key."""
    properties = {"operation": "QUERY", "entityType": "router.address"}
    request = Message(reply_to="r", application_properties=properties, body={})
    answer = network.routers[router].router.agent.handle(request, network.now)
    assert answer is not None
    body: Any = decode_message(encode_message(answer)).body
    found = [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]
    assert len({row["identity"] for row in found}) == len(found)
    return {row["key"]: row for row in found}


@pytest.fixture
def mesh() -> Network:
    network = Network()
    for name in "AB":
        network.router(name)
    network.cable("A", "B")
    network.start()
    network.until(lambda: not faults(network), 2.0)
    network.run(0.5)
    return network


def test_an_interior_router_shows_them(mesh: Network) -> None:
    found = rows(mesh, "A")
    wanted = SERVICES | CONTROL
    assert {key: found[key]["distribution"] for key in wanted} == wanted
    assert {key for key in wanted if found[key]["inProcess"]} == set(SERVED)


def test_control_messages_are_counted_at_their_addresses(mesh: Network) -> None:
    before = rows(mesh, "A")
    mesh.run(10.0)
    after = rows(mesh, "A")

    def more(key: str, attribute: str) -> int:
        return int(after[key][attribute] - before[key][attribute])

    assert 8 <= more("Lqdhello", "deliveriesFromContainer") <= 12  # helloIntervalSeconds is 1
    assert 8 <= more("Lqdhello", "deliveriesToContainer") <= 12
    sent, received = rows(mesh, "A")["Tqdrouter"], rows(mesh, "B")["Tqdrouter"]
    assert 0 < received["deliveriesToContainer"] <= sent["deliveriesFromContainer"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_clients_can_neither_attach_nor_send_to_them(mesh: Network, address: str) -> None:
    party = Party(mesh, "client")
    conn = party.dial(mesh.routers["A"])
    mesh.run(0.1)
    session = conn.open_session()
    links = [party.receiver(session, address, 10), party.sender(session, address)]
    anonymous = party.sender(session, None, name="anonymous")
    mesh.run(0.1)
    assert [link.condition for link in links] == ["amqp:not-allowed", "amqp:not-allowed"]
    hellos = rows(mesh, "A")["Lqdhello"]["deliveriesToContainer"]
    party.send(anonymous, encode_message(Message(to=address, body="x")))
    mesh.run(0.05)
    assert anonymous.outcomes == [(True, RELEASED)]
    assert rows(mesh, "A")["Lqdhello"]["deliveriesToContainer"] - hellos <= 1


def test_a_standalone_router_has_those_of_services_only() -> None:
    reserved = ReservedAddresses("A", interior=False)
    assert {key: DISTRIBUTIONS[address.treatment] for key, address in reserved.by_key.items()} == {
        key: distribution for key, distribution in SERVICES.items() if key in RESERVED
    }
