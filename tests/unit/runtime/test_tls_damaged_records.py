"""Records of a peer, damaged at random and in parts of random size: only what was valid before the damage is read, and
the connection ends."""

from __future__ import annotations

import random
import select

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.unit.runtime.test_tls_connection_io import Scene

SEEDS = 40
MANY = 3000
"""More turns than any of the inputs needs."""
SIZES = (1, 5, 100, 1000, 16384)
TYPES = (0, 20, 21, 22, 23, 24)


def damage(octets: bytearray, how: str, rng: random.Random) -> None:
    """Change the records in one of some ways."""
    at = rng.randrange(len(octets))
    if how == "bit":
        octets[at] ^= 1 << rng.randrange(8)
    elif how == "hole":
        del octets[at : at + rng.randrange(1, 30)]
    elif how == "octets":
        octets[at:at] = rng.randbytes(rng.randrange(1, 30))
    elif how == "header":
        octets[at:at] = bytes((rng.choice(TYPES), 3, 3)) + rng.randrange(65536).to_bytes(2)
    elif how == "end":
        del octets[at:]


def serve(scene: Scene) -> None:
    """Turns until the connection waits or has ended."""
    for _ in range(MANY):
        if not scene.io.open or not (scene.buffer.ready or select.select([scene.sock], [], [], 0)[0]):
            return
        scene.turn()
    pytest.fail("the connection neither waits nor ends")


@pytest.mark.parametrize("how", ["nothing", "bit", "hole", "octets", "header", "end"])
def test_only_valid_records_are_read(authority: Authority, server: KeyPair, how: str) -> None:
    for seed in range(SEEDS):
        rng = random.Random(seed)
        scene = Scene(authority, server, tickets=rng.choice((0, 2, 70)))
        data = [rng.randbytes(rng.choice(SIZES)) for _ in range(rng.choice((1, 5, 25)))]
        octets = bytearray(scene.records(*data))
        damage(octets, how, rng)
        while octets and scene.io.open:
            size = rng.choice((700, 5000, 60000)) if len(octets) > 5000 else rng.choice((1, 3, 100))
            scene.far.sendall(octets[:size])
            del octets[:size]
            serve(scene)
        scene.far.close()
        serve(scene)
        assert b"".join(data).startswith(scene.conn.got), seed
        assert how != "nothing" or scene.conn.got == b"".join(data), seed
        assert not scene.io.open, seed
