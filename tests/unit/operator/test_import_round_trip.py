"""What `waymesh import` makes of a file gives routers the entities of the file: the manifests in local mode beside the
file, read as routers read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_configuration_examples import EXAMPLES as OF_DOCS
from tests.unit.policy.test_book_examples import EXAMPLE_2, EXAMPLE_3
from tools.old_settings import STARTS
from waymesh_operator.cli.main import run_command
from waymesh_operator.places.local.desired import LocalContext, RouterAddresses, desired_local
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router import router_id
from waymesh_operator.resources.validation import check
from waymesh_operator.router_entities.names import Entity
from waymesh_operator.router_entities.policies import MANAGEMENT_VHOST
from waymesh_schema.config import ConfigError, parse_conf
from waymesh_schema.convert import names
from waymesh_schema.entities import entity_type
from waymesh_schema.model import NAMES
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[3]
COMPARED = {
    "router.config.address": (),
    "router.config.linkRoute": (),
    "router.config.autoLink": (),
    "router.config.exchange": (),
    "router.config.binding": (),
    "policy": ("policyDir",),
    "vhost": (),
    # What the operator chooses, or the files of TLS.
    "connector": ("sslProfile", "saslMechanisms", "saslPassword", "durableNames", "saslUsername"),
    "listener": (
        "host", "port", "sslProfile", "saslMechanisms", "requireSsl", "requireEncryption", "management", "peerNames",
        "stripAnnotations", "failoverUrls", "managementFiles", "recheckPeers", "healthz", "metrics", "allowedOrigins",
        "usersFile", "saslPlugin", "tokenProfile", "trustedCertsFile", "authenticatePeer", "allowInsecurePlain",
    ),
}  # fmt: skip
"""Types of entities that both have, and attributes that may differ."""
BOOK = {
    "routing": "router {\n mode: interior\n id: A\n}\n"
    "address {\n prefix: closest\n distribution: closest\n}\naddress {\n pattern: */orders/*\n priority: 3\n}\n"
    "address {\n prefix: work\n waypoint: yes\n}\naddress {\n prefix: f\n enableFallback: yes\n}\n",
    "brokers": "connector {\n name: b\n role: route-container\n host: b.example\n port: 5772\n openHostname: v\n"
    " failoverUrls: amqp://c.example:5773\n}\nautoLink {\n addr: q\n dir: in\n connection: b\n externalAddr: x\n}\n"
    "autoLink {\n addr: q\n dir: out\n containerId: other\n phase: 2\n fallback: yes\n}\n"
    "linkRoute {\n prefix: r\n dir: in\n connection: b\n}\nlinkRoute {\n prefix: r\n dir: out\n connection: b\n}\n"
    "linkRoute {\n pattern: a.*.b\n dir: in\n containerId: other\n addExternalPrefix: x.\n}\n",
    "listeners": "listener {\n port: 5673\n linkCapacity: 7\n maxSessions: 9\n idleTimeoutSeconds: 3\n}\n"
    "listener {\n role: route-container\n port: 5674\n}\nlistener {\n port: 5675\n multiTenant: yes\n"
    " aliasSpaces: yes\n openCapabilities: x y\n connectionRate: 6/10\n}\n",
    "policy": EXAMPLE_2,
    "vhosts": EXAMPLE_3,
    "exchanges": "exchange {\n name: e\n address: a\n alternateAddress: r\n alternatePhase: 1\n}\n"
    "binding {\n exchangeName: e\n bindingKey: x.#\n nextHopAddress: b\n}\nbinding {\n exchangeName: e\n"
    " nextHopAddress: c\n nextHopPhase: 3\n}\nexchange {\n name: f\n address: a\n phase: 1\n matchMethod: mqtt\n}\n",
    "links": "router {\n mode: interior\n id: A\n}\n"
    "connector {\n name: far\n role: inter-router\n host: far.example\n port: 7001\n cost: 4\n}\n",
}


def examples() -> Iterator[tuple[str, str]]:
    """Name and text of every example of the old format in the tree."""
    for file in ("examples/migration/qdrouterd.conf", "router_image/waymesh_router/runtime/default.conf"):
        yield file, (ROOT / file).read_text(encoding="utf-8")
    yield from (("book, " + name, text) for name, text in BOOK.items())
    yield from ((f"{page}:{line}", text) for page, line, text in OF_DOCS)
    yield from ((f"old-settings: {setting.title}", setting.text) for setting in STARTS)


ALL = list(examples())


def readable(text: str) -> bool:
    """Whether a router starts with the text; some examples refer to what another example has."""
    try:
        parse_conf(text, "a.conf")
    except ConfigError:
        return False
    return True


WHOLE = [(name, text) for name, text in ALL if readable(text)]


def plain(kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that are compared, all of them, with equal values written equally."""
    table = entity_type(kind).attributes
    given = {key: value for key, value in attributes.items() if key in table and value is not None}
    left_out = {"name", "identity", "type", *COMPARED[kind]}
    values = validate_create(entity_type(kind), {key: value for key, value in given.items() if key not in left_out})
    found: dict[str, Any] = {key: "5672" if value == "amqp" else value for key, value in values.items()}
    if kind == "connector" and found["role"] == "normal":
        found["role"] = "route-container"  # a Broker has no other
    if kind == "router.config.binding":
        found["exchangeName"] = ""  # the operator chooses the names
    if kind == "vhost":
        found["aliases"] = sorted((found["aliases"] or "").replace(",", " ").split())
        found["groups"] = {name: group(settings) for name, settings in found["groups"].items()}
    return found


