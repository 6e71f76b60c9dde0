"""The statuses of many Addresses that are remembered are always those that would be computed anew."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.plan import ObservedState
from waymesh_operator.planning.status.addresses import AddressStatuses
from waymesh_operator.planning.status.conditions import LiveEntities, MeshSnapshot
from waymesh_operator.planning.status.dependents import address_status
from waymesh_operator.resources.dependents import Address, Resources
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.builders import address_entity
from waymesh_operator.router_entities.names import ADDRESS, AUTOLINK, Entity, resource_of
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterState

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MESH = Ref("ns", "mesh")
ROUTER = Router(MESH, size=2, uid="u-1")
CONTEXT = ClusterContext(OperatorSettings("registry/router:1"))
NAMES, MATCHES = tuple("abcdef"), ("orders", "orders/", "news", "_topo", "mail")
CHANGES = ("address", "gone", "live", "live", "foreign", "refused", "consumers", "state", "none")
STEPS = 150


class Story:
    """A mesh in which one thing changes at a time: an Address, an entity of a router, a refusal, a number of consumers,
    a router. What does not change remains the same object."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.addresses: dict[Ref, Address] = {}
        self.live: dict[str, dict[str, Entity]] = {"mesh-0": {}, "mesh-1": {}}
        self.states = dict.fromkeys(self.live, RouterState.RUNNING)
        self.refused: dict[tuple[str, tuple[str, str]], str] = {}
        self.consumers: dict[Ref, int] = {}
        self.desired = desired_cluster(Resources(ROUTER), CONTEXT)

    def change(self) -> None:
        """Change one thing."""
        ref = Ref("ns", self.chance.choice(NAMES))
        router = self.chance.choice(list(self.live))
        address, entities = self.addresses.get(ref), self.live[router]
        what = self.chance.choice(CHANGES)
        if what == "address":
            match, phase = self.chance.choice(MATCHES), self.chance.choice((None, 1))
            created = f"2026-01-0{self.chance.randint(1, 3)}T00:00:00Z"
            self.addresses[ref] = Address(ref, MESH, prefix=match, ingress_phase=phase, created=created)
        elif what == "gone":
            self.addresses.pop(ref, None)
        elif what == "live" and address is not None:
            entity = address_entity(address)
            name = entity.name + self.chance.choice(("", "", "~1"))
            if entities.pop(name, None) is None:
                entities[name] = replace(entity, name=name)
        elif what == "foreign":
            name = self.chance.choice(("mine", "k8s/x", "k8s/ns/Address"))
            if entities.pop(name, None) is None:
                entities[name] = Entity(ADDRESS, name, {"prefix": "mine"})
        elif what == "refused" and address is not None:
            key = router, address_entity(address).key
            self.refused = {**self.refused, key: self.chance.choice(("no", "never"))}
            if self.chance.random() < 0.5:
                self.refused = {one: text for one, text in self.refused.items() if one != key}
        elif what == "consumers":
            self.consumers = {**self.consumers, ref: self.chance.randint(0, 2)}
        elif what == "state":
            self.states[router] = self.chance.choice((RouterState.RUNNING, RouterState.SILENT))
        if what in ("address", "gone"):
            self.desired = desired_cluster(Resources(ROUTER, tuple(self.addresses.values())), CONTEXT)

    def seen(self) -> MeshSnapshot:
        """What is known of the mesh."""
        observed = {
            name: ObservedRouter(name, int(name[-1]), self.states[name], entities=tuple(entities.values()))
            for name, entities in self.live.items()
        }
        state = ObservedState({}, ObservedMesh(observed))
        return MeshSnapshot(self.desired, state, NOW, refused=self.refused, consumers=self.consumers)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_remembered_is_what_would_be_computed(seed: int) -> None:
    story, remembered = Story(seed), AddressStatuses()
    present: dict[Ref, dict[str, Any]] = {}
    for _ in range(STEPS):
        story.change()
        seen = story.seen() if story.chance.random() < 0.95 else None
        given = [(address, present.get(address.ref, {})) for address in story.addresses.values()]
        found = {address.ref: status for address, status in remembered.changed(given, seen, NOW)}
        expected = {one.ref: address_status(one, seen, before, NOW) for one, before in given}
        assert found == {one.ref: expected[one.ref] for one, before in given if expected[one.ref] != before}
        for ref, status in found.items():
            if story.chance.random() < 0.8:  # others are refused, or written later
                present[ref] = dict(status)


def test_entities_of_a_router_are_found_by_their_key_while_one_replaces_another() -> None:
    first, second = Entity(ADDRESS, "k8s/ns/Address/a"), Entity(ADDRESS, "k8s/ns/Address/a~1")
    link = Entity(AUTOLINK, "k8s/ns/Address/a")
    live = LiveEntities([second, link, first])
    assert list(live.get(first.key)) == [first, second]
    assert list(live.get(link.key)) == [link]
    assert not live.get((ADDRESS, "k8s/ns/Address/b"))
    assert not live.get((AUTOLINK, "k8s/ns/Address/b"))


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("k8s/ns/Address/a", Ref("ns", "a")),
        ("k8s/ns/AutoLink/l/immediate", Ref("ns", "l")),
        ("k8s/ns/Address", Ref("", "")),
        ("k8s/", Ref("", "")),
        ("mine/ns/Address/a", Ref("", "")),
    ],
)
def test_the_resource_of_an_entity_follows_from_its_name(name: str, resource: Ref) -> None:
    assert resource_of(name) == resource
