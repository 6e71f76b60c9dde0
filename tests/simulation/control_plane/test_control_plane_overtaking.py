"""Meshes whose messages overtake each other, and of which some are lost: all addresses come to be known everywhere."""

from __future__ import annotations

import random

import pytest

from tests.simulation.control_plane.mesh import Mesh, Router

pytestmark = pytest.mark.engine_independent

SLOWEST_S = 0.15
"""So that a message over the longest path takes less than OVERTAKEN_S."""
KNOWN_S = 3.0
"""In this time after the last change, which is less than the interval of RAs, so that requests alone must do."""


class UnevenMesh(Mesh):
    """Each message takes a time of its own on each link; while `loses`, a third of MARs and their answers is lost."""

    def __init__(self, rng: random.Random) -> None:
        Mesh.__init__(self)
        self.loses = True
        self._rng = rng

    def _transmit(self, router: Router, link_id: int, envelope: tuple[object, ...], hops: int = 0) -> None:
        opcode, _, _, target = envelope
        if opcode != "HELLO":
            if self.loses and opcode in ("MAR", "MAU") and target is not None and self._rng.random() < 1 / 3:
                return
            router.links[link_id].latency = self._rng.choice([0.001, 0.01, self._rng.uniform(0.0, SLOWEST_S)])
        super()._transmit(router, link_id, envelope, hops)


@pytest.mark.parametrize("seed", range(40))
def test_addresses_are_known_whatever_the_order_of_messages(seed: int) -> None:
    rng = random.Random(seed)
    mesh = UnevenMesh(rng)
    ids = [f"r{number}" for number in range(rng.randint(2, 5))]
    mesh.add(*ids)
    for number in range(1, len(ids)):
        mesh.connect(ids[number], ids[rng.randrange(number)])
    for _ in range(rng.randrange(3)):
        one, other = rng.sample(ids, 2)
        mesh.connect(one, other)
    for _ in range(60):
        router = rng.choice(list(mesh.routers.values()))
        key = f"M0a{rng.randrange(6)}"
        mesh.mobile(router.id, key, None if key in router.local_mobiles else rng.randrange(6))
        mesh.run(rng.choice([0.001, 0.01, 0.1]))
    mesh.loses = False
    mesh.run(KNOWN_S)
    assert mesh.converged()
