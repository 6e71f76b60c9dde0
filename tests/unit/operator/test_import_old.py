"""`waymesh import`: conversion of old configurations, and messages about the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from waymesh_operator.cli.main import run_command
from waymesh_operator.migration.listeners import PORTS_OF_PODS

pytestmark = pytest.mark.engine_independent

EXAMPLES = Path(__file__).parents[3] / "examples" / "migration"
ROUTER = "router {\n mode: interior\n id: A\n}\nlistener {\n port: amqp\n}\n"


class Imported:
    """The manifests of an import, by kind, and the lines on stderr."""

    def __init__(self, text: str, errors: str, code: int = 0) -> None:
        self.text, self.code = text, code
        self.notes = [line.removeprefix("waymesh: ") for line in errors.splitlines()]
        self.manifests: list[dict[str, Any]] = [item for item in yaml.safe_load_all(text) if item]

    def specs(self, kind: str) -> dict[str, dict[str, Any]]:
        items = [item for item in self.manifests if item["kind"] == kind]
        found = {item["metadata"]["name"]: dict(item.get("spec", {})) for item in items}
        for spec in found.values():
            spec.pop("routerRef", None)
        return found


def run(
    capsys: pytest.CaptureFixture[str], *files: Path, options: tuple[str, ...] = (), code: int = 0
) -> Imported:
    assert run_command(["import", *map(str, files), *options]) == code
    out, err = capsys.readouterr()
    return Imported(out, err)


def conf(folder: Path, text: str, name: str = "a.conf") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_example_of_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, EXAMPLES / "qdrouterd.conf")
    assert found.specs("Router") == {
        "router-a": {
            "size": 1,
            "role": "interior",
            "listeners": [{"name": "amqp", "port": 5672}],
            "logging": {"level": "notice"},
        }
    }
    broker = {"brokerRef": {"name": "broker"}}
    assert found.specs("Broker") == {
        "broker": {
            "endpoints": [{"host": "127.0.0.1", "port": 5772}],
            "durableNames": "container",
            "auth": {"mechanism": "ANONYMOUS"},
        }
    }
    assert found.specs("Address") == {"queue": {"prefix": "queue", "waypoint": True}}
    assert found.specs("AutoLink") == {
        "queue-first-in": {"address": "queue.first", "direction": "in", **broker},
        "queue-first-out": {"address": "queue.first", "direction": "out", **broker},
    }
    assert found.specs("LinkRoute") == {"b2": {"prefix": "b2", "direction": "both", **broker}}
    threads = "router: workerThreads: not taken over, as further threads do TLS alone; see spec.workerThreads"
    assert found.notes[0] == f"{EXAMPLES / 'qdrouterd.conf'}:3: {threads}"
    assert [": connector: durableNames: container keeps the names" in note for note in found.notes] == [
        False,
        False,
        True,
    ]
    assert "listener: role inter-router: the operator connects the routers of a Router" in found.notes[1]
    assert f"# qdrouterd.conf:3: {threads}\n" in found.text


def test_the_example_of_an_interconnect(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, EXAMPLES / "interconnect.yaml")
    assert found.specs("Router") == {
        "office": {"size": 2, "role": "interior", "listeners": [{"name": "amqp", "port": 5672}]}
    }
    assert found.specs("Address") == {
        "news": {"prefix": "news", "distribution": "multicast"},
        "orders": {"pattern": "orders.#", "distribution": "balanced"},
    }
    assert found.specs("Broker") == {
        "store": {"endpoints": [{"host": "127.0.0.1", "port": 5772}], "durableNames": "container"}
    }
    assert found.specs("LinkRoute")["archive"]["direction"] == "both"
    assert "durableNames: container keeps the names" in found.notes.pop()
    assert [note.partition(".yaml:")[2] for note in found.notes] == [
        "14: listener: http: every router serves metrics and probes at port 9090, files are not served; "
        "for AMQP over WebSocket add a listener with http to the Router",
        "7: router: deploymentPlan.placement: has no counterpart; see spec.pod of the Router",
    ]


def test_types_from_before_dispatch_1_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ROUTER + "connector {\n name: store\n role: route-container\n host: b\n}\n"
    address = "fixedAddress {\n prefix: /work\n fanout: single\n bias: spread\n}\n"
    route = "linkRoutePattern {\n prefix: jobs\n connector: store\n}\n"
    found = run(capsys, conf(tmp_path, shared + address + route))
    assert found.specs("Address") == {"work": {"prefix": "work", "distribution": "balanced"}}
    (spec,) = found.specs("LinkRoute").values()
    assert (spec["prefix"], spec["direction"], spec["brokerRef"]) == ("jobs", "both", {"name": "store"})


def test_what_an_auto_link_asks_of_its_container(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "autoLink {\n addr: q\n dir: in\n containerId: c\n selector: a = 1\n distributionMode: copy\n noLocal: yes\n"
    text += ' capabilities: queue x\n linkProperties: {"priority": 3}\n}\n'
    found = run(capsys, conf(tmp_path, ROUTER + text))
    (spec,) = found.specs("AutoLink").values()
    asked = {"selector": "a = 1", "distributionMode": "copy", "noLocal": True, "capabilities": ["queue", "x"]}
    assert {**spec, **asked, "linkProperties": {"priority": 3}} == spec
    assert found.notes == []


def test_a_listener_for_brokers_keeps_its_role(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, conf(tmp_path, ROUTER + "listener {\n name: brokers\n role: route-container\n port: 5673\n}\n"))
    (spec,) = found.specs("Router").values()
    assert {"name": "brokers", "port": 5673, "role": "route-container"} in spec["listeners"]
    assert [note.partition(": ")[2] for note in found.notes] == [
        "listener: role route-container: give the AutoLinks of its brokers a containerId",
    ]


def test_listeners_at_ports_of_the_pods_are_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To ports that no other listener has."""
    ports = (19090, 9090, 55671, 55672, 55673)
    text = "router {\n id: A\n}\n" + "".join(f"listener {{\n name: l{port}\n port: {port}\n}}\n" for port in ports)
    found = run(capsys, conf(tmp_path, text))
    (router,) = found.specs("Router").values()
    assert sorted(item["port"] for item in router["listeners"]) == [19090, 19091, 45671, 45672, 45673]
    assert any("listener: port: routers need 9090 themselves; 19091 is used" in note for note in found.notes)
    refused = (EXAMPLES.parents[1] / "crds/router.yaml").read_text(encoding="utf-8")
    assert f"self.port in {list(PORTS_OF_PODS)}" in refused


