"""Which routers move clients: shares, tolerance, and what keeps it from going on forever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_operator.planning.balance import FEW, SKEW_S, Load, moves, surplus
from waymesh_operator.planning.mesh import DesiredMesh, DesiredRouter
from waymesh_operator.planning.plan import ObservedState
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.actions import MoveClients
from waymesh_operator.router_entities.names import ROUTER, Entity
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState

pytestmark = pytest.mark.engine_independent


def load(clients: int, age: int = 100, share: int = 0, share_age: int = 10**6, moving: bool = False) -> Load:
    return Load(clients, share, share_age, age, moving)


def test_after_two_routers_were_added_the_others_move_what_is_above_their_share() -> None:
    loads = {f"mesh-{k}": load(100, 1000) for k in range(3)} | {f"mesh-{k}": load(0, 9) for k in (3, 4)}
    assert surplus(loads) == [MoveClients(f"mesh-{k}", 60, 9 + SKEW_S) for k in range(3)]


def test_a_router_is_told_once_until_another_one_starts_or_the_share_changes() -> None:
    told = load(100, 1000, share=60, share_age=12)
    loads = {"a": told, "b": load(80, 1000, 60, 12), "c": load(0, 9)}
    assert surplus(loads) == []
    assert surplus(loads | {"c": load(0, 5)}) == [MoveClients(name, 60, 5 + SKEW_S) for name in "ab"]
    assert surplus(loads | {"c": load(0, 4)}) == [], "clients may not find it yet"
    assert surplus({"a": replace(told, clients=200), "c": load(0, 9)}) == [MoveClients("a", 100, 9 + SKEW_S)]


def test_while_clients_move_the_share_stays() -> None:
    """The numbers are read one after the other: who moves in between counts twice or not at all."""
    first = {"a": load(75, 1000, 60, 12, True), "b": load(70, 1000, 60, 12, True), "c": load(90, 1000)}
    for clients in (0, 200):
        loads = first | {"d": load(clients, 9), "e": load(clients, 9)}
        assert surplus(loads) == [MoveClients("c", 60, 9 + SKEW_S)], "nor does one that was not told get another one"
    twice = {f"mesh-{k}": load(70, 1000, 60, 12) for k in range(3)} | {"new": load(0, 9), "newer": load(0, 9)}
    assert surplus(twice) == [MoveClients(f"mesh-{k}", 42, 9 + SKEW_S) for k in range(3)], "they have moved"


def test_a_router_that_starts_while_clients_move_begins_anew() -> None:
    loads = {f"mesh-{k}": load(80, 1000, 60, 100, True) for k in range(2)} | {"new": load(50, 9)}
    assert surplus(loads) == []
    assert surplus(loads | {"new": load(5, 9)}) == [MoveClients(f"mesh-{k}", 55, 9 + SKEW_S) for k in range(2)]


def test_routers_that_started_together_keep_their_clients() -> None:
    """While many clients connect, the number of one router was read later than those of the others."""
    assert surplus({"a": load(60, 5 + SKEW_S), "b": load(20, 5), "c": load(22, 6)}) == []


@pytest.mark.parametrize("counts", [(10, 10, 10), (11, 10, 9), (3, 0, 0), (0, 0), (1, 0), (23, 20, 20), (2, 0, 1)])
def test_small_differences_do_not_matter(counts: tuple[int, ...]) -> None:
    assert surplus({f"mesh-{k}": load(count) for k, count in enumerate(counts)}) == []


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 10**6)), min_size=2, max_size=64))
def test_only_those_above_the_share_move_and_none_below_it(drawn: list[tuple[int, int]]) -> None:
    loads = {f"mesh-{k}": load(clients, age) for k, (clients, age) in enumerate(drawn)}
    total = sum(clients for clients, _ in drawn)
    for step in surplus(loads):
        assert loads[step.router_id].clients > step.share + FEW
        assert step.share * len(loads) >= total
        assert step.older_s == min(age for _, age in drawn) + SKEW_S < loads[step.router_id].age_s


# ---- of a mesh
OWN = {"clientConnections": 0, "clientShare": 0, "clientShareAge": 9, "uptimeSeconds": 9, "clientsMoving": False}


def mesh(size: int = 2, balance: bool = True) -> DesiredMesh:
    ref = Ref("ns", "mesh")
    routers = (DesiredRouter(ref, f"mesh-{k}", k, "interior", (), ()) for k in range(size))
    return DesiredMesh(ref, tuple(routers), balance=balance)


def observed(*own: dict[str, Any], **fields: Any) -> ObservedState:
    state = fields.pop("state", RouterState.RUNNING)
    made = (ObservedRouter(f"mesh-{k}", k, state, entities=(Entity(ROUTER, "r", row),)) for k, row in enumerate(own))
    return ObservedState(mesh=ObservedMesh({router.id: router for router in made}), **fields)


def test_a_whole_mesh_is_balanced_and_others_are_left_alone() -> None:
    crowded = OWN | {"clientConnections": 100, "uptimeSeconds": 500, "clientShareAge": 500}
    both = (crowded, OWN)
    assert list(moves(mesh(), observed(*both))) == [MoveClients("mesh-0", 50, 9 + SKEW_S)]
    assert list(moves(mesh(balance=False), observed(*both))) == []
    assert list(moves(mesh(3), observed(*both))) == [], "one is missing"
    assert list(moves(mesh(1), observed(*both))) == [], "one has to leave"
    assert list(moves(mesh(), observed(*both, draining={"mesh-1": "draining"}))) == []
    assert list(moves(mesh(), observed(*both, state=RouterState.STARTING))) == []
    assert list(moves(mesh(), observed(crowded, {"uptimeSeconds": 9}))) == [], "an older image"
