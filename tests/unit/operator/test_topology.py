"""Connections between the routers of a mesh."""

from __future__ import annotations

import pytest

from waymesh_operator.planning.mesh import lower_neighbours

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("ordinal", "size", "topology", "expected"),
    [
        (0, 3, "Auto", ()),
        (2, 3, "Auto", (0, 1)),
        (5, 6, "Auto", (0, 1, 2, 3, 4)),
        (5, 7, "Auto", (1, 3, 4)),
        (5, 64, "Full", (0, 1, 2, 3, 4)),
        (1, 2, "Chordal", (0,)),
        (4, 5, "Chordal", (0, 2, 3)),
        (63, 64, "Chordal", (31, 47, 55, 59, 61, 62)),
    ],
)
def test_lower_neighbours(ordinal: int, size: int, topology: str, expected: tuple[int, ...]) -> None:
    assert lower_neighbours(ordinal, size, topology) == expected


@pytest.mark.parametrize("topology", ["Auto", "Full", "Chordal"])
@pytest.mark.parametrize("size", range(1, 65))
def test_every_mesh_hangs_together_and_connects_downwards(size: int, topology: str) -> None:
    for ordinal in range(1, size):
        peers = lower_neighbours(ordinal, size, topology)
        assert ordinal - 1 in peers
        assert all(0 <= peer < ordinal for peer in peers)
        assert len(set(peers)) == len(peers)


def test_a_chordal_mesh_of_64_has_few_connections_and_a_small_diameter() -> None:
    links = {(k, peer) for k in range(64) for peer in lower_neighbours(k, 64, "Chordal")}
    near: dict[int, set[int]] = {k: set() for k in range(64)}
    for a, b in links:
        near[a].add(b)
        near[b].add(a)
    assert len(links) < 64 * 7
    seen, hops = {0}, 0
    while len(seen) < 64:
        seen |= {n for k in seen for n in near[k]}
        hops += 1
    assert hops <= 6