def group(settings: Mapping[str, Any]) -> dict[str, Any]:
    table = entity_type("vhostUserGroupSettings").attributes
    lists = {name for name, attribute in table.items() if attribute.type is NAMES}
    return {key: names(value) if key in lists else value for key, value in settings.items()} | {
        "users": tuple(name for name in names(settings["users"]) if name != "*"),
        "management": None if settings["management"] == "write" else settings["management"],
    }


def places(entities: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Host and port of each connector by name."""
    return {str(a["name"]): f"{a['host']}:{a['port']}" for kind, a in entities if kind == "connector" and a["name"]}


def compared(entities: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in COMPARED}
    at = places(entities)
    for kind, attributes in entities:
        if kind not in COMPARED:
            continue
        one = plain(kind, attributes)
        if one.get("connection"):
            one["connection"] = at.get(one["connection"], one["connection"])
        ways = ("in", "out") if one.get("direction") == "both" else (one.get("direction"),)
        found[kind] += [one | ({"direction": way} if way else {}) for way in ways]
    return {kind: sorted(items, key=repr) for kind, items in found.items() if items}


def of_file(text: str) -> dict[str, list[dict[str, Any]]]:
    """The entities of the file that routers of a Router have."""
    entities = [(entry.type.name, entry.attributes) for entry in parse_conf(text, "a.conf")]
    kept = [
        (kind, attributes)
        for kind, attributes in entities
        if kind != "listener" or (attributes["role"] in ("normal", "route-container") and not attributes["http"])
    ]
    known = places(entities)
    return compared([(kind, a) for kind, a in kept if not _without_container(kind, a, known)])


def _without_container(kind: str, attributes: Mapping[str, Any], known: Mapping[str, str]) -> bool:
    """Whether it is a link that is never active, which import leaves out."""
    if kind not in ("router.config.autoLink", "router.config.linkRoute"):
        return False
    return attributes["connection"] not in known and not attributes["containerId"]


def of_manifests(text: str) -> dict[str, list[dict[str, Any]]]:
    """The entities of the router in local mode."""
    secrets = "".join(secret(name) for name in sorted(references(list(yaml.safe_load_all(text)))))
    documents, problems = parse_text(text + secrets, "m.yaml")
    assert not problems
    checked = check(documents, load_crds())
    (mesh,) = checked.meshes.values()
    ports = {listener.name: listener.port for listener in mesh.router.listeners}
    context = LocalContext([RouterAddresses("127.0.0.1", "127.0.0.1", 1, 2, ports)], checked.secrets_of("default"))
    (router,) = desired_local(mesh, context).mesh.routers
    assert router.id == router_id(mesh.router.ref, 0)
    return compared([(entity.type, named(entity)) for entity in router.entities if not of_operator(entity)])


def named(entity: Entity) -> dict[str, Any]:
    return {**entity.attributes, "name": entity.name}


def of_operator(entity: Entity) -> bool:
    """Whether local mode adds it: management, and the listener for other routers."""
    attributes = entity.attributes
    if entity.type == "vhost":
        return bool(attributes["hostname"] == MANAGEMENT_VHOST)
    return entity.type == "listener" and (
        attributes["role"] == "inter-router" or not entity.name.partition("/Router/")[2].count("listener/")
    )


def references(value: Any) -> set[str]:
    """Names of the Secrets that manifests refer to."""
    if isinstance(value, list):
        return {name for item in value for name in references(item)}
    if not isinstance(value, dict):
        return set()
    own = {str(value["secretRef"]["name"])} if "secretRef" in value else set()
    return own | {name for item in value.values() for name in references(item)}


def secret(name: str) -> str:
    data = dict.fromkeys(("ca.crt", "tls.crt", "tls.key", "ca.crl", "username", "password"), "x")
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
    return "---\n" + yaml.safe_dump(manifest)


def without(entities: dict[str, list[dict[str, Any]]], lost: list[tuple[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """The entities without lost attributes and groups."""
    for kind, name in lost:
        for entity in entities.get(kind, ()):
            entity.pop(name, None)
            entity.get("groups", {}).pop(name.removeprefix("groups."), None)
    return entities


@pytest.mark.parametrize(("name", "text"), WHOLE, ids=[name for name, _ in WHOLE])
def test_a_file_and_its_manifests_give_the_same_entities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    """But for what is told to be lost, and would not be without --accept-loss."""
    (tmp_path / "a.conf").write_text(text, encoding="utf-8")
    assert run_command(["import", str(tmp_path / "a.conf"), "--accept-loss"]) == 0
    out, err = capsys.readouterr()
    lost = re.findall(r"^waymesh: loss accepted: .*?:\d+: (\S+): ([^\s:]+):", err, re.MULTILINE)
    assert run_command(["import", str(tmp_path / "a.conf")]) == (3 if lost else 0)
    assert without(of_manifests(out), lost) == without(of_file(text), lost), err


def test_there_are_examples() -> None:
    assert len(WHOLE) >= 39
