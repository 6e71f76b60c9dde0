"""Heartbeats and idle time-outs of listeners and connectors, as configured, in virtual time. Spec: 2.4.5."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from tests.simulation.full.containers import Broker
from tests.simulation.full.network import OPEN_ACCESS, Network
from waymesh_amqp.connection import Connection
from waymesh_amqp.performatives import ErrorInfo
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import OPENED

PORT = 30000
LISTENER = f"listener {{\nname: further\nhost: 0.0.0.0\nport: {PORT}\n{OPEN_ACCESS}idleTimeoutSeconds: %s\n}}\n"
STEP_S = 0.05
TICK_S = 0.25
"""How much later than due a router looks at the time-outs of its connections, at most."""
EXPIRED = ("amqp:resource-limit-exceeded", "local-idle-timeout expired")


class Listening(Broker):
    """A peer of a router. `mute`: it takes what comes and says nothing on its own. `idle_s`: it tells the router half
    of this, as routers do. `closed`: the errors of closes that it got."""

    def __init__(self, network: Network, idle_s: float = 0.0, mute: bool = False) -> None:
        Broker.__init__(self, network)
        self.idle_s = idle_s
        self.mute = mute
        self.closed: list[ErrorInfo | None] = []

    def settings(self, client: bool) -> ConnectionSettings:
        settings = Broker.settings(self, client)
        settings.idle_timeout_s = self.idle_s
        return settings

    def tick(self, now: float) -> float:
        return math.inf if self.mute else Broker.tick(self, now)

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        self.closed.append(error)
        Broker.on_close(self, connection, error)

    def only(self) -> Connection:
        """Its connection, once it is open."""
        self.network.until(lambda: bool(self.conns) and self.conns[0].state == OPENED, 2.0)
        return self.conns[0]


def joined(side: str, configured: int, idle_s: float = 0.0, mute: bool = False) -> tuple[Listening, Connection]:
    """A peer with an open connection to a router's listener or of its connector, which has this idleTimeoutSeconds."""
    network = Network()
    router = network.router("A", LISTENER % configured if side == "listener" else "")
    peer = Listening(network, idle_s, mute)
    if side == "connector":
        peer.connector(router, extra=f"idleTimeoutSeconds: {configured}")
    network.start()
    if side == "listener":
        peer.dial(router, PORT)
    return peer, peer.only()


SIDES = pytest.mark.parametrize("side", ["listener", "connector"])


@SIDES
@pytest.mark.parametrize("seconds", [4, 16, 60])
def test_a_silent_peer_is_closed_after_the_configured_time(side: str, seconds: int) -> None:
    peer, conn = joined(side, seconds, mute=True)
    assert conn.remote is not None
    assert conn.remote.idle_time_out == seconds * 500, "told is half of what is kept"
    took = peer.network.until(lambda: bool(peer.closed), seconds + 1.0)
    assert seconds - 0.1 <= took <= seconds + 2 * TICK_S
    (error,) = peer.closed
    assert error is not None
    assert (error.condition, error.description) == EXPIRED


def test_a_connector_dials_again_after_its_silent_peer() -> None:
    peer, _ = joined("connector", 4, mute=True)
    peer.network.until(lambda: bool(peer.closed), 5.0)
    assert peer.only().state == OPENED


@SIDES
def test_a_peer_that_sends_empty_frames_as_told_stays(side: str) -> None:
    peer, conn = joined(side, 4)
    peer.network.run(300.0)
    assert conn.state == OPENED
    assert not peer.closed


@SIDES
def test_zero_lets_a_silent_peer_stay(side: str) -> None:
    peer, conn = joined(side, 0, mute=True)
    assert conn.remote is not None
    assert not conn.remote.idle_time_out
    peer.network.run(3600.0)
    assert conn.state == OPENED
    assert not peer.closed


@SIDES
@pytest.mark.parametrize("idle_s", [2.0, 16.0, 60.0])
def test_empty_frames_come_in_time_for_the_peer(side: str, idle_s: float) -> None:
    """The peer's open says half of `idle_s`; two frames are never further apart than that."""
    peer, conn = joined(side, 0, idle_s)
    network = peer.network
    network.run(idle_s)  # what follows an open is said
    seen, octets, began = [network.now], conn.octets_in, network.now
    while network.now < began + 10 * idle_s:
        network.run(STEP_S)
        if conn.octets_in != octets:
            assert conn.octets_in - octets == 8, "an empty frame"
            octets = conn.octets_in
            seen.append(network.now)
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    assert len(gaps) >= 15
    assert max(gaps) < idle_s / 2
    assert min(gaps[1:]) >= idle_s / 4 - STEP_S, "not more of them than needed"
    assert conn.state == OPENED


@SIDES
def test_none_are_sent_to_a_peer_that_does_not_ask(side: str) -> None:
    peer, conn = joined(side, 0)
    peer.network.run(5.0)
    octets = conn.octets_in
    peer.network.run(600.0)
    assert conn.octets_in == octets


def test_routers_keep_their_connection_at_different_configured_times() -> None:
    network = Network()
    network.router("A")
    network.router("B")
    network.cable("A", "B").extra = "idleTimeoutSeconds: 6\n"
    network.start()
    network.run(1.0)
    core = network.routers["A"].core
    (conn,) = core.connections
    network.run(200.0)
    assert list(core.connections) == [conn]
