"""Addresses of the router itself: which there are, and how control messages are counted on them."""

from __future__ import annotations

from waymesh_router.core.addresses.reserved import RESERVED, ReservedAddresses

EVERYWHERE = {"L$_management_internal", "L$displayname"}


def test_only_interior_routers_have_addresses_for_control_messages() -> None:
    assert ReservedAddresses("A", interior=True).by_key.keys() == RESERVED
    assert ReservedAddresses("A", interior=False).by_key.keys() == EVERYWHERE


def test_management_shows_that_the_router_serves_its_control_addresses() -> None:
    served = {key for key, one in ReservedAddresses("A", interior=True).by_key.items() if one.serves_router()}
    assert served == RESERVED - EVERYWHERE


def test_control_messages_are_counted_at_their_address() -> None:
    reserved = ReservedAddresses("A", interior=True)
    for to in ("_local/qdhello", "_topo/0/A/qdrouter", "_topo/0/all/qdrouter.ma"):
        reserved.sent(to)
    reserved.received("_local/qdhello")
    counts = {key: (one.to_process, one.from_process) for key, one in reserved.by_key.items()}
    assert counts["Lqdhello"] == (1, 1)
    assert counts["Lqdrouter"] == (0, 1)
    assert counts["Tqdrouter.ma"] == (0, 1)
    assert sum(there + here for there, here in counts.values()) == 4


def test_other_addresses_are_not_counted() -> None:
    reserved = ReservedAddresses("A", interior=True)
    reserved.sent("_topo/0/B/qdrouter")
    reserved.received("news")
    assert all((one.to_process, one.from_process) == (0, 0) for one in reserved.by_key.values())
