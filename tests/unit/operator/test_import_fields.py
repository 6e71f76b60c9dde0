"""`waymesh import`: settings of TLS, tokens and vhosts that are fields of resources; what routers get from these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operator.kit import resource
from tests.unit.operator.test_import_old import ROUTER, conf, run
from tests.unit.operator.test_incoming_brokers import ENDPOINTS, MESH
from tests.unit.operator.test_manifest_refusals import refused
from waymesh_operator.resources.dependents import parse_broker
from waymesh_operator.resources.listener import Listener
from waymesh_operator.router_entities.builders import broker_entities, listener_profile

pytestmark = pytest.mark.engine_independent

PROFILE = "sslProfile {\n name: P\n certFile: /c\n protocols: TLSv1.2\n ciphers: HIGH, !aNULL\n uidFormat: on1\n}\n"
TLS = {"tlsProtocols": ["TLSv1.2"], "tlsCiphers": "HIGH:!aNULL"}


def listeners(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> list[dict[str, Any]]:
    (router,) = run(capsys, conf(folder, "router {\n id: A\n}\n" + text)).specs("Router").values()
    return list(router["listeners"])


def test_versions_ciphers_and_users_of_a_listener(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROFILE + "listener {\n port: 5671\n sslProfile: P\n saslMechanisms: EXTERNAL\n}\n"
    (item,) = listeners(capsys, tmp_path, text)
    assert item == {"name": "amqps", "port": 5671, "tls": True, "auth": "mtls", "uidFormat": "on1", **TLS}
    (item,) = listeners(capsys, tmp_path, PROFILE + "listener {\n port: 5671\n sslProfile: P\n}\n")
    assert item == {"name": "amqps", "port": 5671, "tls": True, **TLS}, "no certificate makes a user"


def test_versions_and_ciphers_of_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROFILE + "connector {\n name: b\n host: h\n sslProfile: P\n policyVhost: v\n}\n"
    (broker,) = run(capsys, conf(tmp_path, ROUTER + text)).specs("Broker").values()
    assert broker["tls"] == {"protocols": ["TLSv1.2"], "ciphers": "HIGH:!aNULL"}
    assert broker["policyVhost"] == "v"


@pytest.mark.parametrize("role", ["normal", "route-container"])
def test_the_vhost_of_a_listener(role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (item,) = listeners(capsys, tmp_path, f"listener {{\n port: 5672\n role: {role}\n policyVhost: $default\n}}\n")
    assert item["policyVhost"] == "$default"


def test_vhosts_without_a_host_name_and_for_connectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'vhost {\n hostname:\n groups: {"$connector": {"sources": "a"}}\n}\n'
    (policy,) = run(capsys, conf(tmp_path, ROUTER + text)).specs("VhostPolicy").values()
    assert policy == {"hostname": "", "groups": [{"name": "$connector", "sources": ["a"]}]}


def test_token_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "tokenProfile {\n name: idp\n issuer: https://i\n audience: mesh\n keysFile: /keys\n algorithms: ES256 EdDSA\n"
        " clockSkewSeconds: 5\n}\nsslProfile {\n name: P\n certFile: /c\n}\nlistener {\n port: 5671\n sslProfile: P\n"
        " authenticatePeer: yes\n tokenProfile: idp\n saslMechanisms: OAUTHBEARER\n}\n"
    )
    found = run(capsys, conf(tmp_path, "router {\n id: A\n}\n" + text))
    (router,) = found.specs("Router").values()
    assert router["listeners"] == [
        {"name": "amqps", "port": 5671, "tls": True, "auth": "token", "tokenProfile": "idp"}
    ]
    assert router["tokenProfiles"] == [
        {
            "name": "idp",
            "issuer": "https://i",
            "audience": "mesh",
            "clockSkewSeconds": 5,
            "algorithms": ["ES256", "EdDSA"],
            "keysSecretRef": {"name": "idp-keys"},
        }
    ]
    assert any("create the Secret idp-keys with keys: the file /keys" in note for note in found.notes)


# ---- what routers get
def test_the_profile_of_a_listener_has_the_settings() -> None:
    settings = (("protocols", "TLSv1.3"), ("uidFormat", "n"))
    profile = listener_profile(MESH.ref, Listener("amqps", 5671, tls=True, auth="mtls", tls_settings=settings))
    assert profile is not None
    assert {name: profile.attributes.get(name) for name, _ in settings} == dict(settings)
    assert profile.attributes["certFile"], "that of the mesh"
    assert listener_profile(MESH.ref, Listener("amqps", 5671, tls=True)) is None


def test_the_connector_of_a_broker_has_the_settings() -> None:
    tls = {"protocols": ["TLSv1.3", "TLSv1.2"], "ciphers": "HIGH"}
    broker = parse_broker(resource("Broker", "b", endpoints=ENDPOINTS, policyVhost="v", tls=tls))
    profile, connector = broker_entities(broker)
    assert (profile.attributes["protocols"], profile.attributes["ciphers"]) == ("TLSv1.2 TLSv1.3", "HIGH")
    assert connector.attributes["policyVhost"] == "v"
    (plain,) = broker_entities(parse_broker(resource("Broker", "b", endpoints=ENDPOINTS)))
    assert plain.attributes["policyVhost"] is None


TLS_LISTENER = {"name": "a", "port": 5671, "tls": True}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"policyVhost": "v", "tenancy": {"mode": "ByHostname"}}, "policyVhost is not valid with tenancy"),
        ({"tls": False, "tlsCiphers": "HIGH"}, "require TLS; set tls: true"),
        ({"tlsProtocols": ["TLSv1.3"], "tlsCiphers": "HIGH"}, "tlsCiphers are those of TLSv1.2"),
        ({"tlsCiphers": "HIGH:TLS_AES_128_GCM_SHA256"}, "ciphers of TLSv1.3 cannot be chosen"),
        ({"uidFormat": "n"}, "uidFormat requires client certificates"),
        ({"auth": "mtls", "uidFormat": "non"}, "each letter and digit is allowed once"),
    ],
)
def test_what_cannot_act_is_refused(item: dict[str, Any], message: str) -> None:
    assert any(message in text for text in refused("Router", {"listeners": [{**TLS_LISTENER, **item}]}))
