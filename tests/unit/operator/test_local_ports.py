"""Ports of local routers: those of the manifest if possible, and stable."""

from __future__ import annotations

import socket

import pytest

from tests.kit.ports import free_port
from waymesh_operator.errors import LocalError
from waymesh_operator.places.local.state import LAST, PortClaims, PortTable, Saved, is_free
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router

pytestmark = pytest.mark.engine_independent

ROUTER = Router(Ref("default", "m"), size=3, listeners=(Listener("a", 5000), Listener("b", 5001)))
RUNNING = {"m-0": 1, "m-1": 1, "m-2": 1}


def table(saved: Saved, busy: frozenset[int] = frozenset(), *, any_port: bool = False) -> PortTable:
    return PortTable(saved, any_port=any_port, free=lambda port: port not in busy)


def test_router_0_has_the_ports_of_the_manifest_and_no_two_share_one() -> None:
    places = table({}).places(ROUTER, {})
    assert places[0].ports == {"a": 5000, "b": 5001}
    assert places[1].ports == {"a": places[1].ports["a"], "b": 5002}  # 5001 belongs to router 0
    everything = [p for place in places for p in (place.mesh_port, place.management_port, *place.ports.values())]
    assert len(set(everything)) == len(everything) == 12
    assert all(place.mesh_port <= LAST for place in places)


def test_a_port_in_use_is_replaced_and_taken_when_it_is_free_again() -> None:
    saved: Saved = {}
    shifted = table(saved, frozenset({5000})).places(ROUTER, {})[0].ports["a"]
    assert shifted != 5000
    assert saved["m-0"]["listener/a"] == [5000, shifted]
    assert table(saved).places(ROUTER, {"m-0": 1})[0].ports["a"] == shifted  # it runs with that one
    assert table(saved).places(ROUTER, {})[0].ports["a"] == 5000


def test_what_was_chosen_is_kept() -> None:
    saved: Saved = {}
    first = table(saved).places(ROUTER, {})
    assert table(saved).places(ROUTER, {}) == first
    busy = frozenset(p for place in first for p in (place.mesh_port, place.management_port, *place.ports.values()))
    assert table(saved, busy).places(ROUTER, RUNNING) == first  # its own routers hold them
    assert table(saved, busy).places(ROUTER, {})[2].mesh_port != first[2].mesh_port  # somebody else does


def test_any_port_ignores_those_of_the_manifest() -> None:
    assert 5000 not in table({}, any_port=True).places(ROUTER, {})[0].ports.values()


def test_another_port_in_the_manifest_moves_only_that_listener() -> None:
    saved: Saved = {}
    first = table(saved).places(ROUTER, {})
    moved = Router(ROUTER.ref, size=3, listeners=(Listener("a", 6000), Listener("b", 5001)))
    after = table(saved).places(moved, RUNNING)
    assert [place.ports["a"] for place in after] == [6000, 6001, 6002]
    assert [(p.mesh_port, p.ports["b"]) for p in after] == [(p.mesh_port, p.ports["b"]) for p in first]


def test_ports_beyond_the_last_one_are_chosen_freely() -> None:
    high = Router(ROUTER.ref, size=2, listeners=(Listener("a", 65535),))
    places = table({}).places(high, {})
    assert places[0].ports["a"] == 65535
    assert places[1].ports["a"] <= LAST


def test_no_port_at_all() -> None:
    with pytest.raises(LocalError, match="no free port"):
        PortTable({}, free=lambda port: False).places(ROUTER, {})


def test_is_free_asks_the_system() -> None:
    port = free_port()  # not one that the system gives to clients: it could be in use again at once
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
    assert is_free(port)


def test_a_port_has_one_claim_until_it_is_given_up() -> None:
    first, second, port = PortClaims(), PortClaims(), free_port()
    assert first.take(port)
    assert first.take(port)
    assert not second.take(port)
    first.keep({port})
    assert not second.take(port)
    first.keep(())
    assert second.take(port)
    second.keep(())
