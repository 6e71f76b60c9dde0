"""The objects of a Router: content, changes that restart pods or must not, and conditions of resources."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.operator.kit import CRDS, resource
from waymesh_amqp.users import make_line
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings, referenced_secrets, tls_request
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.actions import ApplyObject
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.manifests import Manifest, needs_apply
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.resources.crds import rule_findings
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, BrokerTls, LinkRoute, Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Pod, Ref, Router, RouterTls
from waymesh_operator.router_entities.credentials import KeptKeys, users_file
from waymesh_operator.tls.rollover import TlsRequest, next_tls
from waymesh_schema.config import parse_json

pytestmark = pytest.mark.engine_independent

MESH = Ref("ns", "mesh")
ROUTER = Router(MESH, size=3, listeners=(Listener("amqp", 5672),), uid="u-1")
TLS = next_tls(TlsRequest("mesh", "ns"), {}, {}, datetime(2026, 1, 1, tzinfo=UTC))
CONTEXT = ClusterContext(OperatorSettings("registry/router:1"), tls=TLS)
BROKER = Broker(Ref("ns", "b"), MESH, (("broker", 5672),))


def desire(router: Router = ROUTER, context: ClusterContext = CONTEXT, **others: Any) -> DesiredState:
    return desired_cluster(Resources(router, **others), context)


def objects(router: Router = ROUTER, context: ClusterContext = CONTEXT, **others: Any) -> dict[str, Manifest]:
    """Manifests by `kind name`."""
    desired = desire(router, context, **others)
    return {f"{o['kind']} {o['metadata']['name']}": o for o in desired.objects}


def template(router: Router = ROUTER, context: ClusterContext = CONTEXT, **others: Any) -> Any:
    return objects(router, context, **others)["StatefulSet mesh"]["spec"]["template"]


def data(manifest: Manifest) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in manifest["data"].items()}


def test_all_objects_are_labelled_owned_and_nothing_else_is_made() -> None:
    found = objects()
    assert list(found) == [
        "Secret mesh-ca", "Secret mesh-tls", "Secret mesh-operator-tls", "Secret mesh-credentials",
        "Service mesh-mesh", "Service mesh", "Service mesh-metrics", "PodDisruptionBudget mesh", "NetworkPolicy mesh",
        "ConfigMap mesh-seed", "StatefulSet mesh",
    ]  # fmt: skip
    for manifest in found.values():
        metadata = manifest["metadata"]
        assert metadata["namespace"] == "ns"
        assert metadata["labels"]["waymesh.io/router"] == "mesh"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "waymesh-operator"
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
            "Router", "u-1", True, False,
        )  # fmt: skip


def test_a_pod_has_no_more_rights_than_it_needs() -> None:
    spec = template()["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["command"] == [
        "waymesh-router", "-c", "/etc/waymesh/seed/shared.json.gz", "-c", "/etc/waymesh/seed/shared-2.json.gz",
        "-c", "/etc/waymesh/seed/shared-3.json.gz", "-c", "/etc/waymesh/seed/shared-4.json.gz",
        "-c", "/etc/waymesh/seed/$(POD_NAME).json",
    ]  # fmt: skip
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["waymesh-router", "--drain"]
    assert spec["terminationGracePeriodSeconds"] == 45
    writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/tmp", "/var/lib/waymesh/telemetry"}
    assert "subPath" not in json.dumps(spec), "a file mounted alone does not follow a change"


PODS: list[tuple[dict[str, Any], Callable[[Any], Any], Any]] = [
    (
        {"resources": {"limits": {"memory": "1Gi"}}},
        lambda s: s["containers"][0]["resources"]["limits"]["memory"],
        "1Gi",
    ),
    ({"tolerations": ({"key": "k"},)}, lambda s: s["tolerations"], [{"key": "k"}]),
    ({"affinity": {"nodeAffinity": {}}}, lambda s: s["affinity"], {"nodeAffinity": {}}),
    ({"node_selector": {"disk": "ssd"}}, lambda s: s["nodeSelector"], {"disk": "ssd"}),
    ({"priority_class": "high"}, lambda s: s["priorityClassName"], "high"),
    ({"service_account": "puller"}, lambda s: s["serviceAccountName"], "puller"),
    ({"platform_user": True}, lambda s: s["securityContext"].keys(), {"runAsNonRoot", "seccompProfile"}),
    ({"pull_secrets": ("a", "b")}, lambda s: s["imagePullSecrets"], [{"name": "a"}, {"name": "b"}]),
    ({"spread": ({"topologyKey": "t"},)}, lambda s: s["topologySpreadConstraints"], [{"topologyKey": "t"}]),
    ({"image": "mine:2"}, lambda s: s["containers"][0]["image"], "mine:2"),
    ({"image_pull_policy": "Never"}, lambda s: s["containers"][0]["imagePullPolicy"], "Never"),
]


@pytest.mark.parametrize(("fields", "read", "expected"), PODS, ids=[next(iter(row[0])) for row in PODS])
def test_every_pod_field_reaches_the_pods(fields: dict[str, Any], read: Any, expected: Any) -> None:
    assert read(template(replace(ROUTER, pod=Pod(**fields)))["spec"]) == expected


def test_labels_and_annotations_of_pods_come_beside_ours() -> None:
    pod = Pod(labels={"team": "a", "waymesh.io/router": "other"}, annotations={"note": "b"})
    metadata = template(replace(ROUTER, pod=pod))["metadata"]
    assert metadata["annotations"] == {"note": "b"}
    assert (metadata["labels"]["team"], metadata["labels"]["waymesh.io/router"]) == ("a", "mesh")


LIVE: list[dict[str, Any]] = [
    {"size": 7},
    {"topology": "Chordal"},
    {"listeners": (Listener("amqps", 5671, tls=True, auth="mtls"),)},
    {"listeners": ()},
    {"log_level": "debug"},
    {"drift": "Report"},
    {"tls": RouterTls(authority=2)},
]


@pytest.mark.parametrize("fields", LIVE, ids=[next(iter(row)) for row in LIVE])
def test_what_needs_no_restart_leaves_the_template_as_it_is(fields: dict[str, Any]) -> None:
    assert template(replace(ROUTER, **fields)) == template()


def test_resources_secrets_certificates_and_a_newer_operator_leave_the_template_as_it_is() -> None:
    broker = replace(BROKER, mechanism="PLAIN", secret="s", tls=BrokerTls())
    others: dict[str, Any] = {
        "addresses": (Address(Ref("ns", "a"), MESH, prefix="a"),),
        "brokers": (broker,),
        "autolinks": (AutoLink(Ref("ns", "l"), MESH, "q", "in", broker=broker.ref),),
    }
    renewed = next_tls(TlsRequest("mesh", "ns"), {}, {}, datetime(2027, 1, 1, tzinfo=UTC))
    secrets = {"s": {"username": b"u", "password": b"p"}}
    assert template(context=replace(CONTEXT, secrets=secrets, tls=renewed), **others) == template()
    newer = replace(CONTEXT, settings=OperatorSettings("registry/router:2"), image_now="registry/router:1")
    assert template(context=newer) == template()
    assert "registry/router:2" in desire(context=newer).restart_pending
    assert desire(replace(ROUTER, pod=Pod(image="x")), newer).restart_pending == ""


def seeds(config_map: Manifest, router_id: str) -> list[Any]:
    """All that a router boots with, read as the router reads it."""
    shared = gzip.decompress(base64.b64decode(config_map["binaryData"]["shared.json.gz"])).decode()
    rows = [*json.loads(shared), *json.loads(config_map["data"][f"{router_id}.json"])]
    return parse_json(json.dumps(rows), "seed.json")


def test_what_routers_boot_with_is_a_configuration_that_the_router_takes() -> None:
    found = objects(replace(ROUTER, size=2), addresses=(Address(Ref("ns", "a"), MESH, prefix="é"),))
    entries = seeds(found["ConfigMap mesh-seed"], "mesh-1")
    router = next(e.attributes for e in entries if e.type.name == "router")
    assert (router["id"], router["mode"], router["drainTimeoutSeconds"]) == ("mesh-1", "interior", 30)
    assert (router["saslConfigDir"], router["saslConfigName"]) == ("/etc/waymesh/credentials", "waymesh")
    ports = {e.attributes["port"]: e.attributes for e in entries if e.type.name == "listener"}
    assert set(ports) == {"5672", "55671", "55672", "55673", "9090"}
    for port in ("55671", "55672"):
        assert (ports[port]["saslMechanisms"], ports[port]["authenticatePeer"], ports[port]["requireSsl"]) == (
            "EXTERNAL", True, True,
        )  # fmt: skip
    assert (ports["55673"]["host"], ports["55673"]["sslProfile"], ports["9090"]["http"]) == ("127.0.0.1", None, True)
    (connector,) = (e.attributes for e in entries if e.type.name == "connector")
    assert connector["host"] == "mesh-0.mesh-mesh.ns.svc.cluster.local"
    assert (connector["verifyHostname"], connector["sslProfile"]) == (True, "mesh")


def test_a_standalone_router_has_no_door_for_others() -> None:
    entries = seeds(objects(replace(ROUTER, role="standalone"))["ConfigMap mesh-seed"], "mesh-2")
    assert not [e for e in entries if e.attributes.get("role") == "inter-router"]


def many(size: int, topology: str, placement: str) -> DesiredState:
    broker = replace(BROKER, placement=placement)
    names = [f"tenant-{i:04}" for i in range(1000)]
    return desire(
        replace(ROUTER, size=size, topology=topology),
        addresses=tuple(Address(Ref("ns", n), MESH, prefix=f"queue.{n}", waypoint=True) for n in names),
        brokers=(broker,),
        autolinks=tuple(AutoLink(Ref("ns", n), MESH, f"queue.{n}", "in", broker=broker.ref) for n in names),
    )


@pytest.mark.parametrize(("topology", "placement"), [("Full", "All"), ("Chordal", "All"), ("Auto", "One")])
def test_two_thousand_resources_on_sixty_four_routers_fit_one_config_map(topology: str, placement: str) -> None:
    desired = many(64, topology, placement)
    assert desired.obstacles.found == ()
    config_map = next(o for o in desired.objects if o["kind"] == "ConfigMap")
    assert len(json.dumps(config_map)) < 1 << 20


def test_a_configuration_that_is_too_large_is_said_and_not_handed_out() -> None:
    names = [f"a-{i:05}" for i in range(5000)]
    broker = replace(BROKER, placement="One")
    links = tuple(AutoLink(Ref("ns", n), MESH, n * 10, "in", broker=broker.ref) for n in names)
    desired = desire(brokers=(broker,), autolinks=links)
    assert "more than one ConfigMap can hold" in desired.obstacles.of("configuration")
    applied = {step.manifest["kind"] for step in plan(desired, ObservedState()) if isinstance(step, ApplyObject)}
    assert "Secret" in applied
    assert not applied & {"ConfigMap", "StatefulSet"}


def test_the_same_resources_give_the_same_octets_in_whatever_order_they_come() -> None:
    addresses = tuple(Address(Ref("ns", n), MESH, prefix=n) for n in "abc")
    brokers = (BROKER, replace(BROKER, ref=Ref("ns", "c")))
    first = objects(addresses=addresses, brokers=brokers)
    assert first == objects(addresses=addresses[::-1], brokers=brokers[::-1])


def test_users_and_passwords_of_brokers_are_files_in_one_secret() -> None:
    router = replace(ROUTER, listeners=(Listener("a", 1, auth="scram", users="users"),))
    stored = make_line("bob", "secret").removeprefix("bob:").encode()
    context = replace(
        CONTEXT,
        secrets={
            "users": {"bob": stored, "alice": b"secret\n", "eve": b"two\nlines"},
            "s": {"username": b"u", "password": b"p"},
            "ca": {"ca.crt": b"pem"},
        },
    )
    broker = replace(BROKER, mechanism="PLAIN", secret="s", tls=BrokerTls("ca"))
    resources = Resources(router, brokers=(broker,))
    assert referenced_secrets(resources) == {"users", "s", "ca"}
    desired = desired_cluster(resources, context)
    (secret,) = (o for o in desired.objects if o["metadata"]["name"] == "mesh-credentials")
    assert data(secret) == {
        **users_file(context.secrets["users"] or {}, KeptKeys(b"", context.entropy)),
        "broker.b.password": b"p",
        "broker.b.ca.crt": b"pem",
    }
    connector = next(e for e in desired.mesh.routers[0].shared if e.name == "k8s/ns/Broker/b")
    assert connector.attributes["saslPassword"] == "file:/etc/waymesh/credentials/broker.b.password"
    assert b'"p"' not in gzip.decompress(base64.b64decode(desired.objects[-2]["binaryData"]["shared.json.gz"])), (
        "no password in a ConfigMap"
    )
    verdict = desired.verdicts["Router", MESH]
    assert (verdict.reason, verdict.message) == (
        "SecretUnusable", "Secret users: these users cannot log in: eve (not a single line of text)",
    )  # fmt: skip


VERDICTS = [
    ({"mechanism": "PLAIN", "secret": "none"}, "SecretMissing", "Secret none does not exist"),
    ({"mechanism": "PLAIN", "secret": "half"}, "SecretIncomplete", "Secret half lacks password"),
    ({"mechanism": "EXTERNAL", "secret": "half"}, "SecretIncomplete", "Secret half lacks tls.crt, tls.key"),
    ({"tls": BrokerTls("half")}, "SecretIncomplete", "Secret half lacks ca.crt"),
    *(
        ({"mechanism": "PLAIN", "secret": bad}, "SecretUnusable",
         f"Secret {bad}: username is not a name of at most 255 printable characters")
        for bad in ("octets", "nul", "lines", "blank", "long")
    ),
    ({"placement": "List", "ordinals": (3, 9)}, "NoSuchRouter",
     "no router has one of the ordinals in placement: the highest is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "reason", "message"), VERDICTS, ids=[str(row[1:]) for row in VERDICTS])
def test_a_broker_that_cannot_be_had_says_why_and_so_does_what_needs_it(
    fields: dict[str, Any], reason: str, message: str
) -> None:
    users = {"octets": b"\xff", "nul": b"a\0b", "lines": b"a\nb", "blank": b"\n", "long": b"a" * 256}
    secrets = {"none": None, "half": {"username": b"u"}}
    secrets |= {name: {"username": user, "password": b"p"} for name, user in users.items()}
    link = AutoLink(Ref("ns", "l"), MESH, "q", "in", broker=BROKER.ref)
    desired = desire(context=replace(CONTEXT, secrets=secrets), brokers=(replace(BROKER, **fields),), autolinks=(link,))
    verdict = desired.verdicts["Broker", BROKER.ref]
    assert (verdict.reason, verdict.message, verdict.good) == (reason, message, False)
    needing = desired.verdicts["AutoLink", link.ref]
    assert (needing.reason, needing.message) == ("BrokerUnusable", f"Broker b: {message}")
    assert not [e for r in desired.mesh.routers for e in r.entities if "Broker" in e.name or "AutoLink" in e.name]
    assert desired.objects, "the rest goes on"


def test_a_broker_that_is_not_there() -> None:
    link = AutoLink(Ref("ns", "l"), MESH, "q", "in", broker=BROKER.ref)
    verdict = desire(autolinks=(link,)).verdicts["AutoLink", link.ref]
    assert (verdict.resolved_refs, verdict.reason) == (False, "BrokerMissing")


def test_of_two_that_want_the_same_the_oldest_has_it() -> None:
    def route(name: str, created: str, direction: str, **fields: Any) -> LinkRoute:
        return LinkRoute(Ref("ns", name), MESH, direction, created=created, **{"prefix": "p", **fields})

    routes = (
        route("young", "2026-02", "in", container_id="other"),
        route("old", "2026-01", "both", container_id="c"),
        route("third", "2026-03", "in", pattern="p", prefix=None, container_id="c"),
    )
    verdicts = desire(linkroutes=routes).verdicts
    assert [verdicts["LinkRoute", r.ref].conflicted for r in routes] == [True, False, False]
    assert verdicts["LinkRoute", routes[0].ref].message == "LinkRoute ns/old is older and already has prefix p both"
    later = desire(linkroutes=routes[:1]).verdicts
    assert later["LinkRoute", routes[0].ref].good, "the other takes over when the oldest goes"


def test_an_autolink_that_another_one_already_is() -> None:
    links = tuple(
        AutoLink(Ref("ns", name), MESH, "q", "in", container_id=container) for name, container in ("ac", "bc", "cd")
    )
    verdicts = desire(autolinks=links).verdicts
    assert [verdicts["AutoLink", link.ref].conflicted for link in links] == [False, True, False]


def test_cert_manager_issues_or_the_router_says_that_it_is_not_there() -> None:
    router = replace(ROUTER, tls=RouterTls("CertManager"))
    context = replace(CONTEXT, tls=None, cert_manager=True)
    assert tls_request(router, context.settings) is None
    found = objects(router, context)
    assert [name for name in found if name.split()[0] in ("Issuer", "Certificate")] == [
        "Issuer mesh-selfsigned", "Certificate mesh-ca", "Issuer mesh-ca", "Certificate mesh-tls",
        "Certificate mesh-operator-tls",
    ]  # fmt: skip
    assert "Secret mesh-tls" not in found
    assert "*.mesh-mesh.ns.svc" in found["Certificate mesh-tls"]["spec"]["dnsNames"]
    given = replace(router, tls=RouterTls("CertManager", issuer_ref=("corp", "ClusterIssuer", "cert-manager.io")))
    assert not [name for name in objects(given, context) if name.startswith("Issuer")]
    desired = desire(router, replace(context, cert_manager=False))
    assert "the cert-manager API is not installed" in desired.obstacles.of("certificates")
    assert desired.verdicts["Router", MESH].reason == "Stalled"


@pytest.mark.parametrize(
    ("wanted", "live", "expected"),
    [
        ({"a": 1}, None, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, True),
        ({"a": {}}, {}, False),
        ({"a": []}, {}, False),
        ({"a": False}, {}, True),
        ({"l": [{"name": "x", "v": 1}]}, {"l": [{"name": "y"}, {"name": "x", "v": 1, "w": 2}]}, False),
        ({"l": [{"name": "x"}]}, {"l": [{"name": "y"}]}, True),
        ({"l": ["a"]}, {"l": ["a", "b"]}, True),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b", "c": "d"}}, True),
        ({"labels": {"a": "b"}}, {"labels": {"a": "b", "c": "d"}}, False),
        ({"limits": {"cpu": 0.5, "memory": "1024Mi"}}, {"limits": {"cpu": "500m", "memory": "1Gi"}}, False),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "500m"}}, True),
        ({"requests": {"cpu": "much"}}, {"requests": {"cpu": "1"}}, True),
        ({"requests": {"cpu": "1"}}, {}, True),
    ],
)
def test_what_counts_as_a_difference(wanted: Any, live: Any, expected: bool) -> None:
    assert needs_apply(wanted, live) is expected


def test_a_listener_for_brokers_is_one_on_the_routers() -> None:
    listener = Listener("brokers", 5673, role="route-container")
    shared = desire(replace(ROUTER, listeners=(listener,))).mesh.routers[0].shared
    (found,) = (one for one in shared if one.name.endswith("listener/brokers"))
    assert found.attributes["role"] == "route-container"


@pytest.mark.parametrize(
    "field",
    [{"tenancy": {"mode": "ByHostname"}}, {"routeAddress": "a"}, {"openCapabilities": ["a"]}, {"maxLinks": 3}],
    ids=str,
)
def test_what_is_for_clients_is_refused_at_a_listener_for_brokers(field: dict[str, Any]) -> None:
    listener = {"name": "brokers", "port": 5673, "role": "route-container", **field}
    (finding,) = rule_findings(CRDS["Router"].schema, resource("Router", "mesh", listeners=[listener]))
    assert next(iter(field)) in finding[1]


def test_a_large_secret_of_a_broker_does_not_keep_that_of_the_routers_from_being_written() -> None:
    """The older ones keep their place. The API server refuses a Secret of more than 1 MiB."""
    secrets = {"ca": {"ca.crt": b"c" * 300_000}, "big": {"ca.crt": b"c" * 900_000}}
    names = {"d": "2026-01-01", "c": "2026-01-02", "b": "2026-01-03", "a": "2026-01-04"}
    brokers = [
        replace(BROKER, ref=Ref("ns", name), tls=BrokerTls("big" if name == "d" else "ca"), created=created)
        for name, created in names.items()
    ]
    desired = desire(context=replace(CONTEXT, secrets=secrets), brokers=tuple(brokers))
    reasons = {name: desired.verdicts["Broker", Ref("ns", name)].reason for name in names}
    assert reasons == {"d": "SecretTooLarge", "c": "Accepted", "b": "Accepted", "a": "SecretTooLarge"}
    written = next(o for o in desired.objects if o["metadata"]["name"] == "mesh-credentials")
    assert sorted(written["data"]) == ["broker.b.ca.crt", "broker.c.ca.crt"]