def test_a_failover_list_of_a_listener_is_left_to_the_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(capsys, conf(tmp_path, ROUTER.replace("port: amqp\n", "port: amqp\n failoverUrls: amqp://b\n")))
    (note,) = found.notes
    assert "failoverUrls: set failover: Auto" in note


def test_several_files_are_one_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = "connector {\n name: both\n role: route-container\n host: b\n}\naddress {\n prefix: a\n}\n"
    own = "connector {\n name: own\n role: route-container\n host: HOST\n}\n"
    own += "autoLink {\n addr: q\n dir: in\n connection: own\n}\n"
    mesh = "connector {\n role: inter-router\n host: other\n port: 1\n}\n"
    within = "listener {\n role: inter-router\n port: 1\n}\n"
    one = conf(tmp_path, ROUTER + within + shared + own.replace("HOST", "x"))
    other = conf(tmp_path, ROUTER + shared + own.replace("HOST", "y") + mesh, "b.conf")
    found = run(capsys, one, other, options=("--name", "Old Mesh"))
    assert found.specs("Router")["old-mesh"]["size"] == 2
    assert found.specs("Address") == {"a": {"prefix": "a"}}
    brokers = found.specs("Broker")
    assert "placement" not in brokers["both"]
    assert brokers["own"]["placement"] == {"routers": "List", "ordinals": [0]}
    assert brokers["own-2"]["placement"] == {"routers": "List", "ordinals": [1]}
    assert [spec["brokerRef"]["name"] for spec in found.specs("AutoLink").values()] == ["own", "own-2"]
    assert {spec["durableNames"] for spec in brokers.values()} == {"container"}
    assert not found.specs("RouterLink")
    names = [note for note in found.notes if "role inter-router" not in note]
    assert all("durableNames: container keeps the names" in note for note in names)


def test_tls_and_logins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = "sslProfile {\n name: P\n caCertFile: /ca\n certFile: /c\n privateKeyFile: /k\n}\n"
    broker = "connector {{\n name: {0}\n role: route-container\n host: b\n sslProfile: P\n {1}\n}}\n"
    text = ROUTER + profile
    text += broker.format(
        "plain", "saslUsername: u\n saslPassword: pass:s\n saslMechanisms: PLAIN\n verifyHostname: no"
    )
    text += broker.format("cert", "openHostname: vhost\n failoverUrls: amqps://c, d:1")
    listener = "listener {{\n name: {}\n port: {}\n sslProfile: P\n authenticatePeer: yes\n saslMechanisms: {}\n}}\n"
    text += listener.format("secure", 5671, "PLAIN") + listener.format("certs", 1, "EXTERNAL")
    found = run(capsys, conf(tmp_path, text))
    brokers = found.specs("Broker")
    assert brokers["plain"]["auth"] == {"mechanism": "PLAIN", "secretRef": {"name": "plain-login"}}
    assert brokers["plain"]["tls"] == {"caSecretRef": {"name": "p-ca"}, "verifyHostname": False}
    assert brokers["cert"]["auth"] == {"mechanism": "EXTERNAL", "secretRef": {"name": "p-certificate"}}
    assert brokers["cert"]["hostname"] == "vhost"
    assert brokers["cert"]["endpoints"][1:] == [{"host": "c", "port": 5671}, {"host": "d", "port": 1}]
    (secret,) = [item for item in found.manifests if item["kind"] == "Secret"]
    assert secret["stringData"] == {"username": "u", "password": "s"}
    authorities = {"clientAuthorities": {"secretRef": {"name": "p-ca"}}}
    assert found.specs("Router")["a"]["listeners"][1:] == [
        {"name": "secure", "port": 5671, "tls": True, "auth": "plain", "users": {"secretRef": {"name": "a-users"}}},
        {"name": "certs", "port": 10001, "tls": True, "auth": "mtls", **authorities},
    ]
    assert any("create the Secret p-ca with ca.crt: the file /ca" in note for note in found.notes)
    assert any("create the Secret a-users: a key for each user" in note for note in found.notes)


