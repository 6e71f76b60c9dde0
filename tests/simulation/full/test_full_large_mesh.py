"""Many whole routers in one process: they find each other, survive losses, and carry a workload meanwhile."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator

import pytest

import waymesh_amqp
from tests.simulation.full.chaos import ADDRESSES, Chaos
from tests.simulation.full.oracle import faults, leftovers, random_network, trees_broken, wrong_hops

ALL = os.environ.get("WAYMESH_TEST_ALL") == "1"
ROUTERS = (200 if waymesh_amqp.engine() == "compiled" else 80) if ALL else 60
"""The work grows with the square: interpreted, two hundred would keep a core busy for six minutes."""
EXTRA_LINKS = ROUTERS * 3 // 10
LOST_LINKS = ROUTERS * 3 // 40
CONVERGED_S = 5.0
"""All start at one instant; questions that got lost in the storm are asked again after 0.1, 0.2, 0.4, 0.8, 1 … s."""


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """The routers' objects are many and live to the end: the collector would look at them again and again."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.mark.timeout(1500)
def test_a_large_mesh() -> None:
    rng = random.Random(7)
    network = random_network(7, ROUTERS, EXTRA_LINKS, ADDRESSES)
    network.start()
    assert network.until(lambda: not faults(network), 10.0, 0.2) < CONVERGED_S
    network.run(0.2)
    assert not wrong_hops(network)
    for origin in rng.sample(sorted(network.routers), 20):
        assert not trees_broken(network, origin)

    chaos = Chaos(network, 7, names=5, size=500.0)
    chaos.populate(receivers=2, senders=0, count=0)
    network.until(lambda: not faults(network), 2.0, 0.05)
    chaos.populate(receivers=0, senders=2, count=30)
    lost = rng.sample(network.cables, LOST_LINKS)
    for cable in lost:
        network.after(rng.uniform(0.0, 0.1), cable.cut)
    network.run(0.1)
    assert network.until(lambda: not faults(network), 10.0, 0.2) < CONVERGED_S
    network.run(0.2)
    assert not wrong_hops(network)

    for cable in lost:
        cable.mend()
    chaos.calm_down()
    network.run(0.5)
    assert not wrong_hops(network)
    assert not chaos.violations()
    assert len(chaos.ledger.sent) > 500
    chaos.all_leave()
    network.run(1.0)
    assert not leftovers(network)
    assert not faults(network)
