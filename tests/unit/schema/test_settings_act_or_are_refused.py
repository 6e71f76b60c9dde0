"""Every attribute has an effect, is refused, or is the subject of a warning: no setting is silently ignored."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from waymesh_schema.docs import entities_page
from waymesh_schema.entities import ENTITY_TYPES, Attribute, EntityType
from waymesh_schema.errors import SchemaError
from waymesh_schema.model import BOOLEAN, ENTITY_ATTRIBUTES, INTEGER, PATH
from waymesh_schema.unused import unused
from waymesh_schema.validate import refuse_host_values, validate_create

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).resolve().parents[3]
BASE = {
    "router": {"id": "A"},
    "log": {"module": "ROUTER"},
    "router.config.address": {"prefix": "a"},
    "router.config.linkRoute": {"prefix": "a", "direction": "in"},
    "router.config.autoLink": {"address": "a", "direction": "in"},
    "router.config.exchange": {"address": "a"},
    "router.config.binding": {"exchangeName": "x", "nextHopAddress": "a"},
    "vhost": {"hostname": "v"},
    "authServicePlugin": {"host": "h"},
}
"""What is needed at least of an entity of each type."""
CONFIGURED = [entity for entity in ENTITY_TYPES.values() if entity.configurable and not entity.refused]
SHOWN_ONLY = {("router", "metadata")}
"""Attributes that are there to be shown, and do no more."""
READ_WITH_THE_FILES = {("policy", "policyDir")}
"""Attributes that name further configuration files."""


def settable(entity: EntityType) -> Iterator[Attribute]:
    own = {attribute.name for attribute in ENTITY_ATTRIBUTES}
    return (a for a in entity.attributes.values() if (a.create or a.update) and a.name not in own)


ALL = [(entity, attribute) for entity in CONFIGURED for attribute in settable(entity)]
REFUSED = [pair for pair in ALL if pair[1].only_default]
WITHOUT_EFFECT = [pair for pair in ALL if pair[1].without_effect]
ACTING = [
    pair for pair in ALL if pair not in [*REFUSED, *WITHOUT_EFFECT] and (pair[0].name, pair[1].name) not in SHOWN_ONLY
]


def names(pairs: list[tuple[EntityType, Attribute]]) -> list[str]:
    return [f"{entity.name} {attribute.name}" for entity, attribute in pairs]


def another(attribute: Attribute) -> Any:
    """A value that is not the default."""
    if attribute.type == BOOLEAN:
        return not attribute.default
    return (attribute.default or 0) + 3 if attribute.type == INTEGER else "all"


@functools.cache
def sources(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPO / folder).rglob("*.py")))


@pytest.mark.parametrize(("entity", "attribute"), REFUSED, ids=names(REFUSED))
def test_what_is_not_carried_out_is_refused(entity: EntityType, attribute: Attribute) -> None:
    base = BASE.get(entity.name, {})
    with pytest.raises(SchemaError) as raised:
        validate_create(entity, {**base, attribute.name: another(attribute)})
    assert raised.value.attribute == attribute.name
    assert raised.value.reason == attribute.only_default
    assert f"Only the default is accepted: {attribute.only_default}." in entities_page()
    if attribute.default is not None:
        assert validate_create(entity, {**base, attribute.name: attribute.default})[attribute.name] == attribute.default


@pytest.mark.parametrize(("entity", "attribute"), WITHOUT_EFFECT, ids=names(WITHOUT_EFFECT))
def test_what_has_no_effect_is_replaced_by_the_default_with_a_warning(entity: EntityType, attribute: Attribute) -> None:
    given = {**BASE.get(entity.name, {}), attribute.name: another(attribute)}
    values = validate_create(entity, given)
    assert values[attribute.name] == attribute.default
    warning = f"{entity.name} {attribute.name}: has no effect: {attribute.without_effect}"
    assert unused(entity, given, values) == [warning]
    assert f"Accepted, but without effect: {attribute.without_effect}." in entities_page()
    for default in (attribute.default, str(attribute.default), None):
        assert unused(entity, {**given, attribute.name: default}, values) == []


@pytest.mark.parametrize(("entity", "attribute"), ACTING, ids=names(ACTING))
def test_what_is_taken_is_read_by_the_router(entity: EntityType, attribute: Attribute) -> None:
    folder = "waymesh_schema" if (entity.name, attribute.name) in READ_WITH_THE_FILES else "waymesh_router"
    read = f"\\[[\"']{attribute.name}[\"']\\]" if folder == "waymesh_schema" else f"[\"']{attribute.name}[\"']"
    assert re.search(read, sources(f"router_image/{folder}"))


def test_the_attributes_that_are_refused() -> None:
    """A change here is one that users notice."""
    assert set(names(REFUSED)) == {
        "connector allowRedirect",
    }
    assert set(names(WITHOUT_EFFECT)) == {"router mobileAddrMaxAge", "router debugDumpFile"}
    refused = {entity.name for entity in ENTITY_TYPES.values() if entity.refused}
    assert refused == set()




def test_a_policy_for_other_routers_is_refused() -> None:
    for role in ("inter-router", "edge"):
        with pytest.raises(SchemaError, match=f"policyVhost: cannot be set for role {role}: policies"):
            validate_create(ENTITY_TYPES["connector"], {"role": role, "policyVhost": "v"})
    listener = ENTITY_TYPES["listener"]
    with pytest.raises(SchemaError, match="policyVhost: cannot be set for role inter-router: policies"):
        validate_create(listener, {"role": "inter-router", "policyVhost": "v"})
    for role in ("normal", "edge", "route-container"):
        assert validate_create(listener, {"role": role, "policyVhost": "v"})["policyVhost"] == "v"


# ---- values that name something on the router's machine
def host_values() -> Iterator[tuple[EntityType, str, Any]]:
    """Type, attribute and a value that a client may not give."""
    special = {"saslPassword": ("file:/s", "env:S"), "password": ("file:/s", "env:S"), "managementFiles": (True,)}
    for entity, attribute in ALL:
        if attribute.type == PATH or attribute.on_host is not None:
            for value in special.get(attribute.name, ("/some/where",)):
                yield entity, attribute.name, value


@pytest.mark.parametrize(("entity", "name", "value"), list(host_values()))
def test_a_request_may_not_name_what_is_on_the_machine(entity: EntityType, name: str, value: Any) -> None:
    with pytest.raises(SchemaError) as raised:
        refuse_host_values(entity, {name: value})
    assert raised.value.attribute == name
    assert "managementFiles" in raised.value.reason


@pytest.mark.parametrize(("right", "refused"), [("none", True), ("read", True), ("write", False)])
def test_only_who_may_write_names_files(right: str, refused: bool) -> None:
    values = {"management": right, "managementFiles": True}
    if refused:
        with pytest.raises(SchemaError, match="managementFiles: needs management: write"):
            validate_create(ENTITY_TYPES["listener"], values)
    else:
        validate_create(ENTITY_TYPES["listener"], values)
    assert validate_create(ENTITY_TYPES["listener"], {"management": right})["management"] == right


def test_attributes_that_name_files_are_known_as_such() -> None:
    found = {name for _, name, _ in host_values()}
    named_so = {a.name for _, a in ALL if a.type is not INTEGER and re.search("File|Dir$|Path|path|assword$", a.name)}
    assert named_so <= found, named_so - found


@pytest.mark.parametrize("password", ["pass:x", "literal:file:/x", "secret", "File:x", "", None])
def test_passwords_that_are_given_may_be_sent(password: str | None) -> None:
    refuse_host_values(ENTITY_TYPES["connector"], {"saslPassword": password})


@pytest.mark.parametrize("output", ["stderr", "stdout", "syslog", None])
def test_logs_that_are_no_files_may_be_sent(output: str | None) -> None:
    refuse_host_values(ENTITY_TYPES["log"], {"outputFile": output})


# ---- fields of the custom resources
PASSED_ON = {
    "resources", "affinity", "tolerations", "topologySpreadConstraints", "nodeSelector", "annotations", "labels",
    "networkPolicyPeers",
}  # fmt: skip
"""Fields that go to Kubernetes as they are."""
FOR_RULES = {".listeners[].expose.allowUnprotected"}
"""Fields that rules of the CRD read: with them it accepts what it refuses without."""
FORMER = {".telemetry.claimName"}
"""Former fields: a rule of the CRD refuses them, with a text that names their successor."""


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """(path, name) of each field below a schema."""
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", name
        if name not in PASSED_ON:
            yield from fields(child, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


@pytest.mark.parametrize("crd", sorted(path.name for path in (REPO / "crds").glob("*.yaml")))
def test_each_field_of_a_resource_is_read_by_the_operator(crd: str) -> None:
    document = yaml.safe_load((REPO / "crds" / crd).read_text(encoding="utf-8"))
    parsed_in = {
        "router.yaml": ("router.py", "listener.py"),
        "vhostpolicy.yaml": ("vhost_policy.py",),
        "routerlink.yaml": ("router_link.py",),
        "exchange.yaml": ("exchange.py", "router.py"),
    }
    files = parsed_in.get(crd, ("dependents.py",))
    folder = REPO / "operator/waymesh_operator/resources"
    parser = "".join((folder / file).read_text(encoding="utf-8") for file in files)
    for version in document["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ignored = [path for path, name in fields(spec) if f'"{name}"' not in parser and path not in FORMER | FOR_RULES]
        assert not ignored


def test_former_fields_are_refused_by_a_rule() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (REPO / "crds").glob("*.yaml")]
    for path in FORMER:
        name = path.rpartition(".")[2]
        assert any(f'rule: "!has(self.{name})"' in text for text in texts)
