"""Writes to different connections overtake each other where a wire has jitter, and only there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.full.network import Network
from tests.simulation.full.sockets import Socket, Sockets
from tests.simulation.full.world import Ways, Wire

WRITES = 50


class Noting(Socket):
    """Notes what came, together with all others of its kind."""

    def __init__(self, come: list[bytes]) -> None:
        super().__init__()
        self._come = come

    def receive(self, data: memoryview, size: int) -> int:
        self._come.append(bytes(data[:size]))
        return size


def changes(jitter_s: float) -> tuple[int, int]:
    """How often what was written later, to another connection, came before; and how often that was counted."""
    network = Network(3)
    network.chunked = 0.0
    near, far = Sockets(network), Sockets(network)
    come: list[bytes] = []
    ends = []
    for name in ("one", "other"):
        ways = Ways()
        ways.back.jitter_s = jitter_s
        wire = Wire(network, 0.001, ways=ways)
        sending: Any = Socket()
        receiving: Any = Noting(come)
        ends.append(wire.join(near, sending, name))
        wire.join(far, receiving, name)
    for number in range(WRITES):
        end: Any = ends[number % 2]
        end.conn.out += b"%03d" % number
        end.write()
        network.run(0.0001)
    network.run(1.0)
    assert len(come) == WRITES
    latest, overtaken = b"", 0
    for data in come:
        overtaken += data < latest
        latest = max(latest, data)
    return overtaken, network.injected["overtaking write"]


@pytest.mark.parametrize(("jitter_s", "some"), [(0.0, False), (0.005, True)])
def test_writes_overtake_each_other_on_different_connections(jitter_s: float, some: bool) -> None:
    overtaken, counted = changes(jitter_s)
    assert (overtaken > 0) == (counted > 0) == some
