"""`waymesh import` keeps what denies: policies, networks, links; what is lost ends it with exit code 3."""

from __future__ import annotations

import gzip
import stat
from pathlib import Path

import pytest
import yaml

from tests.unit.operator.test_import_old import INTERCONNECT, ROUTER, conf, run
from waymesh_operator.cli.main import run_command

pytestmark = pytest.mark.engine_independent

VHOST = """vhost {
    hostname: shop
    aliases: a.shop, b.shop
    maxConnectionsPerHost: 5
    groups: {
        $default: {
            users: *
            remoteHosts: 10.0.0.0/8, 192.168.1.*
            sources: news.*
            maxSenders: 3
        }
        staff: {
            users: ann, bob
            remoteHosts: *
            targetPattern: news.*.x
            allowDynamicSource: yes
            management: write
        }
    }
}
"""
POLICY = "policy {\n enableVhostPolicy: yes\n defaultVhost: shop\n maxConnections: 9\n maxMessageSize: 100\n}\n"


def test_policies_and_vhosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, conf(tmp_path, ROUTER + POLICY + VHOST))
    (router,) = found.specs("Router").values()
    assert router["policy"] == {"enabled": True, "defaultVhost": "shop", "maxConnections": 9, "maxMessageSize": 100}
    assert found.specs("VhostPolicy") == {
        "shop": {
            "hostname": "shop",
            "aliases": ["a.shop", "b.shop"],
            "maxConnectionsPerHost": 5,
            "allowUnknownUser": True,
            "groups": [
                {
                    "name": "$default",
                    "remoteHosts": ["10.0.0.0/8", "192.168.1.*"],
                    "sources": ["news.*"],
                    "maxSenders": 3,
                },
                {
                    "name": "staff",
                    "users": ["ann", "bob"],
                    "remoteHosts": ["*"],
                    "targetPatterns": ["news.*.x"],
                    "allowDynamicSource": True,
                },
            ],
        }
    }
    assert [note.partition("a.conf:")[2] for note in found.notes] == [
        "14: vhost: groups.$default.users: * is taken as allowUnknownUser: yes",
        "14: vhost: groups.staff.management: write: the configuration is that of the resources; left out",
    ]


def test_vhosts_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = f"policy {{\n enableVhostPolicy: yes\n policyDir: {tmp_path / 'vhosts'}\n}}\n"
    file = conf(tmp_path, ROUTER + policy)
    found = run(capsys, file, code=3)
    assert any("lost: " in note and "policyDir: no vhosts could be read from" in note for note in found.notes)
    (tmp_path / "vhosts").mkdir()
    conf(tmp_path / "vhosts", '[["vhost", {"hostname": "v", "maxConnections": 1}]]', "v.json")
    assert run(capsys, file).specs("VhostPolicy") == {"v": {"hostname": "v", "maxConnections": 1}}


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (
            'vhost {\n hostname: v\n groups: {"a b": {"users": "x"}}\n}\n',
            "vhost: groups.a b: no resource has a group of that name",
        ),
        (
            'vhost {\n hostname: v\n allowUnknownUser: yes\n groups: {"$default": {"remoteHost": "10.0.0.1"}}\n}\n',
            "vhost: groups.$default.remoteHost: no such attribute; did you mean remoteHosts?",
        ),
        ("vhost {\n hostname: v\n secret: 1\n}\n", "vhost: secret: has no counterpart"),
        ("listener {\n port: 1\n host: 127.0.0.1\n}\n", "listener: host: 127.0.0.1: was for clients on the same"),
        ("listener {\n port: 1\n requireEncryption: yes\n}\n", "requireEncryption: has no counterpart without an"),
        ("listener {\n port: 5672\n maxConnections: 1\n}\n", "listener: port: the listener amqp has the same port"),
        ("sslProfile {\n name: P\n protocols: TLSv1.1\n}\n", "sslProfile: protocols: TLSv1.1: TLSv1.2 and TLSv1.3 are"),
        (
            "sslProfile {\n name: P\n uidFormat: n\n uidNameMappingFile: /names\n}\n",
            "sslProfile: uidNameMappingFile: has no counterpart",
        ),
        (
            "sslProfile {\n name: P\n ciphers: HIGH\n}\nconnector {\n role: edge\n host: b\n sslProfile: P\n}\n",
            "sslProfile: ciphers: a RouterLink accepts all ciphers of TLSv1.2 and TLSv1.3",
        ),
    ],
)
def test_nothing_is_written_if_something_that_denies_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, lost: str
) -> None:
    file, out = conf(tmp_path, ROUTER + text), tmp_path / "mesh.yaml"
    found = run(capsys, file, options=("--out", str(out)), code=3)
    assert any(note.startswith(f"lost: {file}:8: ") and lost in note for note in found.notes), found.notes
    assert "with --accept-loss" in found.notes[-1]
    assert not out.exists()
    found = run(capsys, file, options=("--accept-loss",))
    assert any(note.startswith(f"loss accepted: {file}:8: ") and lost in note for note in found.notes)
    assert "\n# lost: a.conf:8: " in found.text


