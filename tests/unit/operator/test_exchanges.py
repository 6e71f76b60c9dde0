"""The Exchange resource: its fields, its entities, and those that cannot be beside each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.exchange import Binding, Exchange, exchange_conflicts
from waymesh_operator.resources.manifests import Document, parse_text
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.resources.validation import Checked, check
from waymesh_operator.router_entities.actions import CreateEntity, DeleteEntity, plan_entities
from waymesh_operator.router_entities.exchanges import exchange_entities
from waymesh_operator.router_entities.names import BINDING, EXCHANGE, Entity
from waymesh_operator.router_entities.placement import place_entities
from waymesh_operator.router_entities.verdicts import judge

pytestmark = pytest.mark.engine_independent

MESH = Router(Ref("ns", "mesh"), size=3, uid="u")
NEWS = Exchange(
    Ref("ns", "news"), MESH.ref, "news", bindings=(Binding("eu.#", "office/eu"), Binding("us.#", "office/us"))
)
ROUTER = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh, namespace: ns}
spec: {size: 3}
"""


def manifest(name: str, spec: str) -> str:
    head = f"apiVersion: waymesh.io/v1alpha1\nkind: Exchange\nmetadata: {{name: {name}, namespace: ns}}\n"
    return f"---\n{head}spec: {{routerRef: {{name: mesh}}, {spec}}}\n"


def checked(*parts: str) -> Checked:
    documents: list[Document]
    documents, problems = parse_text(ROUTER + "".join(parts), "m.yaml")
    assert not problems
    return check(documents, load_crds())


def test_a_manifest_becomes_an_exchange_and_its_bindings() -> None:
    whole = "address: news, alternateAddress: rest, matchMethod: mqtt, placement: {routers: List, ordinals: [2, 0]}, "
    whole += "bindings: [{bindingKey: us/#, nextHopAddress: b, nextHopPhase: 1}, {nextHopAddress: a}]"
    (found,) = checked(manifest("news", whole)).meshes[MESH.ref].exchanges
    assert found == Exchange(
        Ref("ns", "news"),
        MESH.ref,
        "news",
        alternate_address="rest",
        match_method="mqtt",
        bindings=(Binding("#", "a"), Binding("us/#", "b", 1)),
        placement="List",
        ordinals=(0, 2),
    )


REFUSED = {
    "its own address": ("address: a, bindings: [{nextHopAddress: a}]", "cannot send to its own address"),
    "its own alternate": ("address: a, alternateAddress: a", "cannot send to its own address"),
    "mqtt": ("address: a, matchMethod: mqtt, bindings: [{bindingKey: 'a/#/b', nextHopAddress: b}]", "last token"),
    "management": ("address: $management", "must be an address of clients"),
    "management of another": ("address: a, bindings: [{nextHopAddress: _topo/0/x/$management}]", "address of clients"),
    "local": ("address: a, alternateAddress: _local/x", "must be an address of clients"),
    "scheme": ("address: 'amqp:/a'", "must be an address of clients"),
    "slash": ("address: a, bindings: [{nextHopAddress: /a}]", "must be an address of clients"),
    "twice": ("address: a, bindings: [{nextHopAddress: b}, {nextHopAddress: b, bindingKey: '#'}]", "duplicates"),
}


