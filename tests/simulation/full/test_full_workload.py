"""Each delivery of a random workload gets exactly one outcome, which is correct, whatever fails meanwhile."""

from __future__ import annotations

import pytest

from tests.simulation.full.chaos import ADDRESSES, Chaos, Weather
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults, leftovers, random_network, wrong_hops

FAIR = Weather()
STORMS = {
    "connections drop": Weather(drop=4),
    "links are cut": Weather(cut=3),
    "links fall silent": Weather(silence=0.6, outage_s=0.5),
    "routers die": Weather(crash=1.5),
    "clients come and go": Weather(client=25),
    "all of it": Weather(cut=2, drop=2, silence=0.3, crash=0.5, client=8),
}


def converged(seed: int, count: int, extra: int) -> Network:
    network = random_network(seed, count, extra, ADDRESSES)
    network.start()
    network.until(lambda: not faults(network), 30.0, 0.05)
    return network


def work(network: Network, chaos: Chaos, weather: Weather, seconds: float, messages: int) -> None:
    """Consumers come, then senders; the weather; until each message has its outcome."""
    chaos.populate(receivers=2, senders=0, count=0)
    network.run(0.1)
    chaos.populate(receivers=0, senders=2, count=messages)
    chaos.storm(weather, seconds)
    chaos.calm_down()
    network.run(1.0)


def leave(network: Network, chaos: Chaos) -> None:
    """All clients go; nothing of them stays anywhere."""
    chaos.all_leave()
    network.run(2.0)
    assert not leftovers(network)
    assert not faults(network)
    assert not wrong_hops(network)


@pytest.mark.parametrize("seed", range(3))
def test_in_fair_weather_everything_arrives_exactly_once(seed: int) -> None:
    network = converged(seed, count=6, extra=3)
    chaos = Chaos(network, seed, size=3000.0)
    work(network, chaos, FAIR, 0.5, messages=80)
    assert not chaos.violations(faultless=True)
    assert chaos.ledger.open() == 0
    leave(network, chaos)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("storm", STORMS)
def test_in_a_storm_each_delivery_has_one_true_outcome(storm: str, seed: int) -> None:
    network = converged(seed, count=6, extra=3)
    chaos = Chaos(network, seed + 100, size=3000.0)
    work(network, chaos, STORMS[storm], 1.0, messages=200)
    assert not chaos.violations()
    assert chaos.ledger.open() == 0
    leave(network, chaos)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("storm", ["links are cut", "routers die", "clients come and go", "all of it"])
def test_the_same_if_consumers_have_priorities(storm: str, seed: int) -> None:
    network = converged(seed, count=6, extra=3)
    chaos = Chaos(network, seed + 300, size=3000.0, priorities=(0, 0, 5, -1))
    work(network, chaos, STORMS[storm], 1.0, messages=200)
    assert not chaos.violations()
    assert chaos.ledger.open() == 0
    leave(network, chaos)
    network.run(15.0)
    for router in network.routers.values():
        assert not any(address.prioritized or address.ranked for address in router.core.addresses.values())


@pytest.mark.timeout(400)
def test_a_mesh_of_forty_in_a_storm() -> None:
    network = converged(11, count=40, extra=15)
    chaos = Chaos(network, 11, names=6, size=1000.0)
    work(network, chaos, Weather(cut=6, drop=6, silence=0.5, crash=1.0, client=20), 1.0, messages=60)
    assert not chaos.violations()
    assert len(chaos.ledger.sent) > 1500
    leave(network, chaos)
