"""Paths and valid origins (inter-router.md, "Paths"), against the definitions, on random meshes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_router.routing.paths import Paths

pytestmark = pytest.mark.engine_independent

LinkStates = dict[str, dict[str, int]]
COSTS = st.sampled_from([1, 1, 1, 2, 3, 10])


@st.composite
def meshes(draw: st.DrawFn, symmetric: bool = True) -> LinkStates:
    """Link states of some routers, connected or not. Few different costs, so that paths of equal cost abound."""
    count = draw(st.integers(2, 12))
    ids = [f"r{number}" for number in range(count)]
    pairs = [(one, other) for one in ids for other in ids if one < other or (one != other and not symmetric)]
    links = draw(st.dictionaries(st.sampled_from(pairs), COSTS, max_size=3 * count))
    states: LinkStates = {router_id: {} for router_id in ids}
    for (one, other), cost in links.items():
        states[one][other] = cost
        if symmetric:
            states[other][one] = cost
    return states


def paths_of(router_id: str, states: LinkStates) -> Paths:
    paths = Paths(router_id)
    for tail, peers in states.items():
        paths.set_links(tail, peers)
    paths.update()
    return paths


def distances_by_definition(states: LinkStates, origin: str) -> dict[str, int]:
    """Bellman-Ford: relax every link until nothing gets shorter."""
    dist = {origin: 0}
    shorter = True
    while shorter:
        shorter = False
        for tail, peers in states.items():
            for head, cost in peers.items():
                if tail in dist and dist[tail] + cost < dist.get(head, 1 << 60):
                    dist[head] = dist[tail] + cost
                    shorter = True
    return dist


def path_by_definition(states: LinkStates, origin: str, target: str) -> list[str]:
    """The path that inter-router.md defines, back from the target: each time the nearest, then lowest id."""
    dist = distances_by_definition(states, origin)
    path = [target]
    while path[-1] != origin:
        at = path[-1]
        tails = {tail: peers[at] for tail, peers in states.items() if at in peers and tail in dist}
        befores = [tail for tail, cost in tails.items() if dist[tail] + cost == dist[at]]
        path.append(min(befores, key=lambda tail: (dist[tail], tail)))
    return path[::-1]


def assert_routes(paths: Paths, router_id: str, states: LinkStates) -> None:
    costs = distances_by_definition(states, router_id)
    del costs[router_id]
    assert {target: route.cost for target, route in paths.routes.items()} == costs
    for target, route in paths.routes.items():
        assert route.next_hop == path_by_definition(states, router_id, target)[1]
        origins = {
            origin
            for origin in costs
            if origin != target
            and target in distances_by_definition(states, origin)
            and router_id in path_by_definition(states, origin, target)[1:-1]
        }
        assert set(route.origins) == origins


@given(meshes())
@settings(deadline=None)
def test_routes_are_those_of_the_definition(states: LinkStates) -> None:
    for router_id in states:
        assert_routes(paths_of(router_id, states), router_id, states)


@given(meshes(symmetric=False))
@settings(deadline=None)
def test_a_link_counts_in_the_direction_in_which_it_is_listed(states: LinkStates) -> None:
    assert_routes(paths_of("r0", states), "r0", states)


@given(meshes(), st.lists(meshes(), max_size=5))
@settings(deadline=None)
def test_repaired_routes_equal_those_computed_anew(first: LinkStates, later: list[LinkStates]) -> None:
    paths = paths_of("r0", first)
    known = set(first)
    for states in later:
        before = dict(paths.routes)
        known |= set(states)
        for router_id in known:
            paths.set_links(router_id, states.get(router_id, {}))
        changed = paths.update()
        complete = {router_id: states.get(router_id, {}) for router_id in known}
        assert paths.routes == paths_of("r0", complete).routes
        assert changed == {
            router_id for router_id in known if before.get(router_id) != paths.routes.get(router_id)
        }


@given(meshes(), st.data())
@settings(deadline=None)
def test_one_link_state_after_the_other(states: LinkStates, data: st.DataObject) -> None:
    paths = Paths("r0")
    seen: LinkStates = {router_id: {} for router_id in states}
    for router_id in data.draw(st.permutations(sorted(states))):
        seen[router_id] = states[router_id]
        paths.set_links(router_id, states[router_id])
        paths.update()
        assert paths.routes == paths_of("r0", seen).routes


@given(meshes())
@settings(deadline=None)
def test_following_next_hops_reaches_the_destination(states: LinkStates) -> None:
    tables = {router_id: paths_of(router_id, states).routes for router_id in states}
    for start, table in tables.items():
        for target in table:
            at, cost = start, 0
            while at != target:
                following = tables[at][target].next_hop
                cost += states[at][following]
                at = following
                assert cost <= table[target].cost
            assert cost == table[target].cost


@given(meshes())
@settings(deadline=None)
def test_a_flood_by_valid_origin_reaches_every_router_exactly_once(states: LinkStates) -> None:
    tables = {router_id: paths_of(router_id, states).routes for router_id in states}
    for ingress in states:
        got: dict[str, int] = {}
        copies = [(ingress, "")]
        while copies:
            at, came_from = copies.pop()
            got[at] = got.get(at, 0) + 1
            onward = {
                route.next_hop
                for target, route in tables[at].items()
                if target != ingress and (at == ingress or ingress in route.origins)
            }
            assert came_from not in onward
            copies.extend((peer, at) for peer in onward)
        assert got == dict.fromkeys(tables[ingress].keys() | {ingress}, 1)


@given(meshes())
@settings(deadline=None)
def test_balanced_forwarding_by_valid_origin_is_never_stuck(states: LinkStates) -> None:
    """Each router on the way to a destination finds the ingress router among its valid origins."""
    tables = {router_id: paths_of(router_id, states).routes for router_id in states}
    for ingress, table in tables.items():
        for target in table:
            at = table[target].next_hop
            while at != target:
                assert ingress in tables[at][target].origins
                at = tables[at][target].next_hop


def test_equal_cost_goes_by_the_lower_router_id() -> None:
    square = {"A": {"B": 1, "C": 1}, "B": {"A": 1, "D": 1}, "C": {"A": 1, "D": 1}, "D": {"B": 1, "C": 1}}
    assert paths_of("A", square).routes["D"].next_hop == "B"
    assert paths_of("D", square).routes["A"].next_hop == "B"
    assert set(paths_of("B", square).routes["D"].origins) == {"A"}
    assert set(paths_of("C", square).routes["D"].origins) == set()


def test_the_cheaper_way_round_wins_over_a_direct_link() -> None:
    states = {"A": {"B": 10, "C": 1}, "C": {"A": 1, "B": 1}, "B": {"A": 10, "C": 1}}
    assert paths_of("A", states).routes["B"][:2] == (2, "C")


def test_a_restarted_router_gets_a_clean_place() -> None:
    paths = paths_of("A", {"A": {"B": 1}, "B": {"A": 1, "C": 1}, "C": {"B": 1}})
    for router_id in ("A", "B", "C"):
        paths.set_links(router_id, {})
    assert paths.update() == {"B", "C"}
    paths.set_links("A", {"X": 4})
    paths.set_links("X", {"A": 4, "Y": 1})
    assert paths.update() == {"X", "Y"}
    assert {router_id: route.cost for router_id, route in paths.routes.items()} == {"X": 4, "Y": 5}


def test_nothing_changed_is_nothing_to_tell() -> None:
    paths = paths_of("A", {"A": {"B": 1}, "B": {"A": 1}})
    paths.set_links("B", {})
    paths.set_links("B", {"A": 1})
    assert paths.update() == set()
