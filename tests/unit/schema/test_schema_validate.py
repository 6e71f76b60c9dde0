"""Values of CREATE and UPDATE: types, defaults, old and new names, and rules across attributes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_schema.entities import ENTITY_TYPES, entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create, validate_update

pytestmark = pytest.mark.engine_independent


class Text(str):
    """A string of another class, as decoded from the wire."""

    __slots__ = ()


class Number(int):
    """An integer of another class, as decoded from the wire."""


def refused(entity: str, attributes: dict[str, Any]) -> str:
    with pytest.raises(SchemaError) as raised:
        validate_create(entity_type(entity), attributes)
    return str(raised.value)


def test_creation_fills_in_all_defaults() -> None:
    values = validate_create(entity_type("listener"), {})
    assert values["port"] == "amqp"
    assert values["role"] == "normal"
    assert values["linkCapacity"] == 250
    assert values["idleTimeoutSeconds"] == 16
    assert values["initialHandshakeTimeoutSeconds"] == 15
    assert (values["maxFrameSize"], values["maxSessions"]) == (16384, 32768)
    assert values["sslProfile"] is None
    assert values["name"] is None
    settable = {a.name for a in entity_type("listener").attributes.values() if a.create} - {"type"}
    assert set(values) == settable


def test_what_an_auto_link_asks_of_its_container() -> None:
    auto_link = entity_type("autoLink")
    base = {"address": "a", "direction": "in"}
    given = {"selector": "a = 1", "noLocal": "yes", "distributionMode": "copy", "linkProperties": {"p": 1, "t": "x"}}
    values = validate_create(auto_link, {**base, **given, "capabilities": "queue other"})
    assert {name: values[name] for name in given} == {**given, "noLocal": True}
    out = {"address": "a", "direction": "out"}
    for name in ("selector", "noLocal", "distributionMode"):
        assert refused("autoLink", {**out, name: given[name]}).endswith(f"{name}: is only for direction in")
    assert "must be one of move, copy" in refused("autoLink", {**base, "distributionMode": "browse"})
    assert "must be ASCII" in refused("autoLink", {**base, "capabilities": "é"})
    for properties in ({"qd.x": 1}, {"": 1}, {"é": 1}, {"a": 1.5}, {"a": None}, {"a": [1]}, {"a": 2**63}):
        assert "linkProperties: " in refused("autoLink", {**base, "linkProperties": properties})


def test_defaults_are_not_shared() -> None:
    first = validate_create(entity_type("vhost"), {"hostname": "a"})
    first["groups"]["x"] = 1
    assert validate_create(entity_type("vhost"), {"hostname": "a"})["groups"] == {}


@pytest.mark.parametrize("word", ["yes", "YES", "true", "True", "on", "1", 1, True, Text("yes"), Number(1)])
def test_words_for_true(word: Any) -> None:
    assert validate_create(entity_type("listener"), {"http": word})["http"] is True


@pytest.mark.parametrize("word", ["no", "No", "false", "off", "0", 0, False])
def test_words_for_false(word: Any) -> None:
    assert validate_create(entity_type("listener"), {"healthz": word})["healthz"] is False


@pytest.mark.parametrize("word", ["", "y", "2", 2, -1, 1.0, [], "yes ", "да"])
def test_other_words_are_no_boolean(word: Any) -> None:
    assert refused("listener", {"http": word}).startswith("listener http: must be yes or no (true, false, on, off,")


@pytest.mark.parametrize(
    ("port", "kept"),
    [
        (0, "0"),
        ("0", "0"),
        (65535, "65535"),
        ("5672", "5672"),
        ("05672", "5672"),
        ("amqp", "amqp"),
        ("amqps", "amqps"),
        (Number(7), "7"),
        (Text("amqp"), "amqp"),
        ("my-service", "my-service"),
        ("x11", "x11"),
    ],
)
def test_ports(port: Any, kept: str) -> None:
    value = validate_create(entity_type("listener"), {"port": port})["port"]
    assert value == kept
    assert type(value) is str


@pytest.mark.parametrize("port", [-1, 65536, "65536", "-1", "", " ", "a b", "<port>", 5.0, True, [], "5672x!"])
def test_bad_ports(port: Any) -> None:
    assert "listener port: must be a port number from 0 to 65535 or a service name" in refused(
        "listener", {"port": port}
    )


@pytest.mark.parametrize(("value", "kept"), [(250, 250), ("250", 250), ("+7", 7), (Number(9), 9)])
def test_integers(value: Any, kept: int) -> None:
    found = validate_create(entity_type("listener"), {"linkCapacity": value})["linkCapacity"]
    assert found == kept
    assert type(found) is int


@pytest.mark.parametrize("value", ["", "x", "1.5", 1.5, True, None.__class__, [], "1_000", "٣", "9" * 30, " 1"])
def test_bad_integers(value: Any) -> None:
    assert "listener linkCapacity: must be a whole number" in refused("listener", {"linkCapacity": value})


@pytest.mark.parametrize(
    ("entity", "attribute", "value", "reason"),
    [
        ("listener", "cost", 0, "must be at least 1, not 0"),
        ("listener", "maxFrameSize", 1 << 32, "must be at most 4294967295, not 4294967296"),
        ("listener", "idleTimeoutSeconds", -1, "must be at least 0, not -1"),
        ("listener", "maxSessions", -1, "must be at least 0, not -1"),
        ("listener", "role", "inter-routers", "must be one of normal, inter-router, route-container, edge, not"),
        ("listener", "role", 1, "must be one of normal"),
        ("listener", "stripAnnotations", False, "must be one of in, out, both, no, not False"),
        ("router", "mode", "Interior", "must be one of standalone, interior, edge, not 'Interior'"),
        ("listener", "host", 5, "must be a string, not 5"),
        ("listener", "host", "a\0b", "contains NUL or half of a surrogate pair"),
        ("listener", "host", "a\ud800", "contains NUL or half of a surrogate pair"),
        ("connector", "saslPassword", 4711, "must be a string"),
        ("listener", "openProperties", "x", "must be a map"),
        ("listener", "openProperties", {"x-opt-qd.a": 1}, "key 'x-opt-qd.a' is reserved for the router"),
        ("listener", "openProperties", {"product": "x"}, "key 'product' is reserved for the router"),
        ("listener", "openProperties", {"é": 1}, "key 'é' must be ASCII"),
        ("listener", "openProperties", {1: 1}, "must be a string"),
        ("connector", "port", 0, "0 is for listeners only"),
        ("connector", "connectionStatus", "SUCCESS", "is read-only"),
        ("listener", "identity", "x", "is read-only"),
        ("listener", "hots", "x", "no such attribute; did you mean host?"),
        ("listener", "zzz", "x", "no such attribute"),
        ("listener", "type", "connector", "is 'connector', but the entity is a listener"),
        ("listener", "type", 7, "is 7, but the entity is a listener"),
        ("router", "id", "", "AttributeError: must be printable text without blanks, not ''"),
        ("router", "id", "a b", "AttributeError: must be printable text without blanks"),
        ("router", "id", "a\nb", "AttributeError: must be printable text without blanks"),
        ("log", "module", None, "is required"),
        ("policy", "policyDir", "relative/dir", "must be an absolute path"),
    ],
)
def test_refusals(entity: str, attribute: str, value: Any, reason: str) -> None:
    text = refused(entity, {attribute: value})
    assert text.startswith(f"{entity} {attribute}: {reason}")


def test_a_password_does_not_show_in_the_error() -> None:
    assert "4711" not in refused("connector", {"saslPassword": 4711})


@pytest.mark.parametrize(
    ("entity", "attributes"),
    [
        ("connector", {"host": "amqp://user:4711@broker"}),
        ("connector", {"host": "broker", "failoverUrls": "a:1, amqps://user:4711@broker:5671"}),
        ("listener", {"failoverUrls": "4711@broker"}),
    ],
)
def test_urls_have_no_password(entity: str, attributes: dict[str, Any]) -> None:
    text = refused(entity, {"port": "1", "role": "normal", **attributes})
    assert "must not contain user or password; use saslUsername and saslPassword" in text
    assert "4711" not in text


@pytest.mark.parametrize(
    ("entity", "attributes", "reason"),
    [
        ("address", {}, "prefix: one of prefix and pattern is required"),
        ("address", {"prefix": ""}, "prefix: one of prefix and pattern is required"),
        ("address", {"prefix": "a", "pattern": "b"}, "pattern: prefix and pattern exclude each other"),
        ("address", {"prefix": "a", "distribution": "closest", "exclusive": True},
         "exclusive: is not possible with distribution closest"),
        ("address", {"prefix": "a", "distribution": "multicast", "exclusive": True},
         "exclusive: is not possible with distribution multicast"),
        ("address", {"prefix": "a", "waypoint": True, "exclusive": True}, "exclusive: is not possible with waypoint"),
        ("address", {"prefix": "a", "egressPhase": 1, "exclusive": True},
         "exclusive: is not possible with egressPhase"),
        ("address", {"prefix": "a", "distribution": "closest", "messageGroups": True},
         "messageGroups: is not possible with distribution closest"),
        ("address", {"prefix": "a", "distribution": "multicast", "messageGroups": True},
         "messageGroups: is not possible with distribution multicast"),
        ("address", {"prefix": "a", "waypoint": True, "messageGroups": True},
         "messageGroups: is not possible with waypoint"),
        ("address", {"prefix": "a", "messageGroups": True, "exclusive": True},
         "messageGroups: is not possible with exclusive"),
        ("address", {"prefix": "a", "distribution": "closest", "concurrency": 8},
         "concurrency: is not possible with distribution closest"),
        ("address", {"prefix": "a", "exclusive": True, "concurrency": 8},
         "concurrency: is not possible with exclusive"),
        ("address", {"prefix": "/"}, "prefix: '/' has no words"),
        ("address", {"pattern": "./."}, "pattern: './.' has no words"),
        ("linkRoute", {"prefix": ".", "direction": "in"}, "prefix: '.' has no words"),
        ("linkRoute", {"direction": "in"}, "prefix: one of prefix and pattern is required"),
        ("linkRoute", {"prefix": "a"}, "direction: is required"),
        ("autoLink", {"address": "a"}, "direction: is required"),
        ("autoLink", {"direction": "in"}, "address: is required"),
        (
            "autoLink",
            {"address": "a", "direction": "in", "connection": "c", "containerId": "d"},
            "containerId: Both connection and containerId cannot be specified",
        ),
        ("router", {"mode": "interior"}, "id: is required in mode interior"),
        ("vhost", {}, "hostname: is required"),
        (
            "autoLink",
            {"addr": "a", "address": "b", "dir": "in"},
            "address: is given twice, also as 'address'",
        ),
        ("router", {"id": "a", "router-id": "b"}, "id: is given twice, also as 'router-id'"),
        ("log", {"module": "ROUTER", "enable": "loud"}, "enable: 'loud' is not a log level"),
        ("log", {"module": "ROUTER", "enable": "info,none"}, "enable: 'none' is not a log level"),
        ("log", {"module": "ROUTER", "enable": ""}, "enable: '' is not a log level"),
        ("listener", {"http": True, "websockets": False, "maxConnections": 5}, "maxConnections: is for AMQP"),
    ],
)
def test_refusals_across_attributes(entity: str, attributes: dict[str, Any], reason: str) -> None:
    assert refused(entity, attributes).startswith(f"{entity_type(entity).name} {reason}")


@pytest.mark.parametrize(
    ("entity", "written", "present", "value"),
    [
        ("router", "router-id", "id", "A"),
        ("router", "routerId", "id", "A"),
        ("router", "hello-interval", "helloIntervalSeconds", 2),
        ("listener", "addr", "host", "h"),
        ("listener", "authenticate-peer", "authenticatePeer", True),
        ("connector", "verifyHostName", "verifyHostname", False),
        ("sslProfile", "certDb", "caCertFile", "/f"),
        ("sslProfile", "key-file", "privateKeyFile", "/f"),
        ("vhost", "id", "hostname", "h"),
    ],
)
def test_deprecated_and_hyphenated_names(entity: str, written: str, present: str, value: Any) -> None:
    assert validate_create(entity_type(entity), {written: value})[present] == value


def test_autolinks_of_the_book_are_understood() -> None:
    """Dispatch book 3.5.4."""
    written = {"addr": "queue.first", "externalAddr": "broker_queue", "dir": "in", "connection": "broker"}
    values = validate_create(entity_type("autoLink"), written)
    assert values["address"] == "queue.first"
    assert values["externalAddress"] == "broker_queue"
    assert values["direction"] == "in"


def test_type_may_be_repeated_and_null_means_absent() -> None:
    values = validate_create(entity_type("listener"), {"type": "org.apache.qpid.dispatch.listener", "host": None})
    assert values["host"] == ""
    assert "type" not in values


def test_user_groups_get_types_and_defaults() -> None:
    groups = {"admin": {"users": ["alice", "bob"], "remoteHosts": "*", "maxSenders": "7"}}
    admin = validate_create(entity_type("vhost"), {"hostname": "h", "groups": groups})["groups"]["admin"]
    assert admin["users"] == "alice,bob"
    assert admin["maxSenders"] == 7
    assert admin["maxReceivers"] == 2**31 - 1
    assert admin["allowDynamicSource"] is False
    assert "name" not in admin


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ({"a": 1}, "vhost groups.a: must be a map of settings"),
        ({"a": {"maxSenders": "x"}}, "vhost groups.a.maxSenders: must be a whole number"),
        ({"a": {"nonsense": "x"}}, "vhost groups.a.nonsense: no such attribute"),
        (
            {"a": {"sources": "x", "sourcePattern": "y"}},
            "vhost groups.a.sourcePattern: sources and sourcePattern exclude",
        ),
        ([], "vhost groups: must be a map"),
    ],
)
def test_bad_user_groups(groups: Any, reason: str) -> None:
    assert refused("vhost", {"hostname": "h", "groups": groups}).startswith(reason)


def test_a_vhost_may_be_called_by_its_name_only() -> None:
    """Dispatch book 3.6.5, example 2."""
    assert validate_create(entity_type("vhost"), {"name": "$default"})["hostname"] == "$default"


def test_update_returns_what_changes() -> None:
    assert validate_update(entity_type("log"), {"enable": "debug+"}) == {"enable": "debug+"}
    assert validate_update(entity_type("log"), {"includeSource": "yes", "type": "log"}) == {"includeSource": True}
    assert validate_update(entity_type("connection"), {"adminStatus": "deleted"}) == {"adminStatus": "deleted"}


def test_null_in_an_update_puts_the_default_back() -> None:
    assert validate_update(entity_type("log"), {"enable": None}) == {"enable": "default"}


@pytest.mark.parametrize(
    ("entity", "attributes", "reason"),
    [
        ("log", {"module": "ROUTER"}, "log module: cannot be updated"),
        ("listener", {"port": 1}, "listener port: cannot be updated"),
        ("connection", {"host": "x"}, "connection host: cannot be updated"),
        ("connection", {"adminStatus": "x"}, "connection adminStatus: must be one of enabled, deleted"),
        ("log", {"enable": "x"}, "log enable: 'x' is not a log level"),
        ("log", {"enabel": "x"}, "log enabel: no such attribute; did you mean enable?"),
    ],
)
def test_refused_updates(entity: str, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError) as raised:
        validate_update(entity_type(entity), attributes)
    assert str(raised.value).startswith(reason)


def test_an_update_may_repeat_what_cannot_change() -> None:
    current = {"module": "ROUTER", "identity": "log/ROUTER", "enable": "info+"}
    assert validate_update(entity_type("log"), {**current, "enable": "debug"}, current) == {"enable": "debug"}


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_any_value_is_taken_or_refused_cleanly(data: st.DataObject) -> None:
    entity = ENTITY_TYPES[data.draw(st.sampled_from(sorted(ENTITY_TYPES)))]
    names = st.sampled_from(sorted(entity.attributes)) | st.text()
    attributes = data.draw(st.dictionaries(names, _ANY, max_size=4))
    try:
        values = validate_create(entity, attributes)
    except SchemaError:
        return
    assert validate_create(entity, values) == values, "what was accepted is accepted again, unchanged"
