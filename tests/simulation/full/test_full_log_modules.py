"""The log modules of the mesh and of configured connections tell what happened."""

from __future__ import annotations

from tests.simulation.full.containers import Party
from tests.simulation.full.network import Cable, Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.states import OPENED


def line_of_three(verbose: str) -> tuple[Network, Cable]:
    """A – B – C at rest, and the cable between B and C. Router `verbose` logs all levels."""
    network = Network()
    for name in "ABC":
        network.router(name)
    network.cable("A", "B")
    cable = network.cable("B", "C", cost=3)
    network.routers[verbose].verbose = True
    network.start()
    network.until(lambda: not faults(network), 1.0)
    return network, cable


def told(router: SimRouter, module: str, level: str) -> list[str]:
    return [text for _, one, at, text in router.lines if (one, at) == (module, level)]


def test_control_messages_are_lines_at_trace() -> None:
    network, _ = line_of_three(verbose="A")
    network.run(2.0)
    router = network.routers["A"]
    for module, messages in {"ROUTER_HELLO": ["HELLO"], "ROUTER_LS": ["RA", "LSU", "LSR"]}.items():
        texts = told(router, module, "trace")
        for message in messages:
            for way in ("RCVD", "SENT"):
                assert any(f"{way}: {message}(" in text for text in texts), (way, message)
    seen = told(router, "ROUTER_HELLO", "trace")
    assert any(text.startswith("[C1] SENT: HELLO(id=A ") and text.endswith("seen=[B])") for text in seen)
    assert any(text.startswith("[C1] RCVD: HELLO(id=B ") and text.endswith("seen=[A])") for text in seen)


def test_routers_that_come_and_go_are_lines_at_info_and_their_paths_at_trace() -> None:
    network, cable = line_of_three(verbose="A")
    router = network.routers["A"]
    assert told(router, "ROUTER_LS", "info") == ["Neighbour B found", "Router B added", "Router C added"]
    assert "Next hop to router C: B" in told(router, "ROUTER_LS", "trace")
    assert "Cost to router C: 4" in told(router, "ROUTER_LS", "trace")
    states = told(router, "ROUTER_LS", "debug")
    assert "Link state of router B: A cost 1, C cost 3" in states
    cable.cut()
    network.until(lambda: told(router, "ROUTER_LS", "info")[-1] == "Router C removed", 1.0)
    assert told(router, "ROUTER_LS", "debug")[-2] == "Link state of router B: A cost 1"
    network.run(70)
    assert told(router, "ROUTER_LS", "debug")[-1] == "Link state of router C: no links", "it has expired"
    assert "Neighbour C lost" in told(network.routers["B"], "ROUTER_LS", "info")


def test_addresses_of_other_routers_are_lines_at_debug() -> None:
    network, _ = line_of_three(verbose="A")
    party = Party(network, "client")
    connection = party.dial(network.routers["C"])
    network.until(lambda: connection.state == OPENED, 1.0)
    party.receiver(connection.open_session(), "orders", name="orders")
    router = network.routers["A"]
    network.until(lambda: told(router, "ROUTER_MA", "debug") == ["Address M0orders of router C added"], 1.0)
    assert any("RCVD: MAU(id=C " in text and "add=[M0orders]" in text for text in told(router, "ROUTER_MA", "trace"))
    connection.close()
    party.wake()
    network.until(lambda: told(router, "ROUTER_MA", "debug")[1:] == ["Address M0orders of router C removed"], 1.0)


def test_listeners_and_connectors_are_lines_at_info() -> None:
    network, _ = line_of_three(verbose="C")
    assert told(network.routers["A"], "CONN_MGR", "info") == [
        "Configured Listener: 0.0.0.0:10000 proto=any, role=normal, name=clients",
        "Configured Listener: 0.0.0.0:20000 proto=any, role=inter-router, name=mesh",
        "Configured Connector: B:20001 proto=any, role=inter-router, name=to-B-0",
    ]


def test_levels_that_are_off_write_nothing() -> None:
    network, _ = line_of_three(verbose="C")
    network.run(2.0)
    assert [line for line in network.routers["A"].lines if line[1] in ("ROUTER_HELLO", "ROUTER_MA")] == []
    assert told(network.routers["A"], "ROUTER_LS", "trace") == []
