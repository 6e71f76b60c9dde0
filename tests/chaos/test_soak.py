"""A soak of one round, and routers at rest, on real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import counted
from tests.chaos.churn import Soaked
from tests.chaos.soak import at_rest, soak

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1500)]

OF_CONNECTIONS = (counted.CONNECTION, "waymesh_amqp.session.Session", "waymesh_amqp.settings.ConnectionSettings")


@pytest.fixture
def soaked(tmp_path: Path) -> Iterator[tuple[Soaked, Path]]:
    counts = tmp_path / "counts.json"
    one = Soaked(tmp_path, {name: counted.words(counts) for name in ("A", "B", "E")})
    yield one, counts
    one.kill()


def test_a_router_at_rest_has_no_object_of_those_who_asked(soaked: tuple[Soaked, Path]) -> None:
    """Each look asks over four connections. Right after that, a router still has some of them, of 30 objects each: a
    count at that time would tell how busy the machine is."""
    one, counts = soaked
    one.start()
    tables = one.tables("B")
    found = [at_rest(one, "B", tables, counts) for _ in range(4)]
    assert {tuple(types[name] for name in OF_CONNECTIONS) for types in found} == {(1, found[0][OF_CONNECTIONS[1]], 1)}


def test_a_round_of_a_soak_leaves_the_connections_of_the_mesh(tmp_path: Path) -> None:
    readings, types = soak(tmp_path, 0.001)
    assert sorted(readings) == [f"{name} {figure}" for name in "AB" for figure in ("descriptors", "objects", "rss")]
    assert [types[name][0][counted.CONNECTION] for name in "AB"] == [2, 1]