def test_settings_that_allow_no_more_are_only_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "sslProfile {\n name: P\n certFile: /c\n protocols: TLSv1.2 TLSv1.3\n}\n"
    text += "listener {\n port: 5673\n host: 192.0.2.1\n stripAnnotations: no\n management: write\n sslProfile: P\n}\n"
    found = run(capsys, conf(tmp_path, ROUTER + text))
    assert [note.partition("listener: ")[2].partition(":")[0] for note in found.notes] == [
        "host",
        "sslProfile",
        "management",
        "stripAnnotations",
    ]


def test_tenants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "router {\n id: A\n}\nlistener {\n port: 5672\n multiTenant: yes\n aliasSpaces: yes\n management: read\n}\n"
    text += "listener {\n port: 5673\n multiTenant: yes\n policyVhost: v\n}\n"
    (router,) = run(capsys, conf(tmp_path, text)).specs("Router").values()
    assert [(item["tenancy"], item.get("management")) for item in router["listeners"]] == [
        ({"mode": "ByHostname", "aliasSpaces": True}, "read"),
        ({"mode": "Fixed", "vhost": "v"}, None),
    ]


def interior(name: str, port: int, *connectors: str) -> str:
    text = f"router {{\n mode: interior\n id: {name}\n}}\nlistener {{\n role: inter-router\n port: {port}\n}}\n"
    links = (f"connector {{\n role: inter-router\n host: {host}\n port: {port}\n}}\n" for host in connectors)
    return text + "".join(links)


