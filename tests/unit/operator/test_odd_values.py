"""Values that fit a CRD make entities that a router can read: a seed with any other keeps all routers of the mesh from
starting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from waymesh_operator.errors import ManifestError
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import Checked, check
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import examine

pytestmark = pytest.mark.engine_independent

CRDS = load_crds()
ROUTER = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "metadata": {"name": "mesh"}, "spec": {}}
ODD = [
    "a@b", "user:pw@h", "/", "./.", "..", "a/../b", "#", "*", "a,b", "a, b", "amqp://x", "host:80", "${user}", "{user}",
    "env:HOME", "file:/etc/passwd", "é", "\U0001f600", "\u00a0", "a" * 250, "[::1]", "::1", "fe80::1%eth0",
    "1.1.1.1/24", "9.9.9.9-1.1.1.1", " ", " a ", "''", '"', "\\", "a;b", "$management", "_topo/x", "qd.x", "$default",
    "*.x", "x.*", "a.#", "#.a", "*a", "a..b", "a~1", "[a", "a]", "{", "${user}${user}", "none", "0", "-1",
]  # fmt: skip
CONTAINER = {"containerId": "c", "address": "a", "direction": "in"}
ROUTE = {"containerId": "c", "direction": "both", "prefix": "p"}
HOST = {"host": "h", "port": 1}
VHOST = {"hostname": "h"}
LISTS = ("users", "remoteHosts", "sources", "targets", "sourcePatterns", "targetPatterns", "linkRoutePatterns")
SPECS: list[tuple[str, Mapping[str, Any]]] = [
    ("Address", {"prefix": "{}"}),
    ("Address", {"pattern": "{}"}),
    ("Broker", {"endpoints": [{"host": "{}"}]}),
    ("Broker", {"endpoints": [HOST, {"host": "{}"}]}),
    ("Broker", {"endpoints": [HOST], "hostname": "{}"}),
    ("Broker", {"endpoints": [HOST], "containerId": "{}"}),
    ("Broker", {"direction": "Incoming", "brokerContainerId": "{}"}),
    *(("AutoLink", {**CONTAINER, name: "{}"}) for name in ("containerId", "address", "externalAddress", "selector")),
    ("AutoLink", {**CONTAINER, "capabilities": ["{}"]}),
    ("AutoLink", {**CONTAINER, "linkProperties": {"{}": "a"}}),
    ("AutoLink", {**CONTAINER, "linkProperties": {"a": "{}"}}),
    *(("LinkRoute", {**ROUTE, name: "{}"}) for name in ("containerId", "prefix", "addExternalPrefix")),
    ("LinkRoute", {**ROUTE, "delExternalPrefix": "{}"}),
    ("LinkRoute", {"containerId": "c", "direction": "both", "pattern": "{}"}),
    ("RouterLink", {"endpoints": [{"host": "{}"}]}),
    ("RouterLink", {"endpoints": [HOST, {"host": "{}"}]}),
    ("VhostPolicy", {"hostname": "{}"}),
    ("VhostPolicy", {**VHOST, "aliases": ["{}"]}),
    ("VhostPolicy", {**VHOST, "blockedUsers": ["{}"]}),
    ("VhostPolicy", {**VHOST, "userConnectionRates": {"{}": "1/1"}}),
    ("VhostPolicy", {**VHOST, "groups": [{"name": "{}"}]}),
    *(("VhostPolicy", {**VHOST, "groups": [{"name": "g", name: ["b", "{}"]}]}) for name in LISTS),
]


def filled(value: Any, odd: str) -> Any:
    """A copy with `{}` replaced."""
    if isinstance(value, dict):
        return {odd if name == "{}" else name: filled(child, odd) for name, child in value.items()}
    if isinstance(value, list):
        return [filled(item, odd) for item in value]
    return odd if value == "{}" else value


def accepted(kind: str, spec: Mapping[str, Any], name: str = "x") -> Checked | None:
    spec = {"routerRef": {"name": "mesh"}, **spec}
    made = {"apiVersion": "waymesh.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    documents, problems = parse_text(yaml.safe_dump_all([ROUTER, made], allow_unicode=True), "m.yaml")
    assert problems == []
    try:
        return check(documents, CRDS)
    except ManifestError:
        return None


def refusals(checked: Checked) -> Iterator[str]:
    """Why a router would not read the entities."""
    for mesh in checked.meshes.values():
        for router in desired_cluster(mesh, ClusterContext(OperatorSettings("image"))).mesh.routers:
            for entity in router.entities:
                given = {name: value for name, value in entity.attributes.items() if value is not None}
                named = {**given, "name": entity.name} if entity.owned else given
                yield from map(str, examine(entity_type(entity.type), named)[1])


@pytest.mark.parametrize(("kind", "spec"), SPECS, ids=[f"{kind} {spec}" for kind, spec in SPECS])
def test_what_the_crds_accept_can_be_read_by_routers(kind: str, spec: Mapping[str, Any]) -> None:
    found = {odd: accepted(kind, filled(spec, odd)) for odd in ODD}
    assert any(found.values()), "all of them are refused, so the specification is wrong otherwise"
    assert {odd: list(refusals(checked)) for odd, checked in found.items() if checked if any(refusals(checked))} == {}


@pytest.mark.parametrize("kind", ["Broker", "RouterLink"])
def test_the_name_of_a_resource_with_files_fits_into_the_key_of_a_secret(kind: str) -> None:
    """A key has at most 253 characters: with a longer one, the API server refuses the Secret with the files of all."""
    spec = {"endpoints": [HOST]}
    assert accepted(kind, spec, "a" * 200) is not None
    assert accepted(kind, spec, "a" * 201) is None