@pytest.mark.parametrize(("spec", "why"), REFUSED.values(), ids=REFUSED)
def test_what_routers_would_refuse_is_refused(spec: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        checked(manifest("news", spec))


def test_phases_are_other_addresses() -> None:
    checked(manifest("news", "address: a, bindings: [{nextHopAddress: a, nextHopPhase: 1}]"))


def test_manifests_with_the_same_address_or_that_lead_to_each_other_are_refused() -> None:
    first = manifest("a", "address: x, bindings: [{nextHopAddress: y}]")
    with pytest.raises(ManifestError, match=r"spec\.address: x is already used by Exchange/ns/a"):
        checked(first, manifest("b", "address: x"))
    with pytest.raises(ManifestError, match=r"spec\.bindings: the address of one of both"):
        checked(first, manifest("b", "address: y"))


CONFLICTS = [
    ("same address", {"address": "news"}, True),
    ("another phase", {"address": "news", "phase": 1}, False),
    ("is led to", {"address": "office/eu"}, True),
    ("leads there", {"address": "x", "bindings": (Binding("#", "news"),)}, True),
    ("diverts there", {"address": "x", "alternate_address": "news"}, True),
    ("of another mesh", {"address": "news", "router": Ref("ns", "other")}, False),
    ("on all routers, too", {"address": "news", "placement": "List", "ordinals": (1,)}, True),
    ("neither", {"address": "x", "bindings": (Binding("#", "office/eu"),)}, False),
]


@pytest.mark.parametrize(("fields", "conflict"), [row[1:] for row in CONFLICTS], ids=[row[0] for row in CONFLICTS])
def test_the_older_of_two_stays(fields: dict[str, Any], conflict: bool) -> None:
    younger = replace(NEWS, ref=Ref("ns", "a"), created="2026-01-02", **{"bindings": (), **fields})
    older = replace(NEWS, created="2026-01-01")
    assert exchange_conflicts([younger, older]) == ({younger.ref: older} if conflict else {})


def test_lists_of_other_routers_do_not_conflict_and_the_loser_is_told_why() -> None:
    one = replace(NEWS, placement="List", ordinals=(0,), created="1")
    two = replace(one, ref=Ref("ns", "two"), ordinals=(1, 2), created="2")
    three = replace(one, ref=Ref("ns", "three"), ordinals=(2,), created="3")
    assert exchange_conflicts([three, two, one]) == {three.ref: two}
    verdicts = judge(Resources(MESH, exchanges=(one, two, three)), {})
    assert verdicts["Exchange", two.ref].good
    told = "Exchange ns/two is older and already has address news, or one of both sends to the other"
    assert (verdicts["Exchange", three.ref].reason, verdicts["Exchange", three.ref].message) == ("Conflicted", told)


@pytest.mark.parametrize(
    ("fields", "routers"),
    [({}, {0, 1, 2}), ({"placement": "One"}, None), ({"placement": "List", "ordinals": (1,)}, {1})],
)
def test_it_is_on_its_routers(fields: dict[str, Any], routers: set[int] | None) -> None:
    resources = Resources(MESH, exchanges=(replace(NEWS, **fields),))
    found = place_entities(resources, {}, judge(resources, {}))
    names = [entity.name for entity in exchange_entities(NEWS)]
    there = {k for k in range(3) if all(n in {e.name for e in (*found.shared, *found.only_on(k))} for n in names)}
    assert there == routers if routers else len(there) == 1
    nowhere = replace(NEWS, placement="List", ordinals=(7,))
    assert judge(Resources(MESH, exchanges=(nowhere,)), {})["Exchange", NEWS.ref].reason == "NoSuchRouter"


def steps(wanted: Exchange, live: Exchange) -> list[str]:
    present = [Entity(one.type, one.name, one.attributes) for one in exchange_entities(live)]
    signs = {CreateEntity: "+", DeleteEntity: "-"}
    planned = plan_entities("mesh-0", exchange_entities(wanted), present)
    return [f"{signs[type(step)]}{step.entity.type.rpartition('.')[2]}" for step in planned]


def test_a_changed_binding_leaves_the_others_and_a_changed_exchange_is_replaced_with_all_of_them() -> None:
    assert steps(NEWS, NEWS) == []
    moved = replace(NEWS, bindings=(NEWS.bindings[0], Binding("us.#", "elsewhere")))
    assert steps(moved, NEWS) == ["+binding", "-binding"]
    diverted = replace(NEWS, alternate_address="rest")
    assert steps(diverted, NEWS) == ["-exchange", "+exchange", "+binding", "+binding", "-binding", "-binding"]
    assert steps(replace(NEWS, address="else"), NEWS)[:3] == ["+exchange", "+binding", "+binding"]


def test_bindings_come_after_their_exchange() -> None:
    first, *others = exchange_entities(NEWS)
    assert first.type == EXCHANGE
    assert {(one.type, one.attributes["exchangeName"]) for one in others} == {(BINDING, first.name)}