def test_separate_networks_are_separate_routers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three files with one port: B names A, C names nobody among them."""
    broker = "connector {\n name: store\n role: route-container\n host: HOST\n}\n"
    a = conf(tmp_path, interior("A", 7000) + broker.replace("HOST", "x"), "a.conf")
    b = conf(tmp_path, interior("B", 7000, "a.example"), "b.conf")
    c = conf(tmp_path, interior("C", 7100) + broker.replace("HOST", "y"), "c.conf")
    found = run(capsys, a, b, c)
    assert {name: spec["size"] for name, spec in found.specs("Router").items()} == {"a": 2, "c": 1}
    assert found.specs("RouterLink") == {}
    assert {name: spec["endpoints"][0]["host"] for name, spec in found.specs("Broker").items()} == {
        "store": "x",
        "store-2": "y",
    }
    brokers = [item for item in found.manifests if item["kind"] == "Broker"]
    assert [broker["spec"]["routerRef"]["name"] for broker in brokers] == ["a", "c"]


def test_a_connector_that_may_lead_to_several_routers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [conf(tmp_path, interior(name, 7000), f"{name}.conf") for name in "AB"]
    found = run(capsys, conf(tmp_path, interior("C", 7000, "192.0.2.1"), "C.conf"), *files)
    assert {spec["size"] for spec in found.specs("Router").values()} == {3}
    assert any("connector: host: 192.0.2.1 is taken as one of A, B, which listen on its port" in n for n in found.notes)


def test_a_policy_of_one_router_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Router has one policy, and VhostPolicies for all its routers."""
    a = conf(tmp_path, interior("A", 7000) + POLICY + VHOST, "a.conf")
    b = conf(tmp_path, interior("B", 7000, "a.example"), "b.conf")
    found = run(capsys, a, b, code=3)
    lost = [note.rpartition("/")[2] for note in found.notes if note.startswith("lost: ")]
    assert lost == [
        "b.conf:1: router: policy: differs from that of the first router, which is used",
        "a.conf:15: vhost: hostname: shop: not all routers had this vhost; now they all admit its users",
    ]
    conf(tmp_path, interior("B", 7000, "a.example") + POLICY + VHOST, "b.conf")
    assert set(run(capsys, a, b).specs("VhostPolicy")) == {"shop"}
    other = VHOST.replace("maxSenders: 3", "maxSenders: 4")
    conf(tmp_path, interior("B", 7000, "a.example") + POLICY + other, "b.conf")
    found = run(capsys, a, b, code=3)
    assert any("vhost: hostname: shop has another policy in another file, which is used" in n for n in found.notes)


def test_listeners_of_several_routers_at_one_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listener = "listener {\n port: 5672\nMORE}\n"
    a = conf(tmp_path, interior("A", 7000) + listener.replace("MORE", " saslMechanisms: ANONYMOUS\n"), "a.conf")
    text = interior("B", 7000, "a.example")
    found = run(capsys, a, conf(tmp_path, text + listener.replace("MORE", " linkCapacity: 9\n"), "b.conf"))
    assert any("port: the listener amqp has the same port and is used; linkCapacity differ" in n for n in found.notes)
    for more, lost in (
        (" policyVhost: v\n", "port: the listener amqp has the same port and is used; policyVhost differ"),
        (" authenticatePeer: yes\n", "port: the listener amqp has the same port and is used; auth, users differ"),
        (" authenticatePeer: maybe\n", "authenticatePeer: must be"),
    ):
        found = run(capsys, a, conf(tmp_path, text + listener.replace("MORE", more), "b.conf"), code=3)
        assert any(note.startswith("lost: ") and lost in note for note in found.notes), found.notes


def test_connectors_to_other_routers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = "sslProfile {\n name: P\n caCertFile: /ca\n certFile: /c\n privateKeyFile: /k\n}\n"
    extra = " name: far\n sslProfile: P\n verifyHostname: no\n cost: 4\n failoverUrls: amqps://b:7001\n"
    text = interior("A", 7000) + "connector {\n role: inter-router\n host: far.example\n port: 7001\n" + extra + "}\n"
    found = run(capsys, conf(tmp_path, text + profile))
    assert found.specs("RouterLink") == {
        "far": {
            "endpoints": [{"host": "far.example", "port": 7001}, {"host": "b", "port": 7001}],
            "cost": 4,
            "tls": {"secretRef": {"name": "p-router"}},
            "verifyHostname": False,
        }
    }
    assert any("create the Secret p-router with ca.crt, tls.crt and tls.key: the files /ca, /c, /k" in n
               for n in found.notes)  # fmt: skip


