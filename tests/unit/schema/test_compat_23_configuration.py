"""Configuration details that qdrouterd accepts: commas, both names of an attribute, numbers beyond limits."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_schema.config import ConfigEntry, ConfigError, parse_conf, parse_json
from waymesh_schema.convert import convert
from waymesh_schema.entities import ENTITY_TYPES, EntityType, entity_type
from waymesh_schema.model import BOOLEAN
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent


def entry(text: str, name: str) -> ConfigEntry:
    (found,) = [entry for entry in parse_conf(text, "t.conf") if entry.type.name == name and entry.line]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{\n "a": [1, 2, ],\n "b": {"c": ",}",},\n}', {"a": [1, 2], "b": {"c": ",}"}}),
    ],
)
def test_compat_23_trailing_commas_in_json_values(text: str, expected: Any) -> None:
    assert entry(f"listener {{\n openProperties: {text}\n}}", "listener").attributes["openProperties"] == expected


def test_compat_23_trailing_commas_in_nested_lines() -> None:
    text = "vhost {\n hostname: v\n groups: {\n  a: {\n   users: b,\n   sources: c, d,\n  },\n }\n}"
    group = entry(text, "vhost").attributes["groups"]["a"]
    assert (group["users"], group["sources"]) == ("b", "c, d")


def test_compat_23_trailing_commas_are_not_taken_in_json_files() -> None:
    with pytest.raises(ConfigError, match="invalid JSON"):
        parse_json('[["router", {"id": "a",}]]', "t.json")


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("autoLink", {"address": "a", "addr": "a", "dir": "in", "direction": "in"}),
        ("linkRoute", {"prefix": "a", "dir": "in", "direction": "in"}),
        ("router", {"routerId": "a", "router-id": "a", "id": "a"}),
    ],
)
def test_compat_23_both_names_with_equal_values(name: str, attributes: dict[str, str]) -> None:
    entity = entity_type(name)
    present = {name: value for name, value in attributes.items() if name in entity.attributes}
    assert validate_create(entity, attributes) == validate_create(entity, present)


def test_compat_23_both_names_with_different_values_are_refused() -> None:
    with pytest.raises(ConfigError, match="autoLink direction: is given twice, also as"):
        parse_conf("autoLink {\n address: a\n dir: in\n direction: out\n}", "t.conf")


def test_compat_23_failover_list_of_listeners() -> None:
    assert entry("listener {\n failoverList: amqp://a:1\n}", "listener").attributes["failoverUrls"] == "amqp://a:1"


FORMER_NAMES = [
    (kind, old, new)
    for kind in ENTITY_TYPES.values()
    if kind.configurable and not kind.refused
    for old, new in kind.deprecated_names.items()
    if not kind.attributes[new].only_default and not kind.attributes[new].without_effect
]
NEEDED = {
    "router.config.linkRoute": {"prefix": "a", "direction": "in"},
    "router.config.autoLink": {"address": "a", "direction": "in"},
    "router.config.address": {"prefix": "a"},
    "log": {"module": "ROUTER"},
    "vhost": {"hostname": "v"},
    "authServicePlugin": {"host": "h"},
    "sslProfile": {"certFile": "/c"},
    "connector": {"sslProfile": "p"},
}
NEEDED_BESIDE = {"trustedCertsFile": {"authenticatePeer": "yes"}}
FITTING = {"messageLoggingComponents": "all", "httpRootDir": "/www"}
"""Values of attributes that do not take any text."""


@pytest.mark.parametrize(("kind", "old", "new"), FORMER_NAMES, ids=[f"{k.name} {o}" for k, o, _ in FORMER_NAMES])
def test_compat_23_deprecated_names_are_a_warning(kind: EntityType, old: str, new: str) -> None:
    attribute = kind.attributes[new]
    value = attribute.values[0] if attribute.values else "yes" if attribute.type == BOOLEAN else FITTING.get(new, "1")
    needed = NEEDED.get(kind.name, {}) | NEEDED_BESIDE.get(new, {})
    given = {name: text for name, text in needed.items() if name != new}
    lines = "".join(f" {name}: {text}\n" for name, text in given.items())
    refers_to = {"sslProfile": "", **given, new: value}["sslProfile"]
    profile = f"\nsslProfile {{\n name: {refers_to}\n}}" if refers_to else ""
    found = entry(f"{kind.name} {{\n{lines} {old}: {value}\n}}{profile}", kind.name)
    assert found.attributes[new] == convert(attribute, value)
    assert found.warnings == (f"{kind.name} {old}: is deprecated; use {new}",)
    assert entry(f"{kind.name} {{\n{lines} {new}: {value}\n}}{profile}", kind.name).warnings == ()


@pytest.mark.parametrize("name", ["tcpListener", "tcpConnector", "httpListener", "http-connector"])
def test_the_adaptors_of_dispatch_are_named_as_not_supported(name: str) -> None:
    with pytest.raises(ConfigError, match=f"c:1: {name}: is not supported: a mesh carries AMQP, not TCP or HTTP"):
        parse_conf(f"{name} {{\n port: 1\n}}\n", "c")


@pytest.mark.parametrize("name", ["container", "waypoint"])
def test_compat_23_types_that_dispatch_1_0_removed_are_refused_with_what_to_use(name: str) -> None:
    with pytest.raises(ConfigError, match=f"c:2: {name}: does not exist since Qpid Dispatch 1.0; use "):
        parse_conf(f"\n{name} {{\n prefix: a\n}}\n", "c")


@pytest.mark.parametrize(
    ("lines", "kind", "wanted"),
    [
        ("prefix: /news", "address", {"prefix": "news", "distribution": "multicast"}),
        ("prefix: /news\n fanout: multiple\n bias: spread", "address", {"distribution": "multicast"}),
        ("prefix: work\n fanout: single", "address", {"prefix": "work", "distribution": "closest"}),
        ("prefix: /work\n fanout: single\n bias: spread\n phase: 0", "address", {"distribution": "balanced"}),
        ("prefix: /\n name: all", "address", {"prefix": None, "pattern": "#", "name": "all"}),
        ("prefix: jobs", "linkRoute", {"prefix": "jobs", "direction": "both", "connection": None}),
        ("prefix: jobs\n dir: in\n connector: b", "linkRoute", {"direction": "in", "connection": "b"}),
    ],
)
def test_compat_23_types_that_dispatch_1_0_removed_are_taken_as_their_counterpart(
    lines: str, kind: str, wanted: dict[str, Any]
) -> None:
    for name in ("fixedAddress", "fixed-address") if kind == "address" else ("linkRoutePattern", "link-route-pattern"):
        found = entry(f"{name} {{\n {lines}\n}}", f"router.config.{kind}")
        assert {attribute: found.attributes[attribute] for attribute in wanted} == wanted
        (warning,) = found.warnings
        assert f"does not exist since Qpid Dispatch 1.0; taken as router.config.{kind} with " in warning


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("fixedAddress {\n fanout: single", "fixedAddress prefix: is required"),
        ("fixedAddress {\n prefix: /a\n phase: 1", "fixedAddress phase: has no counterpart"),
        ("fixedAddress {\n prefix: /a\n fanout: some", "fixedAddress fanout: must be one of multiple, single"),
        ("fixedAddress {\n prefix: /a\n waypoint: yes", "fixedAddress waypoint: no such attribute"),
        ("linkRoutePattern {\n prefix: a\n dir: up", "linkRoutePattern dir: must be one of both, in, out"),
        ("linkRoutePattern {\n connector: a", "linkRoutePattern prefix: is required"),
    ],
)
def test_compat_23_former_types_without_an_exact_counterpart_are_refused(lines: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"c:1: {reason}"):
        parse_conf(f"{lines}\n}}\n", "c")


def test_compat_23_settings_that_cannot_act_are_a_warning() -> None:
    found = entry("router {\n workerThreads: 4\n debugDump: /tmp/q.txt\n mobileAddrMaxAge: 60\n}", "router")
    assert (found.attributes["workerThreads"], found.attributes["debugDumpFile"]) == (4, None)
    assert [text.partition(":")[0] for text in found.warnings] == [
        "router debugDump",
        "router mobileAddrMaxAge",
        "router debugDumpFile",
    ]
    assert "has no effect: debug output to a file is not supported" in found.warnings[2]
    with pytest.raises(ConfigError, match="workerThreads: must be at least 1, not 0"):
        entry("router {\n workerThreads: 0\n}", "router")


@pytest.mark.parametrize("name", ["listener", "connector"])
def test_compat_23_numbers_beyond_limits_are_clamped_with_a_warning(name: str) -> None:
    text = f"{name} {{\n maxFrameSize: 100\n maxSessions: 70000\n}}"
    found = entry(text, name)
    assert (found.attributes["maxFrameSize"], found.attributes["maxSessions"]) == (512, 65536)
    assert found.warnings == (
        f"{name} maxFrameSize: 100 is beyond the limit; 512 is used",
        f"{name} maxSessions: 70000 is beyond the limit; 65536 is used",
    )
    assert entry(f"{name} {{\n maxFrameSize: 512\n maxSessions: 65536\n}}", name).warnings == ()
