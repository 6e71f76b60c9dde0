"""Output behind what a slow peer has taken: it is moved to the front of the same buffer, a byte once on average."""

from __future__ import annotations

import random

from waymesh_amqp.connection import Connection
from waymesh_amqp.handler import Handler
from waymesh_amqp.settings import ConnectionSettings


def frame(number: int, size: int) -> bytes:
    return size.to_bytes(4, "big") + b"\x02\x00\x00\x00" + number.to_bytes(4, "big") * (size // 4 - 2)


def test_a_peer_that_always_lags_needs_no_new_buffers() -> None:
    conn = Connection(ConnectionSettings("A"), Handler(), 0.0)
    rng = random.Random(5)
    unsent = bytearray(conn.pending())
    buffers: list[int] = []
    for number in range(2000):
        data = frame(number, 4 * rng.randrange(20, 2500))
        conn.put(data)
        unsent += data
        if buffers[-1:] != [id(conn.pending().obj)]:
            buffers.append(id(conn.pending().obj))
        taken = max(0, len(unsent) - rng.randrange(5000, 15000))
        conn.sent(taken)
        del unsent[:taken]
        assert conn.pending() == unsent
    assert len(buffers) < 20
