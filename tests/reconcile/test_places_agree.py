"""The same manifests make the same routers in Kubernetes and in local mode. Their entities differ only in what a place
decides; all of that is written down here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.seeds import shared_rows
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings, referenced_secrets
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.local.desired import LocalContext, RouterAddresses, desired_local
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import check
from waymesh_operator.router_entities.names import CONNECTOR, LISTENER, ROUTER, Entity
from waymesh_operator.router_entities.policies import MANAGEMENT_VHOST
from waymesh_operator.router_entities.verdicts import S3_KEYS
from waymesh_operator.tls.rollover import TlsRequest, next_tls

from .cluster_model import NOW

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[2]
CRDS = load_crds()
MESH_PROFILE = "mesh"
KEYS = ("ca.crt", "tls.crt", "tls.key", "ca.crl", "username", "password", "token", "jwks.json", *S3_KEYS)
ANY_KEY = dict.fromkeys(KEYS, b"x")
"""The contents of each Secret that an example refers to and does not have."""


def meshes(path: Path) -> Iterable[Resources]:
    """The meshes of an example. Objects of other API groups are left out."""
    documents, problems = parse_text(path.read_text(encoding="utf-8"), path.name)
    assert not problems
    ours = [one for one in documents if str(one.data.get("apiVersion", "")).startswith("waymesh.io/")]
    return check(ours, CRDS).meshes.values()


EXAMPLES = [
    pytest.param(mesh, id=f"{path.relative_to(ROOT / 'examples')}:{mesh.router.ref.name}")
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    if "kind: Router\n" in path.read_text(encoding="utf-8")
    for mesh in meshes(path)
    if not any(profile.of_cluster for profile in mesh.router.token_profiles)  # local mode refuses ServiceAccounts
]


def in_kubernetes(mesh: Resources) -> DesiredState:
    ref = mesh.router.ref
    context = ClusterContext(
        OperatorSettings("router:1"),
        dict.fromkeys(referenced_secrets(mesh), ANY_KEY),
        next_tls(TlsRequest(ref.name, ref.namespace), {}, {}, NOW),
        claims={mesh.router.telemetry.claim: ("ReadWriteMany",)},
    )
    return desired_cluster(replace(mesh, router=replace(mesh.router, uid="u-1")), context)


def in_local_mode(mesh: Resources) -> DesiredState:
    own = {listener.name: listener.port for listener in mesh.router.listeners}
    places = [RouterAddresses("", "localhost", 1000 + k, 2000 + k, own) for k in range(mesh.router.size)]
    return desired_local(mesh, LocalContext(places, dict.fromkeys(referenced_secrets(mesh), ANY_KEY)))


def asked_for(entities: Iterable[Entity]) -> dict[tuple[str, str], dict[str, Any]]:
    """The attributes of entities by type and name, without what a place adds: listeners and connectors of the mesh
    itself with their protection, how long a router drains that is told to end, and who may manage it."""
    found = {}
    for entity in entities:
        attributes = {name: value for name, value in entity.attributes.items() if value is not None}
        _, of_router, part = entity.base_name.partition("/Router/")
        of_mesh = of_router and not part.partition("/")[2].startswith("listener/")
        managed = attributes.get("hostname") == MANAGEMENT_VHOST
        if (of_mesh and entity.type in (LISTENER, CONNECTOR)) or entity.base_name == MESH_PROFILE or managed:
            continue
        if entity.type == ROUTER:
            attributes.pop("drainTimeoutSeconds", None)
        found[entity.type, entity.base_name] = attributes
    return found


@pytest.mark.parametrize("mesh", EXAMPLES)
def test_routers_have_the_same_entities_in_both_places(mesh: Resources) -> None:
    kubernetes, local = in_kubernetes(mesh).mesh, in_local_mode(mesh).mesh
    assert [router.id for router in kubernetes.routers] == [router.id for router in local.routers]
    assert kubernetes.neighbours == local.neighbours
    for one, other in zip(kubernetes.routers, local.routers):
        assert asked_for(one.entities) == asked_for(other.entities)


@pytest.mark.parametrize("mesh", EXAMPLES)
def test_routers_boot_with_the_same_entities_in_both_places(mesh: Resources) -> None:
    name, kubernetes, local = mesh.router.ref.name, in_kubernetes(mesh), in_local_mode(mesh)
    maps = {item["metadata"]["name"]: item for item in kubernetes.objects if item["kind"] == "ConfigMap"}
    shared = shared_rows(maps.get, name)
    assert local.seeds
    for router, seed in local.seeds.items():
        own = json.loads(maps[f"{name}-seed"]["data"][f"{router}.json"])
        assert asked_for(map(entity_of, [*own, *shared])) == asked_for(map(entity_of, json.loads(seed)))


def entity_of(row: list[Any]) -> Entity:
    kind, attributes = row
    return Entity(kind, attributes.get("name") or attributes.get("module") or kind, attributes)


def test_all_examples_are_compared() -> None:
    assert len(EXAMPLES) >= 18