def test_what_has_no_counterpart_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "router {\n mode: edge\n id: ${HOSTNAME}\n saslConfigDir: /etc/sasl2\n defaultDistribution: multicast\n}\n"
        "binding {\n exchangeName: x\n nextHopAddress: y\n}\ntcpListener {\n port: 1\n}\n"
        "connector {\n role: edge\n host: h\n}\nlistener {\n port: <port>\n}\n"
        "listener {\n port: 1\n linkCapacity: 5\n maxSessions: 0\n idleTimeoutSeconds: 0\n cost: 2\n}\n"
        "tokenProfile {\n name: t\n}\n"
        "autoLink {\n addr: a\n dir: in\n connection: none\n}\nlinkRoute {\n prefix: p\n dir: in\n}\n"
    )
    found = run(capsys, conf(tmp_path, text))
    assert found.specs("Router")["mesh"]["role"] == "edge"
    listener = {"name": "amqp", "port": 10001, "linkCapacity": 5, "idleTimeoutSeconds": 0}
    assert found.specs("Router")["mesh"]["listeners"] == [listener]
    assert found.specs("Address") == {"default-distribution": {"pattern": "#", "distribution": "multicast"}}
    assert not found.specs("AutoLink")
    assert not found.specs("LinkRoute")
    wanted = (
        "router: saslConfigDir: a Cyrus SASL database is not read",
        "router.config.binding: exchangeName: there is no exchange x; left out",
        "tcpListener: TCP adaptors are not supported",
        "listener: port: '<port>' is not a port number",
        "listener: port: routers cannot bind ports below 1024; 10001 is used",
        "listener: cost: has no counterpart",
        "tokenProfile: has no issuer and audience; left out",
        "router.config.autoLink: connection: there is no connector none",
        "router.config.linkRoute: has neither connection nor containerId",
    )
    for text in wanted:
        assert any(text in note for note in found.notes), text
    assert len(found.notes) == len(wanted)


def test_edge_routers_are_a_router_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listener = "listener {\n role: edge\n port: 45671\n}\n"
    interior = conf(tmp_path, "router {\n mode: interior\n id: A\n}\n" + listener)
    uplink = "connector {\n role: edge\n host: A\n port: 45671\n}\n"
    edge = conf(tmp_path, "router {\n mode: edge\n id: B\n}\n" + uplink, "b.conf")
    alone = conf(tmp_path, "router {\n mode: edge\n id: C\n}\n", "c.conf")
    found = run(capsys, edge, edge)
    (router,) = found.specs("Router").values()
    assert (router["role"], router["size"]) == ("edge", 2)
    assert found.specs("RouterLink") == {"a": {"role": "edge", "endpoints": [{"host": "A", "port": 45671}]}}
    found = run(capsys, interior, edge, alone)
    assert {name: spec["role"] for name, spec in found.specs("Router").items()} == {
        "a": "interior",
        "b": "edge",
        "c": "edge",
    }
    assert any("listener: role edge: needs TLS with clients' certificates" in note for note in found.notes)


def test_the_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mesh.yaml"
    assert run(capsys, conf(tmp_path, ROUTER), options=("--out", str(out))).text == ""
    assert yaml.safe_load(out.read_text(encoding="utf-8"))["kind"] == "Router"


