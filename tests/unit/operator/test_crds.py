"""The CRDs: readable, valid for the API server, and within the subset of local validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from waymesh_operator.resources.crds import findings, load_crds

pytestmark = pytest.mark.engine_independent

FOLDER = Path(__file__).parents[3] / "crds"
FILES = sorted(FOLDER.glob("*.yaml"))
UNDERSTOOD = {
    "type", "description", "properties", "required", "items", "additionalProperties", "enum", "default",
    "minimum", "maximum",
    "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "pattern", "format",
    "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
}  # fmt: skip


def schemas(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            yield from schemas(schema[word], f"{path}.{word}")


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def crd(request: pytest.FixtureRequest) -> dict[str, Any]:
    return yaml.safe_load(request.param.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def root(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


def test_each_kind_has_its_file_group_scope_and_short_name(crd: dict[str, Any]) -> None:
    spec = crd["spec"]
    names = spec["names"]
    assert crd["metadata"]["name"] == f"{names['plural']}.waymesh.io"
    assert (spec["group"], spec["scope"], names["categories"]) == ("waymesh.io", "Namespaced", ["waymesh"])
    expected = {"Router": "rtr", "Address": "addr", "AutoLink": "al", "LinkRoute": "lrt", "Broker": "brk"}
    expected |= {"VhostPolicy": "vhp", "RouterLink": "rl", "Exchange": "exch"}
    assert names["shortNames"] == [expected[names["kind"]]]
    assert "status" in spec["versions"][0]["subresources"]


def test_every_field_is_described_and_every_keyword_understood(crd: dict[str, Any]) -> None:
    for path, schema in schemas(root(crd)):
        # Of metadata the API server knows all by itself, and refuses a definition that says more than its type.
        assert schema.get("description") or path == ".metadata", path
        assert set(schema) <= UNDERSTOOD, path
        assert {"type", "x-kubernetes-int-or-string"} & set(schema), path


def test_lists_that_rules_walk_are_bounded_so_that_the_api_server_can_estimate_the_cost(crd: dict[str, Any]) -> None:
    for path, schema in schemas(root(crd)["properties"]["spec"]):
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if schema.get("type") == "string":
            assert {"maxLength", "enum"} & set(schema) or path.endswith("additionalProperties"), path


def test_defaults_fit_their_own_schema(crd: dict[str, Any]) -> None:
    for path, schema in schemas(root(crd)):
        if "default" in schema:
            assert list(findings(schema, schema["default"])) == [], path


def test_every_rule_has_a_message_for_people(crd: dict[str, Any]) -> None:
    for path, schema in schemas(root(crd)):
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule["message"], path
            assert set(rule) <= {"rule", "message", "fieldPath"}, path


def test_the_router_scales() -> None:
    crd = yaml.safe_load((FOLDER / "router.yaml").read_text(encoding="utf-8"))
    assert crd["spec"]["versions"][0]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }


def test_all_kinds_are_loaded() -> None:
    crds = load_crds()
    links = {"Broker", "AutoLink", "LinkRoute", "RouterLink"}
    assert set(crds) == {"Router", "Address", "VhostPolicy", "Exchange"} | links
    assert {crd.api_version for crd in crds.values()} == {"waymesh.io/v1alpha1"}
