"""Settings of files that requests may not say are read safely, with a warning. What would let somebody in, is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waymesh_amqp.sasl import SERVER_MECHANISMS
from waymesh_schema.config import ConfigEntry, ConfigError, parse_conf, parse_json, read_config
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.errors import SchemaError
from waymesh_schema.leniency import GROUP_KEYS, OF_CYRUS
from waymesh_schema.validate import validate_create, validate_from_file

pytestmark = pytest.mark.engine_independent

TLS = {"sslProfile": "p"}
PROFILE = "sslProfile {\n name: p\n}\n"


def read(kind: str, **attributes: Any) -> ConfigEntry:
    """The entity of a file, in which a section `kind` has these attributes."""
    lines = "".join(f" {name}: {value}\n" for name, value in attributes.items())
    found = parse_conf(f"{PROFILE}{kind} {{\n{lines}}}\n", "t.conf")
    (entry,) = [entry for entry in found if entry.type.name == kind and entry.line > 1]
    return entry


READ_SAFELY: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "listener",
        {"multiTenant": "yes", "stripAnnotations": "no"},
        {"stripAnnotations": "in"},
        "listener stripAnnotations: in is used instead of no: with the annotations of routers, tenants could leave",
    ),
    ("listener", {"multiTenant": "yes", "stripAnnotations": "out"}, {"stripAnnotations": "both"}, "both is used"),
    (
        "listener",
        {"multiTenant": "yes", "http": "yes"},
        {"metrics": False, "websockets": True},
        "listener metrics: are not served with multiTenant",
    ),
    (
        "listener",
        {"policyVhost": "v", "role": "inter-router"},
        {"policyVhost": None},
        "listener policyVhost: has no effect with role inter-router",
    ),
    (
        "listener",
        {"httpRootDir": "disabled"},
        {"httpRootDir": None, "http": True},
        "listener httpRootDir: 'disabled' is not an absolute path: no files are served",
    ),
    (
        "listener",
        {"saslMechanisms": "DIGEST-MD5 GSSAPI PLAIN external", **TLS},
        {"saslMechanisms": "PLAIN EXTERNAL"},
        "listener saslMechanisms: DIGEST-MD5 GSSAPI: not supported; left with PLAIN",
    ),
    ("connector", {"policyVhost": "v", "role": "edge"}, {"policyVhost": None}, "connector policyVhost: has no effect"),
    ("connector", {"allowRedirect": "yes"}, {"allowRedirect": False}, "connector allowRedirect: has no effect"),
    (
        "connector",
        {"saslMechanisms": "CRAM-MD5 PLAIN", **TLS},
        {"saslMechanisms": "PLAIN"},
        "connector saslMechanisms: CRAM-MD5: not supported; left with PLAIN",
    ),
    (
        "connector",
        {"saslMechanisms": "CRAM-MD5 SCRAM-SHA-256"},
        {"saslMechanisms": "SCRAM-SHA-256"},
        "left with SCRAM-SHA-256",
    ),
    ("router", {"mode": "interior"}, {"id": None}, "router id: is not set in mode interior: a random one is used"),
    ("router", {"mode": "edge"}, {"id": None}, "router id: is not set in mode edge"),
    (
        "sslProfile",
        {"protocols": "TLSv1.1 TLSv1.2"},
        {"protocols": "TLSv1.1 TLSv1.2"},
        "sslProfile protocols: TLSv1.1: is insecure",
    ),
]


@pytest.mark.parametrize(("kind", "written", "used", "warning"), READ_SAFELY)
def test_a_setting_of_a_file_is_replaced_by_one_that_is_safe(
    kind: str, written: dict[str, Any], used: dict[str, Any], warning: str
) -> None:
    entry = read(kind, **written)
    assert {name: entry.attributes[name] for name in used} == used
    (found,) = entry.warnings
    assert warning in found


@pytest.mark.parametrize(("kind", "written"), [row[:2] for row in READ_SAFELY if row[0] != "sslProfile"])
def test_the_same_setting_is_refused_in_requests_and_in_what_the_operator_writes(
    kind: str, written: dict[str, Any]
) -> None:
    if "external" in written.get("saslMechanisms", "") or "CRAM" in written.get("saslMechanisms", ""):
        return  # the router refuses it, not the schema
    with pytest.raises(SchemaError):
        validate_create(ENTITY_TYPES[kind], written)
    if kind != "router":
        with pytest.raises(ConfigError):
            read(kind, name="k8s/x", **written)


@pytest.mark.parametrize(("kind", "written"), [row[:2] for row in READ_SAFELY])
def test_what_was_read_safely_is_what_the_rules_accept(kind: str, written: dict[str, Any]) -> None:
    """The router checks the entities of a file again when it creates them, and finds nothing to replace."""
    entry = read(kind, **written)
    assert validate_from_file(entry.type, entry.attributes) == entry.attributes
    if kind != "router":
        assert validate_create(entry.type, entry.attributes) == entry.attributes


def test_plain_alone_without_tls_starts_from_a_file_only() -> None:
    """It is not offered: an empty list would be all mechanisms, and let everybody in."""
    assert read("listener", saslMechanisms="plain").attributes["saslMechanisms"] == "PLAIN"
    with pytest.raises(SchemaError, match="PLAIN needs an sslProfile, or allowInsecurePlain"):
        validate_create(ENTITY_TYPES["listener"], {"saslMechanisms": "PLAIN"})


def test_no_mechanism_that_the_router_has_is_left_out() -> None:
    assert not OF_CYRUS.intersection(SERVER_MECHANISMS)


@pytest.mark.parametrize("kind", ["listener", "connector"])
def test_the_case_of_mechanism_names_does_not_matter(kind: str) -> None:
    values = validate_create(ENTITY_TYPES[kind], {"saslMechanisms": "Scram-Sha-256 anonymous"})
    assert values["saslMechanisms"] == "SCRAM-SHA-256 ANONYMOUS"


# ---- what an attacker would hope for
@pytest.mark.parametrize(
    ("kind", "written", "kept"),
    [
        ("listener", {"saslMechanisms": "DIGEST-MD5"}, "DIGEST-MD5"),
        ("listener", {"saslMechanisms": "GSSAPI CRAM-MD5"}, "GSSAPI CRAM-MD5"),
        ("listener", {"saslMechanisms": "PLIAN ANONYMOUS", **TLS}, "PLIAN ANONYMOUS"),
        ("connector", {"saslMechanisms": "DIGEST-MD5"}, "DIGEST-MD5"),
        ("connector", {"saslMechanisms": "DIGEST-MD5 PLAIN"}, "DIGEST-MD5 PLAIN"),
        ("connector", {"saslMechanisms": "DIGEST-MD5 SCRAM-SHA-256 PLAIN"}, "DIGEST-MD5 SCRAM-SHA-256 PLAIN"),
        ("connector", {"saslMechanisms": "DIGEST-MD5 PLAIN", "verifyHostname": "no", **TLS}, "DIGEST-MD5 PLAIN"),
    ],
)
def test_mechanisms_that_are_left_out_never_open_a_door(kind: str, written: dict[str, Any], kept: str) -> None:
    """Without any mechanism all would be allowed, and PLAIN would show the password: the router refuses such lists."""
    entry = read(kind, **written)
    assert (entry.attributes["saslMechanisms"], entry.warnings) == (kept, ())


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"multiTenant": "yes", "role": "edge"}, "role: cannot be 'edge' with multiTenant"),
        ({"multiTenant": "yes", "management": "write"}, "management: cannot be 'write' with multiTenant"),
        ({"multiTenant": "yes", "routeAddress": "a"}, "routeAddress: cannot be 'a' with multiTenant"),
        ({"multiTenant": "yes", "policyVhost": "a/b"}, "policyVhost: cannot be 'a/b' with multiTenant"),
        ({"multiTenant": "yes", "http": "yes", "websockets": "no"}, "needs metrics: no and websockets: yes"),
    ],
)
def test_tenants_cannot_leave_their_space(written: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read("listener", **written)


def groups(text: str, more: str = "") -> ConfigEntry:
    found = parse_conf(f"vhost {{\n hostname: v\n{more} groups: {{\n{text}\n }}\n}}", "t.conf")
    (entry,) = [entry for entry in found if entry.type.name == "vhost"]
    return entry


@pytest.mark.parametrize("key", GROUP_KEYS)
def test_keys_without_effect_in_a_group_are_warnings_that_name_what_applies(key: str) -> None:
    entry = groups(f'  "a": {{"users": "u", "{key}": 7}}')
    assert key not in entry.attributes["groups"]["a"]
    assert entry.warnings == (f"vhost groups.a.{key}: has no effect: {GROUP_KEYS[key]}",)
    with pytest.raises(SchemaError, match=f"groups.a.{key}: no such attribute"):
        validate_create(ENTITY_TYPES["vhost"], {"hostname": "v", "groups": {"a": {key: 7}}})


@pytest.mark.parametrize("key", ["remoteHost", "source", "allowAnonymous", "blockd"])
def test_other_unknown_keys_of_a_group_are_refused(key: str) -> None:
    """One that is misspelt may be meant to deny something."""
    with pytest.raises(ConfigError, match=f"groups.a.{key}: no such attribute"):
        groups(f'  "a": {{"users": "u", "{key}": "x"}}')


def test_a_user_group_of_a_file_of_json() -> None:
    text = '[["vhost", {"hostname": "v", "groups": {"a": {"users": "u", "maxConnections": 1}}}]]'
    (entry,) = [entry for entry in parse_json(text, "t.json") if entry.type.name == "vhost"]
    assert len(entry.warnings) == 1


def test_all_users_of_the_default_group() -> None:
    entry = groups('  "$default": {"users": "*, u"}')
    assert entry.attributes["allowUnknownUser"] is True
    assert entry.warnings == ("vhost groups.$default.users: * is taken as allowUnknownUser: yes",)
    assert groups('  "$default": {"users": "*"}', " allowUnknownUser: yes\n").warnings == ()
    with pytest.raises(SchemaError, match="with allowUnknownUser: yes"):
        validate_create(ENTITY_TYPES["vhost"], {"hostname": "v", "groups": {"$default": {"users": "*"}}})


def test_a_file_that_denies_unknown_users_goes_on_to_deny_them() -> None:
    entry = groups('  "$default": {"users": "*, u"}', " allowUnknownUser: no\n")
    assert entry.attributes["allowUnknownUser"] is False
    assert entry.attributes["groups"]["$default"]["users"] == "u"
    assert entry.warnings == ("vhost groups.$default.users: * has no effect with allowUnknownUser: no",)


def test_all_users_of_another_group_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"groups.admin.users: \* is only for the group \$default"):
        groups('  "admin": {"users": "*"}')


def test_a_log_section_of_a_module_that_does_not_exist_is_left_out() -> None:
    text = "log {\n module: PYTHON\n enable: trace+\n}\nlog {\n module: SERVER\n enable: debug+\n}\n"
    found = [entry for entry in parse_conf(text, "t.conf") if entry.type.name == "log"]
    (left,) = [entry for entry in found if entry.warnings]
    assert (left.created, left.line, left.filename) == (False, 1, "t.conf")
    assert left.warnings == ("log module: PYTHON: this router does not have it: the section has no effect",)
    assert [e.attributes["enable"] for e in found if e.attributes["module"] == "SERVER"] == ["debug+"]
    for other in ("PYTHONS", "python"):
        with pytest.raises(ConfigError, match="log module"):
            parse_conf(f"log {{\n module: {other}\n}}\n", "t.conf")
    with pytest.raises(SchemaError):
        validate_create(ENTITY_TYPES["log"], {"module": "PYTHON"})


def test_a_relative_policy_folder_is_below_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pol").mkdir()
    (tmp_path / "pol/v.json").write_text('[["vhost", {"hostname": "v"}]]', encoding="utf-8")
    (tmp_path / "t.conf").write_text("policy {\n policyDir: pol\n}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = read_config("t.conf")
    (policy,) = [entry for entry in found if entry.type.name == "policy"]
    assert policy.attributes["policyDir"] == str(tmp_path / "pol")
    assert policy.warnings == (
        f"policy policyDir: 'pol' is relative to the current directory: {tmp_path / 'pol'} is used",
    )
    assert [entry.attributes["hostname"] for entry in found if entry.type.name == "vhost"] == ["v"]
    monkeypatch.chdir("/")
    with pytest.raises(ConfigError, match="policyDir: /pol is not a folder"):
        read_config(tmp_path / "t.conf")
