"""Remote routers and the addresses for which they have consumers."""

from __future__ import annotations

import pytest

from tests.kit.pump import core_hub
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import MULTICAST


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