def test_connectors_and_exposure_of_an_interconnect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = INTERCONNECT + """spec:
  deploymentPlan: {size: 2, image: "", livenessPort: 8888}
  users: staff
  listeners:
  - {port: 5672, expose: true}
  - {port: 5671, expose: true, sslProfile: p, authenticatePeer: true, saslMechanisms: EXTERNAL}
  sslProfiles: [{name: p, caCert: trusted, credentials: own}]
  interRouterConnectors: [{host: far.example, port: 55672, verifyHostname: false, sslProfile: p}]
"""
    found = run(capsys, conf(tmp_path, text, "i.yaml"))
    (router,) = found.specs("Router").values()
    assert [item["expose"] for item in router["listeners"]] == [
        {"type": "LoadBalancer", "allowUnprotected": True},
        {"type": "LoadBalancer"},
    ]
    assert router["listeners"][1]["clientAuthorities"] == {"secretRef": {"name": "trusted"}}
    assert found.specs("RouterLink") == {
        "far-example": {
            "endpoints": [{"host": "far.example", "port": 55672}],
            "tls": {"secretRef": {"name": "p-router"}},
            "verifyHostname": False,
        }
    }
    assert any("create the Secret p-router with" in n and "from the Secrets trusted, own" in n for n in found.notes)
    assert any("deploymentPlan.livenessPort: has no counterpart" in note for note in found.notes)
    assert any("spec.users: has no counterpart; copy its users to the Secret x-users" in note for note in found.notes)


def test_output_of_helm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = "---\n# Source: x\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {qdrouterd.conf: x}\n"
    others += "---\nkind: Service\nmetadata: {name: s}\n---\n- 1\n"
    wanted = INTERCONNECT + "---\n" + INTERCONNECT.replace("name: x", "name: y")
    file = conf(tmp_path, others + "---\n" + wanted, "h.yaml")
    found = run(capsys, file)
    assert set(found.specs("Router")) == {"x", "y"}
    assert [note.removeprefix(f"{file}:") for note in found.notes] == [
        "3: ConfigMap/c: is not an Interconnect; not translated; if qdrouterd.conf configures a router, write it to a "
        "file and translate that",
        "8: Service/s: is not an Interconnect; not translated",
        "11: document/?: is not an Interconnect; not translated",
    ]


def test_compressed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"a.conf.gz": ROUTER, "a.json.gz": '[["router", {"id": "A"}]]', "a.yaml.gz": INTERCONNECT}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert len(run(capsys, tmp_path / name).specs("Router")) == 1
    (tmp_path / "b.conf.gz").write_bytes(b"router {}")
    assert run_command(["import", str(tmp_path / "b.conf.gz")]) == 1
    assert "b.conf.gz: is not a gzip file" in capsys.readouterr().err


def test_errors_of_the_result_name_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ROUTER + "listener {\n port: 5673\n}\n"
    text += "autoLink {\n addr: a\n dir: in\n containerId: c\n phase: 12\n}\n"
    text += "listener {\n port: 5674\n openCapabilities: x\n connectionRate: often\n}\n"
    file = conf(tmp_path, text)
    assert run_command(["import", str(file), "--accept-loss"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    errors = [line for line in err.splitlines() if "cannot be translated" in line]
    for line, what in ((11, "AutoLink/a-in spec.phase"), (17, "Router/a spec.listeners[2]")):
        assert any(f"{file}:{line}: cannot be translated: " in error and what in error for error in errors), errors


BROKER = "connector {\n name: b\n role: route-container\n host: h\n saslUsername: u\n saslPassword: pass:secret\n}\n"


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_passwords(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out, folder = conf(tmp_path, ROUTER + BROKER), tmp_path / "mesh.yaml", tmp_path / "secrets"
    found = run(capsys, file)
    assert found.notes[-1].startswith("the manifests have passwords in clear (Secret b-login); --secrets-dir")
    out.write_text("", encoding="utf-8")
    run(capsys, file, options=("--out", str(out)))
    assert ("secret" in out.read_text(encoding="utf-8"), mode_of(out)) == (True, 0o600)
    found = run(capsys, file, options=("--secrets-dir", str(folder)))
    assert ("pass" in found.text, [item["kind"] for item in found.manifests]) == (False, ["Router", "Broker"])
    (made,) = folder.iterdir()
    assert (made.name, mode_of(made), mode_of(folder)) == ("b-login.yaml", 0o600, 0o700)
    assert yaml.safe_load(made.read_text(encoding="utf-8"))["stringData"] == {"username": "u", "password": "secret"}
