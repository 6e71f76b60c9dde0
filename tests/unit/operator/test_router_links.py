"""RouterLinks: what is refused, the connectors that they become, and their status."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.operator.kit import CRDS, resource
from tests.unit.operator.test_operator_status import CONTEXT, NOW, ROUTER, conditions, fits, seen
from waymesh_operator.planning.status.conditions import timestamp
from waymesh_operator.planning.status.dependents import Row, _reported_state, router_link_status
from waymesh_operator.resources.crds import findings, rule_findings, with_defaults
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref
from waymesh_operator.resources.router_link import RouterLink, parse_router_link, token_endpoints
from waymesh_operator.router_entities.actions import UpdateEntity, plan_entities
from waymesh_operator.router_entities.builders import router_link_entities
from waymesh_operator.router_entities.names import CONNECTOR, LISTENER, SSL_PROFILE, Entity, of_link
from waymesh_operator.router_entities.placement import credential_files, place_entities
from waymesh_operator.router_entities.verdicts import Verdict, judge
from waymesh_operator.tls.certificates import issue, new_ca

pytestmark = pytest.mark.engine_independent

REF = Ref("ns", "north")
OPEN = RouterLink(REF, ROUTER.ref, endpoints=(("a.example", 5671), ("b.example", 5672)), cost=4)
WITH_TOKEN = RouterLink(REF, ROUTER.ref, token="north-token")
TOKEN = {
    "addresses": b"door.example:443\n[fd00::1]:5671\n", "mesh": b"north", "role": b"inter-router",
    "expires": b"2026-04-01T00:00:00+00:00", "ca.crt": b"CA", "tls.crt": b"CERT", "tls.key": b"KEY",
}  # fmt: skip
NAME = "k8s/ns/RouterLink/north"
HERE = {"routerRef": {"name": "mesh"}}
ENDPOINTS = [{"host": "a.example"}]


def wrong(**spec: Any) -> list[str]:
    made = resource("RouterLink", "north", **HERE, **spec)
    schema = CRDS["RouterLink"].schema
    made = with_defaults(schema, made)
    broken = [message for _, message in findings(schema["properties"]["spec"], made["spec"])]
    return broken or [message for _, message in rule_findings(schema, made)]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({}, "set exactly one of tokenSecretRef"),
        ({"tokenSecretRef": {"name": "t"}, "endpoints": ENDPOINTS}, "set exactly one of tokenSecretRef"),
        ({"tokenSecretRef": {"name": "t"}, "tls": {"secretRef": {"name": "s"}}}, "tls is only valid with endpoints"),
        ({"endpoints": ENDPOINTS, "role": "edge", "cost": 2}, "cost is only valid with role inter-router"),
        ({"endpoints": ENDPOINTS, "role": "normal"}, "must be one of inter-router, edge"),
        ({"endpoints": ENDPOINTS, "verifyHostname": False}, "verifyHostname is only valid with tls"),
        ({"endpoints": [{"host": "a,b"}]}, "a host name or an IP address"),
        ({"endpoints": [{"host": "u@b"}]}, "a host name or an IP address"),
        ({"endpoints": ENDPOINTS, "cost": 0}, "must be between 1 and 1000"),
        ({"endpoints": ENDPOINTS, "placement": {"routers": "List"}}, "ordinals is required with"),
    ],
)
def test_what_does_not_go_together_is_refused(spec: dict[str, Any], word: str) -> None:
    (message,) = wrong(**spec)
    assert word in message


def test_fields_and_defaults() -> None:
    assert wrong(endpoints=ENDPOINTS) == wrong(tokenSecretRef={"name": "t"}) == []
    made = with_defaults(CRDS["RouterLink"].schema, resource("RouterLink", "north", **HERE, endpoints=ENDPOINTS))
    found = parse_router_link(made)
    assert (found.role, found.endpoints, found.cost) == ("inter-router", (("a.example", 5671),), 1)
    assert (found.placement, found.secret, found.verify_hostname) == ("All", "", True)


BAD = ["host", ":1", "host:", "host:0", "host:65536", "host:x", "a,b:1", "u@b:1", "a b:1", "::1:1", "h:²"]


@pytest.mark.parametrize("line", BAD)
def test_a_line_of_a_token_must_be_an_address(line: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        token_endpoints(f"a:1\n\n{line}")


def test_without_tls_the_first_endpoint_is_the_connector_and_the_others_take_over() -> None:
    resources = Resources(ROUTER, router_links=(OPEN,))
    found = place_entities(resources, {}, judge(resources, {}))
    (connector,) = found.shared
    assert (connector.type, connector.name) == (CONNECTOR, NAME)
    assert connector.attributes == {
        "host": "a.example", "port": "5671", "role": "inter-router", "cost": 4, "saslMechanisms": "ANONYMOUS",
        "failoverUrls": "amqp://b.example:5672",
    }  # fmt: skip
    assert credential_files(resources, {}, judge(resources, {})) == {}


def test_a_token_has_addresses_certificate_and_authority() -> None:
    resources, secrets = Resources(ROUTER, router_links=(WITH_TOKEN,)), {"north-token": TOKEN}
    verdicts = judge(resources, secrets)
    profile, connector = place_entities(resources, secrets, verdicts).shared
    assert (profile.type, connector.attributes["sslProfile"]) == (SSL_PROFILE, profile.name)
    assert connector.attributes["saslMechanisms"] == "EXTERNAL"
    assert connector.attributes["verifyHostname"] is True
    assert connector.attributes["failoverUrls"] == "amqps://[fd00::1]:5671"
    assert connector.attributes["host"] == "door.example"
    files = credential_files(resources, secrets, verdicts)
    assert files == {"link.north.ca.crt": b"CA", "link.north.tls.crt": b"CERT", "link.north.tls.key": b"KEY"}
    assert {path.rpartition("/")[2] for path in profile.attributes.values()} == set(files)


def test_only_the_placed_routers_connect() -> None:
    one = replace(OPEN, placement="List", ordinals=(2,))
    resources = Resources(ROUTER, router_links=(one,))
    found = place_entities(resources, {}, judge(resources, {}))
    assert [len(found.only_on(ordinal)) for ordinal in range(3)] == [0, 0, 1]
    assert found.placements(ROUTER) == {NAME: ("mesh-2",)}


@pytest.mark.parametrize(
    ("link", "secret", "reason", "word"),
    [
        (WITH_TOKEN, None, "SecretMissing", "north-token does not exist"),
        (WITH_TOKEN, {"ca.crt": b"CA"}, "SecretIncomplete", "lacks addresses, expires, mesh, role, tls.crt, tls.key"),
        (WITH_TOKEN, {**TOKEN, "addresses": b"somewhere"}, "TokenUnusable", "'somewhere' is not host:port"),
        (WITH_TOKEN, {**TOKEN, "addresses": b"\n"}, "TokenUnusable", "has none"),
        (WITH_TOKEN, {**TOKEN, "addresses": b"\xff:1"}, "TokenUnusable", "addresses: not UTF-8"),
        (WITH_TOKEN, {**TOKEN, "expires": b"tomorrow"}, "TokenUnusable", "expires: not a time"),
        (WITH_TOKEN, {**TOKEN, "expires": b"2026-01-01"}, "TokenUnusable", "without its zone"),
        (WITH_TOKEN, {**TOKEN, "role": b"edge"}, "WrongToken", "is for role edge"),
        (WITH_TOKEN, {**TOKEN, "mesh": b"mesh"}, "SameMesh", "router ids would be equal"),
        (replace(WITH_TOKEN, role="edge"), TOKEN, "WrongRole", "must be inter-router"),
        (replace(WITH_TOKEN, placement="List", ordinals=(7,)), TOKEN, "NoSuchRouter", "the highest is 2"),
        (replace(WITH_TOKEN, token="", tls="north-token"), {"ca.crt": b"CA"}, "SecretIncomplete", "tls.crt, tls.key"),
    ],
)
def test_what_cannot_work_is_told_and_makes_no_connector(
    link: RouterLink, secret: dict[str, bytes] | None, reason: str, word: str
) -> None:
    resources, secrets = Resources(ROUTER, router_links=(link,)), {"north-token": secret}
    verdicts = judge(resources, secrets)
    verdict = verdicts["RouterLink", REF]
    assert (verdict.good, verdict.reason) == (False, reason)
    assert word in verdict.message
    assert place_entities(resources, secrets, verdicts).shared == ()


def judged(role: str, of_link: str) -> Verdict:
    resources = Resources(replace(ROUTER, role=role), router_links=(replace(OPEN, role=of_link, cost=1),))
    return judge(resources, {})["RouterLink", REF]


def test_the_role_is_that_of_the_routers() -> None:
    assert judged("edge", "edge").good
    assert judged("interior", "inter-router").good
    assert "must be edge" in judged("edge", "inter-router").message
    assert "connect to no other router" in judged("standalone", "inter-router").message


def test_of_two_with_one_place_the_older_is_used() -> None:
    for link in (OPEN, WITH_TOKEN):
        younger = replace(link, ref=Ref("ns", "a"), created="2026")
        resources = Resources(ROUTER, router_links=(younger, replace(link, created="2025")))
        verdicts = judge(resources, {"north-token": TOKEN})
        assert verdicts["RouterLink", REF].good
        lost = verdicts["RouterLink", younger.ref]
        assert (lost.reason, lost.good) == ("Conflicted", False)
        assert "is older and already has" in lost.message


def test_lists_of_different_routers_share_a_place() -> None:
    lists = [replace(OPEN, ref=Ref("ns", f"l{k}"), placement="List", ordinals=(k,)) for k in (0, 1, 1)]
    lists[2] = replace(lists[2], ref=Ref("ns", "l2"), created="2026")
    verdicts = judge(Resources(ROUTER, router_links=tuple(lists)), {})
    assert [verdicts["RouterLink", link.ref].good for link in lists] == [True, True, False]


def test_connectors_of_others_are_not_taken_for_links() -> None:
    for name in ("k8s/x", "k8s/", "k8s/a/b", "k8s", "x"):
        assert not of_link(Entity(CONNECTOR, name))


def test_an_address_that_is_removed_is_no_longer_used() -> None:
    def connector(link: RouterLink) -> Entity:
        return router_link_entities(link, link.endpoints)[0]

    one = replace(OPEN, endpoints=OPEN.endpoints[:1])
    steps = plan_entities("mesh-0", [connector(one)], [connector(OPEN)])
    assert [type(step).__name__ for step in steps] == ["DeleteEntity", "CreateEntity"]
    assert plan_entities("mesh-0", [connector(one)], [connector(one)]) == []


def test_a_change_of_cost_or_place_ends_the_connection_before_the_new_one_begins() -> None:
    def connector(**changes: Any) -> Entity:
        attributes = {"host": "a", "port": "5671", "role": "inter-router", "cost": 1, "saslMechanisms": "ANONYMOUS"}
        return Entity(CONNECTOR, NAME, attributes | changes)

    for changes in ({"cost": 2}, {"host": "b"}):
        steps = plan_entities("mesh-0", [connector(**changes)], [connector()])
        assert [type(step).__name__ for step in steps] == ["DeleteEntity", "CreateEntity"]
        assert {step.entity.name for step in steps} == {NAME}


def test_the_status_names_the_routers_at_the_other_end() -> None:
    resources = Resources(ROUTER, router_links=(OPEN,))
    on = {"connectionStatus": "SUCCESS", "connectionMsg": "connected, container_id=north-1"}
    false = Row("mesh-0", "active", peer="x container_id=north-0")
    live = Entity(CONNECTOR, NAME, {**on, "connectionMsg": f"container_id={false.peer}"})
    assert _reported_state("mesh-0", live) == false
    off = {"connectionStatus": "FAILED", "connectionMsg": "Connection refused"}
    mesh = seen(resources, live={("mesh-0", NAME): on, ("mesh-1", NAME): off, ("mesh-2", NAME): on})
    status = router_link_status(OPEN, mesh, {}, NOW)
    assert fits("RouterLink", status)
    assert (status["connected"], status["peer"], status["peers"]) == ("2/3", "north-1", ["north-1"])
    assert status["routers"][0] == {"id": "mesh-0", "operStatus": "active", "peer": "north-1", "since": timestamp(NOW)}
    assert status["remoteMesh"] == "north"
    later = NOW + timedelta(hours=1)
    kept = router_link_status(OPEN, mesh, status, later)["routers"]
    assert kept[0]["since"] == status["routers"][0]["since"]
    foreign = {**on, "connectionMsg": "connected, container_id=router-of-dispatch"}
    dispatch = router_link_status(OPEN, seen(resources, live={("mesh-0", NAME): foreign}), {}, NOW)
    assert dispatch["remoteMesh"] == "router-of-dispatch"
    moved = {"routers": [{"id": "mesh-0", "peer": "north-0", "since": "2026-01-01T00:00:00Z"}]}
    assert router_link_status(OPEN, mesh, moved, later)["routers"][0]["since"] == timestamp(later)
    assert (status["state"], status["lastError"]) == ("failed", "mesh-1: Connection refused")
    assert conditions(status)["Ready"][:2] == ("False", "NotConnected")
    same = {**on, "connectionMsg": "connected, container_id=mesh-7"}
    other = router_link_status(OPEN, seen(resources, live={("mesh-0", NAME): same}), {}, NOW)
    assert other["routers"][0]["operStatus"] == "failed"
    assert "give one of both meshes another name" in other["routers"][0]["lastError"]
    good = router_link_status(OPEN, seen(resources, live={(f"mesh-{k}", NAME): on for k in range(3)}), {}, NOW)
    assert conditions(good)["Ready"][0] == "True"
    assert conditions(router_link_status(OPEN, None, {}, NOW))["ResolvedRefs"][1] == "RouterMissing"


@pytest.mark.parametrize(("days_left", "expected"), [
    (30, ("False", "NotExpiring")), (10, ("True", "CertificateEndsSoon")), (0, ("True", "CertificateEnded")),
])  # fmt: skip
def test_the_status_says_when_the_certificate_ends(days_left: int, expected: tuple[str, str]) -> None:
    end = NOW + timedelta(days=days_left)
    ca = new_ca("links", NOW - timedelta(days=100))
    token = {**TOKEN, "tls.crt": issue(ca, "south.link", ["south.link"], end - timedelta(days=90)).certificate}
    resources, secrets = Resources(ROUTER, router_links=(WITH_TOKEN,)), {"north-token": token}
    mesh = seen(resources, replace(CONTEXT, secrets=secrets), secrets=secrets)
    status = router_link_status(WITH_TOKEN, mesh, {}, NOW)
    assert fits("RouterLink", status)
    assert status["certificateNotAfter"] == timestamp(end)
    status_, reason, message = conditions(status)["CertificateExpiring"]
    assert (status_, reason) == expected
    if days_left < 30:
        assert f"the certificate in Secret north-token {'ends' if days_left else 'ended'} at " in message
    unreadable = router_link_status(WITH_TOKEN, seen(resources, secrets={"north-token": TOKEN}), {}, NOW)
    without_tls = router_link_status(OPEN, seen(Resources(ROUTER, router_links=(OPEN,))), {}, NOW)
    for other in (unreadable, without_tls):
        assert "certificateNotAfter" not in other
        assert "CertificateExpiring" not in conditions(other)


def test_the_cluster_gets_the_files_of_a_token() -> None:
    resources = Resources(ROUTER, router_links=(WITH_TOKEN,))
    desired = seen(resources, replace(CONTEXT, secrets={"north-token": TOKEN})).desired
    (secret,) = (
        item for item in desired.objects if item["kind"] == "Secret" and "link.north.tls.key" in item.get("data", {})
    )
    assert secret["metadata"]["name"].startswith("mesh")


# ---- listeners for other routers
DOOR: dict[str, Any] = {
    "name": "door", "port": 5671, "role": "inter-router", "tls": True, "auth": "mtls",
    "clientAuthorities": {"secretRef": {"name": "links"}},
}  # fmt: skip
OTHER = {**DOOR, "name": "other", "port": 5670}


def refused(*listeners: dict[str, Any], role: str = "interior") -> list[str]:
    made = with_defaults(CRDS["Router"].schema, resource("Router", "mesh", role=role, listeners=list(listeners)))
    return [message for _, message in rule_findings(CRDS["Router"].schema, made)]


@pytest.mark.parametrize(
    ("listeners", "word"),
    [
        ([{**DOOR, "auth": "none"}], "becomes part of the network"),
        ([{name: value for name, value in DOOR.items() if name != "clientAuthorities"}], "becomes part of the network"),
        ([DOOR, {**OTHER, "role": "edge"}], "must not share clientAuthorities"),
        ([DOOR, {**OTHER, "role": "normal"}], "must not share clientAuthorities"),
        ([{**DOOR, "role": "normal", "peerNames": ["a.example"]}], "peerNames is only valid with role"),
        ([{**DOOR, "http": {}}], "routers connect over TCP"),
    ],
)
def test_only_routers_get_in_where_routers_connect(listeners: list[dict[str, Any]], word: str) -> None:
    assert any(word in message for message in refused(*listeners))


def test_listeners_for_routers_are_of_interior_routers() -> None:
    assert refused(DOOR, {**OTHER, "role": "edge", "clientAuthorities": {"secretRef": {"name": "edges"}}}) == []
    assert refused({**DOOR, "role": "normal"}, {**OTHER, "role": "normal"}) == []
    assert any("need spec.role: interior" in message for message in refused(DOOR, role="edge"))


@pytest.mark.parametrize(("role", "checked"), [("inter-router", True), ("edge", True), ("normal", None)])
def test_peers_are_checked_again_where_routers_of_other_meshes_connect(role: str, checked: bool | None) -> None:
    door = Listener("door", 5671, tls=True, auth="mtls", authorities="links", role=role, peer_names=("a.link",))
    desired = seen(Resources(replace(ROUTER, listeners=(door,))), replace(CONTEXT, secrets={"links": {}})).desired
    (first, *_) = desired.mesh.routers
    listeners = {one.name.rpartition("/")[2]: one for one in first.entities if one.type == LISTENER}
    assert listeners["door"].attributes["recheckPeers"] is checked
    assert {name for name, one in listeners.items() if one.attributes.get("recheckPeers")} <= {"door"}
    other = Entity(LISTENER, listeners["door"].name, {**listeners["door"].attributes, "peerNames": "b.link"})
    (step,) = plan_entities("mesh-0", [other], [listeners["door"]])
    assert isinstance(step, UpdateEntity), "a listener that is made again would be closed for a moment"


@pytest.mark.parametrize("secret", ["mesh-ca", "mesh-tls", "mesh-operator-tls"])
def test_a_listener_for_routers_that_trusts_the_mesh_itself_stays_closed(secret: str) -> None:
    door = Listener("door", 5671, tls=True, auth="mtls", authorities=secret, role="inter-router")
    for role, opens in (("inter-router", False), ("normal", True)):
        mesh = replace(ROUTER, listeners=(replace(door, role=role),))
        data = {"ca.crt": b"CA"}
        desired = seen(Resources(mesh), replace(CONTEXT, secrets={secret: data})).desired
        (first, *_) = desired.mesh.routers
        assert any(entity.name.endswith("listener/door") for entity in first.entities) is opens
        assert (desired.verdicts["Router", mesh.ref].reason == "OwnAuthority") is not opens