INTERCONNECT = "apiVersion: interconnectedcloud.github.io/v1alpha1\nkind: Interconnect\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.yaml", "# nothing\n", "a.yaml: holds no resource"),
        ("a.yaml", INTERCONNECT + "spec: hello\n", "a.yaml:4: spec: must be a map"),
        ("a.yaml", INTERCONNECT + "spec:\n  deploymentPlan: 3\n", "a.yaml:5: spec.deploymentPlan: must be a map"),
        ("a.yaml", INTERCONNECT + "spec:\n  listeners: [5672]\n", "a.yaml:5: spec.listeners: must be a list of maps"),
        ("a.yaml", INTERCONNECT + "spec:\n  addresses: {a: b}\n", "a.yaml:5: spec.addresses: must be a list of maps"),
        ("a.conf", "listener\n", "a.conf:1: expected `name {`"),
        ("a.json", "{}x", "a.json:1: invalid JSON: Extra data"),
        ("a.json", "{}", "a.json:1: must be a JSON list"),
        ("a.json", '[\n["router"]]', "a.json:2: expected `[entityName, {attributes}]`"),
        ("a.json", "[" * 5000, "a.json:1: nested more than 32 deep"),
        ("a.json", '[["router", {"id": "A", "id": "B"}]]', "a.json:1: invalid JSON: key 'id' is given twice"),
        ("a.yaml", "kind: Pod\n", "a.yaml:1: only resources Interconnect of interconnectedcloud.github.io can be"),
        ("none.conf", None, "none.conf: cannot be read: No such file"),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, reason: str
) -> None:
    if text is not None:
        conf(tmp_path, text, name)
    assert run_command(["import", str(tmp_path / name)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert reason in err


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf(tmp_path, "router {\n id: A\n}\n", "a.conf")
    out = tmp_path / "missing" / "mesh.yaml"
    assert run_command(["import", str(tmp_path / "a.conf"), "--out", str(out)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"waymesh: {out}: No such file or directory"


def test_odd_names_in_a_configuration_stay_in_their_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '[["router", {"id": "A"}],\n["listener", {"port": 5672, "x\\nkind: y": 1, "b\\u001b[2J": 2, "a": 3}]]'
    assert run_command(["import", str(conf(tmp_path, text, "a.json"))]) == 0
    out, err = capsys.readouterr()
    notes = [f"a.json:2: listener: {name}: has no counterpart" for name in ("x\\nkind: y", "b\\x1b[2J", "a")]
    assert out.splitlines()[1:4] == [f"# {note}" for note in notes]
    assert [line.partition(str(tmp_path) + "/")[2] for line in err.splitlines()] == notes


EXCHANGE = "exchange {\n name: news\n address: news\n phase: 1\n alternateAddress: rest\n matchMethod: mqtt\n}\n"
BINDINGS = "binding {\n exchangeName: news\n bindingKey: a/#\n nextHopAddress: x\n nextHopPhase: 2\n}\n"
BINDINGS += "binding {\n exchangeName: news\n nextHopAddress: y\n}\n"


def test_exchanges_and_their_bindings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, conf(tmp_path, ROUTER + EXCHANGE + BINDINGS))
    bindings = [{"bindingKey": "a/#", "nextHopAddress": "x", "nextHopPhase": 2}, {"nextHopAddress": "y"}]
    spec = {"address": "news", "alternateAddress": "rest", "matchMethod": "mqtt", "phase": 1, "bindings": bindings}
    assert found.specs("Exchange") == {"news": spec}
    assert not found.notes


def test_exchanges_of_several_routers_keep_their_routers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [EXCHANGE + BINDINGS, EXCHANGE, EXCHANGE + BINDINGS]
    files = [
        conf(tmp_path, f"router {{\n mode: interior\n id: {name}\n}}\n{text}" + (
            "listener {\n role: inter-router\n port: 5001\n}\n" if name == "A" else
            "connector {\n role: inter-router\n host: A\n port: 5001\n}\n"), f"{name}.conf")
        for name, text in zip("ABC", texts, strict=True)
    ]  # fmt: skip
    specs = run(capsys, *files).specs("Exchange")
    assert {name: spec["placement"]["ordinals"] for name, spec in specs.items()} == {"news": [0, 2], "news-2": [1]}
    assert [len(spec.get("bindings", ())) for spec in specs.values()] == [2, 0]


def test_what_no_exchange_can_have_is_told_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "binding {\n exchangeName: news\n nextHopAddress: $management\n}\n"
    found = run(capsys, conf(tmp_path, ROUTER + EXCHANGE + BINDINGS + wrong), code=1)
    place = f"a.conf:{len((ROUTER + EXCHANGE + BINDINGS).splitlines()) + 1}: "
    told = "cannot be translated: Exchange/news spec.bindings[2].nextHopAddress: must be an address of clients"
    assert place + told in "\n".join(found.notes)


def test_a_waypoint_with_a_fallback_stays_a_waypoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = conf(tmp_path, ROUTER + "address {\n prefix: a\n waypoint: yes\n enableFallback: yes\n}\n")
    found = run(capsys, file)
    assert found.specs("Address") == {"a": {"prefix": "a", "waypoint": True}}
    told = "router.config.address: enableFallback: an Address that is a waypoint cannot have a fallback; left out"
    assert found.notes == [f"{file}:8: {told}"]
