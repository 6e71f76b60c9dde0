"""Configuration files: syntax, order of processing, and each error with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waymesh_schema.config import PROCESSING_ORDER, ConfigEntry, ConfigError, parse_conf, parse_json, read_config
from waymesh_schema.loglevels import LOG_MODULES

pytestmark = pytest.mark.engine_independent

EXAMPLE = """\
# A router of a mesh
router {
    mode: interior
    router-id: QDR.A      # hyphens and the old name
}

listener { # a comment may follow
    host: 0.0.0.0
    port: amqp
    authenticatePeer: no
    saslMechanisms: ANONYMOUS PLAIN
    openProperties: {
        "team": "red",   # comments are no part of JSON
        "note": "a # and a } within quotes",
        "map": {"list": [1, 2]}
    }  # the end
}
connector{
    name: to-b
    host: 10.0.0.1
    port: 20002
    role: inter-router
    open-properties: {"x": 1}
}
address {
\tpattern: news/#
\tdistribution: multicast
}
"""


def given(entries: list[ConfigEntry], name: str) -> list[dict[str, Any]]:
    """The attributes of the entities of that type that stand in the file."""
    return [entry.attributes for entry in entries if entry.type.name == name and entry.line]


def one(text: str, name: str) -> dict[str, Any]:
    (attributes,) = given(parse_conf(text, "t.conf"), name)
    return attributes


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_conf(text, "t.conf")
    return str(raised.value)


def json_problem(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_json(text, "t.json")
    return str(raised.value)


def test_an_example() -> None:
    entries = parse_conf(EXAMPLE, "t.conf")
    (router,), (listener,) = given(entries, "router"), given(entries, "listener")
    assert (router["id"], router["mode"]) == ("QDR.A", "interior")
    assert listener["saslMechanisms"] == "ANONYMOUS PLAIN"
    assert listener["openProperties"] == {
        "team": "red",
        "note": "a # and a } within quotes",
        "map": {"list": [1, 2]},
    }
    (connector,) = given(entries, "connector")
    assert connector["openProperties"] == {"x": 1}
    (address,) = given(entries, "router.config.address")
    assert address["pattern"] == "news/#"


def test_the_same_in_json() -> None:
    text = """\
