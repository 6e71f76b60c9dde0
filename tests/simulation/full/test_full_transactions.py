"""The links of a transaction over several routers: none overtakes another, whatever becomes of the paths. Spec: 4.4."""

from __future__ import annotations

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import Broker, Party, PartyLink
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults
from tests.simulation.full.routes import ROUTE
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.session import Session
from waymesh_amqp.states import OPENED

COORDINATES = "linkRoute {\nprefix: $coordinator\ndirection: in\nconnection: broker\n}\n"


@pytest.mark.parametrize("first", ["work", "coordinator"])
def test_links_of_a_session_keep_together_when_there_is_a_better_path(first: str) -> None:
    """The first goes over B; then A and C are linked. A commit over that link would overtake what goes over B."""
    network = Network()
    for name in "ABC":
        network.router(name, ROUTE % "in" + COORDINATES if name == "C" else "")
    network.cable("A", "B")
    network.cable("B", "C")
    shorter = network.cable("A", "C")
    shorter.cut()
    broker = Broker(network)
    broker.connector(network.routers["C"])
    network.start()
    network.until(lambda: len(network.routers["A"].core.nodes) == 2 and bool(broker.conns), 10.0)
    network.run(0.5)
    client = Party(network, "client")
    conn = client.dial(network.routers["A"])
    network.until(lambda: conn.state == OPENED, 1.0)
    session, other = conn.open_session(), conn.open_session()

    def attach(kind: str, where: Session = session) -> PartyLink:
        target = {"target": Terminus("coordinator")} if kind == "coordinator" else {}
        link = client.sender(where, "b2.queue" if kind == "work" else None, name=f"{kind}{id(where)}", **target)
        network.until(lambda: link.link.credit > 0, 2.0)
        return link

    links = {first: attach(first)}
    shorter.mend()
    network.until(lambda: not faults(network), 30.0)
    network.run(1.0)
    second = "coordinator" if first == "work" else "work"
    links[second] = attach(second)
    loads = network.routers["B"].core.routed_attaches._loads
    assert sum(loads.values()) == 2, "both go over B"
    ours = [party.link.session for party in broker.links]
    assert ours[0] is ours[1], "in one session, as the client has them"
    attach("work", other)
    assert sum(loads.values()) == 2, "other sessions take the better path"
    client.send(links["work"], message(b"1"))
    network.until(lambda: len(links["work"].outcomes) == 1, 1.0)
    for link in links.values():
        link.link.detach()
    network.run(1.0)
    assert not network.routers["A"].core.routed_attaches._ways.routers(session)
