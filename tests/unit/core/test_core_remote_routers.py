"""Remote routers and the addresses for which they have consumers."""

from __future__ import annotations

import pytest

from tests.kit.pump import core_hub
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import CLOSEST, MULTICAST
from waymesh_router.core.portions import COST_A_TURN


@pytest.fixture
def core() -> Core:
    handler = core_hub().handler
    assert isinstance(handler, Core)
    handler.remote_routers.node_up("B")
    return handler


def test_a_router_has_an_address_of_its_own_as_long_as_it_can_be_reached(core: Core) -> None:
    assert core.nodes["B"].address is core.addresses["RB"]
    core.remote_routers.node_down("B")
    assert (core.nodes, core.addresses) == ({}, {})


def test_consumers_of_a_remote_router(core: Core) -> None:
    core.remote_routers.add_consumers("B", "M0q", MULTICAST)
    assert core.addresses["M0q"].targets.keys() == {"B"}
    assert core.addresses["M0q"].treatment == MULTICAST
    core.remote_routers.add_consumers("C", "M0other", MULTICAST)
    assert "M0other" not in core.addresses, "C is not known"
    core.remote_routers.remove_consumers("B", "M0q")
    assert "M0q" not in core.addresses


def test_flush_forgets_all_but_the_router_itself(core: Core) -> None:
    address = core.address_table.get("M0q")
    address.producers.append(object())  # type: ignore[arg-type]
    core.remote_routers.add_consumers("B", "M0r", MULTICAST)
    core.remote_routers.flush_consumers("B")
    assert core.addresses.keys() == {"RB", "M0q"}


def test_going_down_takes_the_consumers_along(core: Core) -> None:
    core.remote_routers.add_consumers("B", "M0q", MULTICAST)
    core.remote_routers.node_down("B")
    assert core.addresses == {}


# ---- many addresses, in portions


MANY = 3 * COST_A_TURN


def many(core: Core) -> list[str]:
    keys = [f"M0many.{number}" for number in range(MANY)]
    for key in keys:
        core.remote_routers.add_consumers("B", key, CLOSEST)
    return keys


def finish(core: Core) -> None:
    while core.context.portions:
        core.context.portions.run()


def test_a_lost_router_is_no_destination_at_once_and_its_addresses_go_in_portions(core: Core) -> None:
    keys = many(core)
    core.nodes["B"].connection = connection = core_hub().peer().conn
    assert core.addresses[keys[-1]].reachable()
    core.remote_routers.node_down("B")
    assert keys[0] not in core.addresses
    last = core.addresses[keys[-1]]
    assert last.targets.keys() == {"B"}
    assert not last.reachable()
    assert "RB" not in core.addresses
    finish(core)
    assert core.addresses == {}
    assert connection is not None


def test_a_router_that_returns_before_its_addresses_are_gone_keeps_what_it_announces(core: Core) -> None:
    keys = many(core)
    core.remote_routers.node_down("B")
    core.remote_routers.node_up("B")
    core.nodes["B"].connection = core_hub().peer().conn
    core.remote_routers.add_consumers("B", keys[-1], CLOSEST)
    core.remote_routers.remove_consumers("B", keys[-2])
    assert [core.addresses[key].reachable() for key in keys[-3:] if key in core.addresses] == [False, True]
    finish(core)
    assert core.addresses.keys() == {"RB", keys[-1]}
    assert core.addresses["RB"].reachable()
    assert core.addresses[keys[-1]].reachable()


def test_a_router_that_restarts_stays_reachable_itself(core: Core) -> None:
    keys = many(core)
    core.nodes["B"].connection = core_hub().peer().conn
    core.remote_routers.flush_consumers("B")
    assert core.addresses["RB"].reachable()
    assert not core.addresses[keys[-1]].reachable()
    core.remote_routers.add_consumers("B", keys[-1], CLOSEST)
    finish(core)
    assert core.addresses.keys() == {"RB", keys[-1]}


def test_addresses_that_go_while_paths_change(core: Core) -> None:
    keys = many(core)
    core.remote_routers.update_paths()
    for key in keys[::2]:
        core.remote_routers.remove_consumers("B", key)
    core.remote_routers.add_consumers("B", "M0new", CLOSEST)
    finish(core)
    assert core.addresses.keys() == {"RB", "M0new", *keys[1::2]}