# a comment
[
  ["router", {"mode": "interior", "id": "QDR.A"}],
    # another
  ["listener", {"host": "0.0.0.0", "port": 5672, "authenticatePeer": false}],
  ["router.config.address", {"pattern": "news/#"}]
]
"""
    entries = parse_json(text, "t.json")
    assert [(entry.type.name, entry.line) for entry in entries if entry.line] == [
        ("router", 3),
        ("router.config.address", 6),
        ("listener", 5),
    ]
    assert given(entries, "listener")[0]["port"] == "5672"


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("host: a b  c ", "host", "a b  c"),
        ("host:a", "host", "a"),
        ("host :\t a", "host", "a"),
        ("host: a:b", "host", "a:b"),
        ("host: a # b", "host", "a"),
        ("host: a#b", "host", "a"),
        ("host:", "host", ""),
        ("host: # b", "host", ""),
        ('host: "a"', "host", '"a"'),
        ("host: {x}", "host", "{x}"),
        ("host: a\r", "host", "a"),
        ("idle-timeout-seconds: 0", "idleTimeoutSeconds", 0),
        ("openProperties: {}", "openProperties", {}),
    ],
)
def test_lines_of_a_section(line: str, attribute: str, value: Any) -> None:
    assert one(f"listener {{\n{line}\n}}", "listener")[attribute] == value


@pytest.mark.parametrize("comment", ["", " # a comment", "\t# a: # comment", "   #"])
@pytest.mark.parametrize("pattern", ["a/#", "#", "#/a", "a.#", "a", "a#b.#"])
def test_hash_belongs_to_patterns_and_host_names_up_to_a_comment(pattern: str, comment: str) -> None:
    text = pattern + comment
    assert one(f"address {{\n  pattern: {text}\n}}", "router.config.address")["pattern"] == pattern
    assert one(f"vhost {{\n  hostname :{text}\n}}", "vhost")["hostname"] == pattern
    assert one(f"binding {{\n  binding-key: {text}\n  exchangeName: x\n  nextHopAddress: y\n}}",
               "router.config.binding")["bindingKey"] == pattern


def test_a_pattern_within_a_comment_is_none() -> None:
    text = "address {\n  # pattern: a\n  prefix: b # pattern: c\n}"
    attributes = one(text, "router.config.address")
    assert (attributes["prefix"], attributes["pattern"]) == ("b", None)


def test_a_byte_order_mark_and_foreign_line_ends_are_no_matter() -> None:
    assert one("\ufeffrouter {\r\n  id: A\r\n}\r\n", "router")["id"] == "A"
    assert given(parse_json('\ufeff[["router", {"id": "A"}]]', "t.json"), "router")[0]["id"] == "A"


def test_an_empty_file_gives_the_singletons() -> None:
    for text, parse in (("", parse_conf), ("\n# nothing\n", parse_conf), ("[]", parse_json)):
        entries = parse(text, "t")
        assert [entry.type.name for entry in entries] == ["log"] * len(LOG_MODULES) + ["router", "telemetry", "policy"]
        assert {entry.attributes["module"] for entry in entries[:-3]} == set(LOG_MODULES)
        assert all(entry.line == 0 for entry in entries)
        assert entries[-3].attributes["mode"] == "standalone"


def test_entities_come_in_the_order_of_processing_and_else_as_written() -> None:
    sections = [
        "connector {\n name: c1\n}",
        "listener {\n name: l1\n}",
        "vhost {\n hostname: v\n}",
        "listener {\n name: l0\n}",
        "autoLink {\n address: a\n direction: in\n}",
        "linkRoute {\n prefix: a\n direction: in\n}",
        "address {\n prefix: a\n}",
        "authServicePlugin {\n host: h\n}",
        "sslProfile {\n name: s\n}",
        "policy {\n}",
        "router {\n id: A\n}",
        "log {\n module: DEFAULT\n}",
    ]
    entries = [entry for entry in parse_conf("\n".join(sections), "t.conf") if entry.line]
    names = [entry.type.name for entry in entries]
    assert names == sorted(names, key=PROCESSING_ORDER.index)
    assert len(names) == len(sections)
    assert [entry.attributes["name"] for entry in entries if entry.type.name == "listener"] == ["l1", "l0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listner {\n}", "t.conf:1: listner: no such entity type"),
        ("connection {\n}", "t.conf:1: connection: cannot be in a configuration file"),
        ("vhostUserGroupSettings {\n}", "t.conf:1: vhostUserGroupSettings: cannot be in a configuration file"),
        ("entity {\n}", "t.conf:1: entity: cannot be in a configuration file"),
        ("listener {\n  prot: 1\n}", "t.conf:2: listener prot: no such attribute; did you mean port?"),
        ("\nlistener {\n  host: x\n  port: 99999\n}", "t.conf:4: listener port: must be a port number from 0 to 65535"),
        ("listener {\n  cost: x\n}", "t.conf:2: listener cost: must be a whole number, not 'x'"),
        ("listener {\n  http: maybe\n}", "t.conf:2: listener http: must be yes or no"),
        ("listener {\n  role: x\n}", "t.conf:2: listener role: must be one of normal, inter-router, route-container"),
        ("listener {\n  host: {\n  a: b\n }\n}", "t.conf:2: listener host: must be a string, not {'a': 'b'}"),
        ("log {\n enable: info\n}", "t.conf:1: log module: is required"),
        ("address {\n prefix: a\n pattern: b\n}", "t.conf:3: router.config.address pattern: prefix and pattern excl"),
        ("address {\n}", "t.conf:1: router.config.address prefix: one of prefix and pattern is required"),
        ("listener {\n host: a\n host: b\n}", "t.conf:3: listener host: is given twice"),
        ("router {\n router-id: a\n id: b\n}", "t.conf:3: router id: is given twice, also as 'id'"),
        ("listener {\n addr: 1\n cost: x\n}", "t.conf:3: listener cost: must be"),
        ("router {\n hello-interval: 0\n}", "t.conf:2: router helloIntervalSeconds: must be at least 1, not 0"),
        ("router {\n id: a\n}\n\nrouter {\n id: b\n}", "t.conf:5: router: already exists at line 1"),
        (
            "listener {\n name: a\n}\nlistener {\n name: a\n}",
            "t.conf:4: listener name: 'a' already exists at line 1",
        ),
        ("address {\n prefix: a\n}\naddress {\n prefix: a\n}", "t.conf:4: router.config.address prefix: 'a' already"),
        ("log {\n module: ROUTER\n}\nlog {\n module: ROUTER\n}", "t.conf:4: log module: 'ROUTER' already exists"),
        ("vhost {\n id: a\n}\nvhost {\n id: a\n}", "t.conf:4: vhost hostname: 'a' already exists at line 1"),
        ("listener {\n sslProfile: x\n}", "t.conf:1: listener sslProfile: there is no sslProfile named 'x'"),
        ("listener {\n saslPlugin: x\n}", "t.conf:1: listener saslPlugin: there is no authServicePlugin named 'x'"),
        ("listener {\n host: a\n", "t.conf:1: listener: is not closed by `}`"),
        ("\nlistener {", "t.conf:2: listener: is not closed by `}`"),
        ("}", "t.conf:1: expected `name {`, not '}'"),
        ("listener", "t.conf:1: expected `name {`, not 'listener'"),
        ("listener { host: a }", "t.conf:1: expected `name {`, not 'listener { host: a }'"),
        ("listener {}", "t.conf:1: expected `name {`, not 'listener {}'"),
        ("host: a", "t.conf:1: expected `name {`, not 'host: a'"),
        (
            "connector {\n saslPassword = planted\n}",
            "t.conf:2: connector: expected `attribute: value` or `}`, not 'saslPassword' and more",
        ),
        ("saslPassword: planted", "t.conf:1: expected `name {`, not 'saslPassword' and more"),
        ("listener {\n hello\n}", "t.conf:2: listener: expected `attribute: value` or `}`, not 'hello'"),
        (
            "listener {\n connector {\n }\n}",
            "t.conf:2: listener: expected `attribute: value` or `}`, not 'connector {'",
        ),
        ("listener {\n } x\n}", "t.conf:2: listener: expected `attribute: value`"),
        ("listener {\n : x\n}", "t.conf:2: listener: expected `attribute: value`"),
        ('listener {\n openProperties: {\n  "a": 1\n', "t.conf:2: listener openProperties: is not closed by `}`"),
        ('listener {\n openProperties: {\n  "a": 1,,\n }\n}', "t.conf:4: listener openProperties: invalid JSON: "),
        ("listener {\n openProperties: {\n  a: 1\n }\n}", "t.conf:3: listener openProperties: invalid JSON: "),
        (
            'listener {\n openProperties: {"a": NaN}\n}',
            "t.conf:2: listener openProperties: invalid JSON: NaN is not a JSON",
        ),
        (
            'listener {\n openProperties: {"a": 1, "a": 2}\n}',
            "t.conf:2: listener openProperties: invalid JSON: key 'a' is",
        ),
        (
            'listener {\n openProperties: {"a": 1} x\n}',
            "t.conf:2: listener openProperties: 'x' follows the closing brace",
        ),
        (
            "listener {\n openProperties: {" + '"a": {' * 40 + "}" * 41 + "\n}",
            "t.conf:2: listener openProperties: nested more",
        ),
        ("listener {\n openProperties: abc\n}", "t.conf:2: listener openProperties: must be a map, not 'abc'"),
        ("vhost {\n hostname: v\n groups: {\n  a: {\n", "t.conf:3: vhost groups: is not closed by `}`"),
        (
            "vhost {\n hostname: v\n groups: {\n  a: {\n  }\n  a: {\n  }\n }\n}",
            "t.conf:6: vhost groups: a is given twice",
        ),
        ("vhost {\n hostname: v\n groups: {\n" + "  a: {\n" * 40, "t.conf:35: vhost groups: nested more than 32 deep"),
        (
            "vhost {\n hostname: v\n groups: {\n  a: {\n   maxSenders: x\n  }\n }\n}",
            "t.conf:5: vhost groups.a.maxSenders: must be a whole number, not 'x'",
        ),
    ],
)
def test_errors_name_file_line_entity_attribute_and_reason(text: str, message: str) -> None:
    assert problem(text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.json:1: invalid JSON: Expecting value"),
        ("[", "t.json:1: invalid JSON"),
        ("{}", "t.json:1: must be a JSON list"),
        ("[1]", "t.json:1: expected `[entityName, {attributes}]`"),
        ('[["listener"]]', "t.json:1: expected `[entityName"),
        ('[["listener", {}, 1]]', "t.json:1: expected `[entityName"),
        ("[[1, {}]]", "t.json:1: expected `[entityName"),
        ('[["listener", {}]\n["listener", {}]]', "t.json:2: invalid JSON: Expecting ',' delimiter at column 1"),
        ('[\n ["router", {}],\n ["listner", {}]\n]', "t.json:3: listner: no such entity type"),
        ('[\n ["listener", {"port": -1}]\n]', "t.json:2: listener port: must be a port number"),
        ('[["a\\nb", {}]]', "t.json:1: a\\nb: no such entity type"),
        ('[["listener", {"a\\ud800": 1}]]', "t.json:1: listener a\\ud800: no such attribute"),
        ('[["listener", {"port": 1, "port": 2}]]', "t.json:1: invalid JSON: key 'port' is given twice"),
        ('[["router", {"id": "a"}],\n["router", {"id": "a"}]]', "t.json:2: router: already exists at line 1"),
        ("[" * 100000, "t.json:1: nested more than 32 deep"),
        ('[["listener", {"cost": ' + "9" * 5000 + "}]]", "t.json:1: invalid JSON: Exceeds the limit"),
    ],
)
def test_errors_in_json(text: str, message: str) -> None:
    assert json_problem(text).startswith(message)


def test_references_may_stand_before_what_they_name() -> None:
    text = "listener {\n sslProfile: p\n}\nsslProfile {\n name: p\n certFile: /c.pem\n}"
    assert one(text, "listener")["sslProfile"] == "p"


def test_the_ending_of_the_name_chooses_the_format(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("router {\n id: A\n}\n", encoding="utf-8")
    (tmp_path / "a.json").write_text('[["router", {"id": "A"}]]', encoding="utf-8")
    for name in ("a.conf", "a.json"):
        assert given(read_config(tmp_path / name), "router")[0]["id"] == "A"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.conf").write_bytes(b"router {\n id: \xe9\n}\n")
    for name, reason in (
        ("none.conf", "cannot be read: No such file"),
        ("latin.conf", "is not UTF-8 text"),
        ("", "cannot"),
    ):
        with pytest.raises(ConfigError) as raised:
            read_config(tmp_path / name)
        assert str(raised.value).startswith(f"{tmp_path / name}: {reason}")
