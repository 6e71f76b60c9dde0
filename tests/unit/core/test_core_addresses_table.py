"""Addresses: their configuration, and their removal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.pump import core_hub
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, LINK_BALANCED, MULTICAST
from waymesh_router.core.portions import COST_A_TURN
from waymesh_router.core.telemetry_hooks import TelemetryHooks


class Telemetry(TelemetryHooks):
    def __init__(self) -> None:
        self.gone: list[str] = []

    def address_gone(self, address: Any) -> None:
        self.gone.append(address.key)


class ControlPlane(ControlPlaneHooks):
    def __init__(self) -> None:
        self.added: list[tuple[str, int]] = []

    def local_added(self, key: str, treatment: int) -> None:
        self.added.append((key, treatment))


@pytest.fixture
def core() -> Core:
    handler = core_hub().handler
    assert isinstance(handler, Core)
    return handler


@pytest.fixture
def table(core: Core) -> AddressTable:
    return core.address_table


def entity(prefix: str, **attributes: Any) -> dict[str, Any]:
    return {"pattern": None, "prefix": prefix, "distribution": "multicast", **attributes}


def test_a_new_address_has_the_default_treatment_or_that_of_the_router_that_announced_it(table: AddressTable) -> None:
    assert table.get("M0a").treatment == BALANCED
    assert table.get("M0b", CLOSEST).treatment == CLOSEST
    assert table.get("M0b", BALANCED).treatment == CLOSEST, "it is there already"


def test_configuration_comes_before_what_others_announce(table: AddressTable) -> None:
    table.add_pattern(entity("news", priority=7))
    address = table.get("M0news.today", CLOSEST)
    assert (address.treatment, address.priority) == (MULTICAST, 7)


def test_a_change_of_configuration_reaches_addresses_in_use_and_the_mesh(core: Core, table: AddressTable) -> None:
    core.context.control_plane = ControlPlane()
    address = table.get("M0news")
    address.consumers.append(object())  # type: ignore[arg-type]
    news = entity("news")
    table.add_pattern(news)
    table.remove_pattern(news)
    assert core.context.control_plane.added == [("M0news", MULTICAST), ("M0news", BALANCED)]
    with pytest.raises(KeyError):
        table.remove_pattern(news)


def test_a_fallback_comes_and_goes_with_its_address(core: Core, table: AddressTable) -> None:
    core.context.telemetry = Telemetry()
    table.add_pattern(entity("orders", distribution="balanced", enableFallback=True))
    address = table.get("M0orders")
    assert table.by_key.keys() == {"M0orders", "MForders"}
    assert address.fallback is table.by_key["MForders"]
    table.drop_if_unused(address)
    assert table.by_key == {}
    assert address.dead
    assert core.context.telemetry.gone == ["M0orders", "MForders"]


def test_an_address_in_use_stays(table: AddressTable) -> None:
    address = table.get("M0a")
    address.producers.append(object())  # type: ignore[arg-type]
    table.drop_if_unused(address)
    assert table.by_key == {"M0a": address}


def test_link_routes_are_indexed_as_long_as_an_entity_or_a_router_has_them(table: AddressTable) -> None:
    table.kept.add("Cb2")
    address = table.get("Cb2")
    assert address.treatment == LINK_BALANCED
    table.drop_if_unused(address)
    assert table.link_routes.match("b2.q", False) == ["Cb2"]
    table.kept.discard("Cb2")
    table.drop_if_unused(address)
    assert table.link_routes.match("b2.q", False) is None


def test_lookup_by_text(table: AddressTable) -> None:
    address = table.get("M0a")
    assert table.lookup("amqp:/a", "0") is address
    assert table.lookup("a", "1") is None


def test_a_change_of_configuration_reaches_many_addresses_in_portions_and_new_links_at_once(
    core: Core, table: AddressTable
) -> None:
    core.context.control_plane = ControlPlane()
    addresses = [table.get(f"M0news.{number}") for number in range(3 * COST_A_TURN)]
    for address in addresses:
        address.consumers.append(object())  # type: ignore[arg-type]
    table.add_pattern(entity("news"))
    assert (addresses[0].treatment, addresses[-1].treatment) == (MULTICAST, BALANCED)
    assert table.get(addresses[-1].key).treatment == MULTICAST
    del table.by_key[addresses[-2].key]
    while core.context.portions:
        core.context.portions.run()
    assert {address.treatment for address in addresses if address is not addresses[-2]} == {MULTICAST}
    assert len(core.context.control_plane.added) == len(addresses) - 1, "each is announced once"
