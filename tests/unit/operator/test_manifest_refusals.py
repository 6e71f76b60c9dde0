"""Values that a pod or router could not use are refused on apply, with clear messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.operator.kit import resource
from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router import parse_router
from waymesh_operator.resources.validation import check

pytestmark = pytest.mark.engine_independent

CRDS = load_crds()
ROUTER_REF = {"name": "mesh"}
UNSEEN = {
    "a line end": "a\nb", "a last line end": "ab\n", "a tab": "a\tb", "NUL": "a\0b", "DEL": "a\x7fb",
    "a control character of Latin-1": "a\x85b", "a line separator": "a\u2028b", "reversed text": "a\u202eb",
    "nothing to see": "a\u200bb",
}  # fmt: skip
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Address prefix": ("Address", {"prefix": "{}"}),
    "Address pattern": ("Address", {"pattern": "{}"}),
    "AutoLink address": ("AutoLink", {"address": "{}", "direction": "in", "containerId": "b"}),
    "AutoLink externalAddress": (
        "AutoLink", {"address": "a", "externalAddress": "{}", "direction": "in", "containerId": "b"},
    ),
    "AutoLink containerId": ("AutoLink", {"address": "a", "direction": "in", "containerId": "{}"}),
    "LinkRoute prefix": ("LinkRoute", {"prefix": "{}", "direction": "in", "containerId": "b"}),
    "LinkRoute pattern": ("LinkRoute", {"pattern": "{}", "direction": "in", "containerId": "b"}),
    "Broker host": ("Broker", {"endpoints": [{"host": "{}"}]}),
    "Broker hostname": ("Broker", {"endpoints": [{"host": "b"}], "hostname": "{}"}),
}  # fmt: skip


def refused(kind: str, spec: Mapping[str, Any]) -> list[str]:
    """What is wrong with a resource of this specification, beside a Router that is all right."""
    router = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "metadata": ROUTER_REF, "spec": {}}
    made = {"apiVersion": "waymesh.io/v1alpha1", "kind": kind, "metadata": {"name": "mesh"}, "spec": spec}
    text = yaml.safe_dump_all([made] if kind == "Router" else [router, made])
    documents, problems = parse_text(text, "m.yaml")
    assert problems == []
    try:
        check(documents, CRDS)
    except ManifestError as error:
        return [f"{problem.field}: {problem.message}" for problem in error.problems]
    return []


def test_a_number_beyond_64_bits_is_refused_as_by_the_api_server() -> None:
    at_most = {"policy": {"maxMessageSize": 2**63 - 1}}
    assert refused("Router", at_most) == []
    beyond = {"policy": {"maxMessageSize": 2**63}}
    assert refused("Router", beyond) == [f"spec.policy.maxMessageSize: must fit into 64 bits (got {2**63})"]


def filled(spec: Any, text: str) -> Any:
    if isinstance(spec, Mapping):
        return {name: filled(value, text) for name, value in spec.items()}
    if isinstance(spec, list):
        return [filled(value, text) for value in spec]
    return text if spec == "{}" else spec


@pytest.mark.parametrize("unseen", UNSEEN)
@pytest.mark.parametrize("where", TEXTS)
def test_text_that_cannot_be_seen_in_a_table_is_refused(where: str, unseen: str) -> None:
    kind, spec = TEXTS[where]
    spec = {"routerRef": ROUTER_REF, **spec}
    assert refused(kind, filled(spec, "orders.eu")) == []
    assert refused(kind, filled(spec, UNSEEN[unseen])) != []


def test_text_outside_ascii_is_an_address_like_others() -> None:
    for prefix in ("Aufträge", "注文", "a b", "orders/#1"):
        assert refused("Address", {"routerRef": ROUTER_REF, "prefix": prefix}) == []


def texts(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if schema.get("type") == "string":
        yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from texts(child, f"{path}.{name}")
    if "items" in schema:
        yield from texts(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", CRDS)
def test_every_text_of_a_specification_says_what_it_may_be(kind: str) -> None:
    former = {"Router.listeners[].users.name", "Router.telemetry.claimName"}
    for path, schema in texts(CRDS[kind].schema["properties"]["spec"], kind):
        assert path in former or {"enum", "pattern", "x-kubernetes-validations"} & set(schema), path


LOW = "spec.listeners[0].port: the routers do not run as root and cannot bind a port below 1024"


@pytest.mark.parametrize("port", [1, 443, 1023])
def test_a_port_that_a_pod_cannot_bind_is_refused(port: int) -> None:
    (problem,) = refused("Router", {"listeners": [{"name": "a", "port": port}]})
    assert problem.startswith(LOW)
    assert refused("Router", {"listeners": [{"name": "a", "port": 1024}]}) == []


NO_QUANTITIES = ["512MB", "much", "", "1 Gi", "-1Gi", "Gi", "1Gi\n", "0x10", "1,5Gi", True, -1, 1.5]


@pytest.mark.parametrize("quantity", NO_QUANTITIES)
def test_resources_are_quantities(quantity: Any) -> None:
    for part in ("requests", "limits"):
        assert refused("Router", {"pod": {"resources": {part: {"memory": quantity}}}}) != []


@pytest.mark.parametrize("quantity", ["512Mi", "1.5Gi", "1e9", "250m", ".5", "2.", "128974848", 128974848, 0])
def test_quantities_of_kubernetes_are_taken(quantity: Any) -> None:
    assert refused("Router", {"pod": {"resources": {"limits": {"memory": quantity}}}}) == []


def test_an_unknown_part_of_resources_is_refused() -> None:
    assert refused("Router", {"pod": {"resources": {"limit": {"memory": "1Gi"}}}}) == [
        "spec.pod.resources.limit: unknown field; did you mean limits?"
    ]


def test_one_delivery_of_none_is_refused() -> None:
    assert refused("Router", {"telemetry": {"sampleOneIn": 0}}) == [
        "spec.telemetry.sampleOneIn: must be between 1 and 1000000000 (got 0)"
    ]
    assert refused("Router", {"telemetry": {"samplesPerSecond": 0}}) == []


FORMER: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a claim by claimName": (
        {"telemetry": {"target": "Claim", "claimRef": {"name": "c"}, "claimName": "c"}},
        ["spec.telemetry.claimName: write the claim as claimRef: {name: ...}"],
    ),
    "users by name": (
        {"listeners": [{"name": "a", "port": 5672, "auth": "scram", "users": {"name": "u"}}]},
        ["spec.listeners[0].users: write users as {secretRef: {name: ...}}"],
    ),
    "both shapes of users": (
        {"listeners": [
            {"name": "a", "port": 5672, "auth": "scram", "users": {"name": "u", "secretRef": {"name": "u"}}}
        ]},
        ["spec.listeners[0].users: write users as {secretRef: {name: ...}}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMER)
def test_a_former_shape_of_a_reference_is_refused_with_the_present_one(case: str) -> None:
    spec, expected = FORMER[case]
    assert refused("Router", spec) == expected


def test_listeners_take_their_users_from_one_secret() -> None:
    def listener(name: str, port: int, secret: str) -> dict[str, Any]:
        return {"name": name, "port": port, "auth": "scram", "users": {"secretRef": {"name": secret}}}

    assert refused("Router", {"listeners": [listener("a", 5672, "u"), listener("b", 5673, "u")]}) == []
    assert refused("Router", {"listeners": [listener("a", 5672, "u"), listener("b", 5673, "v")]}) == [
        "spec.listeners: all listeners must use the same Secret for users"
    ]


def test_a_claim_or_bucket_beside_a_target_that_has_no_use_for_it_is_refused() -> None:
    (problem,) = refused("Router", {"telemetry": {"target": "EmptyDir", "claimRef": {"name": "c"}}})
    assert problem.endswith("claimRef is required with target: Claim, and only valid there and with target: Off")
    both = {"claimRef": {"name": "c"}, "s3": {"bucket": "abc"}}
    (problem,) = refused("Router", {"telemetry": {"target": "Claim", **both}})
    assert problem.endswith("s3 is required with target: S3, and only valid there and with target: Off")
    (problem,) = refused("Router", {"telemetry": {"target": "Claim"}})
    assert "claimRef is required" in problem


@pytest.mark.parametrize("place", [{"claimRef": {"name": "c"}}, {"s3": {"bucket": "abc"}}])
def test_the_export_is_switched_off_by_its_target_alone(place: Any) -> None:
    """As by a patch of this one field: where the files went is not forgotten, and nothing is exported."""
    spec = {"telemetry": {"target": "Off", **place}}
    assert refused("Router", spec) == []
    telemetry = parse_router(resource("Router", "mesh", size=1, **spec)).telemetry
    assert (telemetry.target, telemetry.claim, telemetry.s3) == ("Off", "", None)


def references(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Fields by which another object is named: by their own names, or by the shape of what they hold."""
    for name, child in schema.get("properties", {}).items():
        if name.endswith(("Ref", "SecretName", "ClaimName", "claimName", "secretName")):
            yield f"{path}.{name}", child
        yield from references(child, f"{path}.{name}")
    if "items" in schema:
        yield from references(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", CRDS)
def test_references_have_one_shape(kind: str) -> None:
    found = dict(references(CRDS[kind].schema["properties"]["spec"], kind))
    found.pop("Router.telemetry.claimName", None)  # there to be refused
    for path, schema in found.items():
        assert path.endswith("Ref"), path
        assert schema["required"] == ["name"], path
        more = {"issuerRef": {"kind", "group"}, "gatewayRef": {"namespace", "sectionName"}}
        assert set(schema["properties"]) - {"name"} <= more.get(path.rpartition(".")[2], set()), path


@pytest.mark.parametrize("namespace", ["../../home", "a/b", "a.b", "Team", "a\x1b[2J", "-a", "a" * 64])
def test_a_namespace_is_a_name_and_no_path(namespace: str) -> None:
    """`waymesh up` names a folder after it."""
    manifest = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "spec": {}}
    documents, _ = parse_text(yaml.safe_dump({**manifest, "metadata": {"name": "m", "namespace": namespace}}), "m.yaml")
    with pytest.raises(ManifestError, match=r"Router/m metadata\.namespace: must be at most 63 of a-z, 0-9 and -"):
        check(documents, CRDS)


@pytest.mark.parametrize("namespace", ["", "team-1", "a" * 63])
def test_a_namespace(namespace: str) -> None:
    manifest = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "spec": {}}
    documents, _ = parse_text(yaml.safe_dump({**manifest, "metadata": {"name": "m", "namespace": namespace}}), "m.yaml")
    assert len(check(documents, CRDS).routers) == 1


def test_an_error_shows_no_control_characters() -> None:
    text = '{apiVersion: waymesh.io/v1alpha1, kind: "Ru\\e[2J\\nter", metadata: {name: m}}'
    documents, _ = parse_text(text, "m.yaml")
    with pytest.raises(ManifestError) as caught:
        check(documents, CRDS)
    assert "unknown kind Ru\\x1b[2J\\nter" in str(caught.value)
