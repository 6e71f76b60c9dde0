"""Status: the conditions of each kind, their fit to the CRD, and no updates without changes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.places.local.status import Event, ResourceStates
from waymesh_operator.planning.actions import DeleteObject
from waymesh_operator.planning.plan import Drift, ObservedState
from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.planning.status.dependents import address_status, autolink_status, broker_status, linkroute_status
from waymesh_operator.resources.crds import findings, load_crds
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, LinkRoute, Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import S3, Ref, Router, Telemetry
from waymesh_operator.router_entities.names import LINKROUTE, Entity
from waymesh_operator.routers.observed import ObservedMesh, ObservedRouter, RouterFacts, RouterState
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
MESH = Ref("ns", "mesh")
TLS = next_tls(TlsRequest("mesh", "ns"), {}, {}, NOW)
CONTEXT = ClusterContext(OperatorSettings("registry/router:1"), tls=TLS)
ROUTER = Router(MESH, size=3, uid="u-1", generation=4)
BROKER = Broker(Ref("ns", "b"), MESH, (("broker", 5672),), generation=1)
LINK = AutoLink(Ref("ns", "l"), MESH, "q", "in", broker=BROKER.ref)
ROUTE = LinkRoute(Ref("ns", "r"), MESH, "both", prefix="p", container_id="c")
ADDRESS = Address(Ref("ns", "a"), MESH, prefix="p")
ALL = Resources(ROUTER, (ADDRESS,), (BROKER,), (LINK,), (ROUTE,))
GOOD = {"connectionStatus": "SUCCESS", "operStatus": "active", "linkCount": 2}


def written() -> dict[tuple[str, str], dict[str, Any]]:
    """The Secrets of the mesh as the API server has them."""
    found = TLS.secrets("mesh").items()
    return {("Secret", n): {"data": {k: base64.b64encode(v).decode() for k, v in data.items()}} for n, data in found}


def seen(resources: Resources = ALL, context: ClusterContext = CONTEXT, **fields: Any) -> MeshSnapshot:
    """A mesh in which all is as it should be; `live` changes what the entities say, by router and entity name."""
    desired = desired_cluster(resources, context)
    told: Mapping[tuple[str, str], dict[str, Any] | None] = fields.pop("live", {})
    states: Mapping[str, RouterState] = fields.pop("states", {})
    observed = {}
    for router in desired.mesh.routers:
        entities = []
        for entity in router.entities:
            change = told.get((router.id, entity.name), GOOD)
            if change is not None:
                entities.append(Entity(entity.type, entity.name, {**entity.attributes, **change}))
        others = frozenset(other.id for other in desired.mesh.routers) - {router.id}
        facts = RouterFacts(others, tuple(sorted(others)), 0, ready=True, certificate_not_after=LATER)
        state = states.get(router.id, RouterState.RUNNING)
        observed[router.id] = ObservedRouter(router.id, router.ordinal, state, entities=tuple(entities), facts=facts)
    for name, change in fields.pop("facts", {}).items():
        observed[name] = replace(observed[name], facts=replace(observed[name].facts, **change))
    cluster = ObservedState(written() | fields.pop("objects", {}), ObservedMesh(observed), fields.pop("draining", {}))
    return MeshSnapshot(desired, cluster, **{"now": NOW, "tls": context.tls, **fields})


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """(status, reason, message) by type."""
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


def fits(kind: str, status: Mapping[str, Any]) -> bool:
    """Whether the CRD takes the status as it is."""
    schema = load_crds()[kind].schema["properties"]["status"]
    assert list(findings(schema, status)) == []
    return True


def all_statuses(mesh: MeshSnapshot | None) -> dict[str, dict[str, Any]]:
    """The status of each kind but Router."""
    return {
        "Address": address_status(ADDRESS, mesh, {}, NOW),
        "AutoLink": autolink_status(LINK, mesh, {}, NOW),
        "LinkRoute": linkroute_status(ROUTE, mesh, {}, NOW),
        "Broker": broker_status(BROKER, mesh, {}, NOW),
    }


def test_when_all_is_well_everything_says_so() -> None:
    mesh = seen(consumers={ADDRESS.ref: 7})
    statuses = {"Router": router_status(ROUTER, mesh, {}), **all_statuses(mesh)}
    for kind, status in statuses.items():
        assert fits(kind, status)
        for name, (value, reason, message) in conditions(status).items():
            bad = "Stalled RestartPending Draining Paused CertificateExpiring Unprotected MemoryFull"
            good = "False" if name in bad.split() else "True"
            assert value == good, (kind, name, reason)
            assert message, (kind, name, reason)
    assert statuses["Address"]["consumers"] == 7
    assert (statuses["AutoLink"]["active"], statuses["AutoLink"]["state"]) == ("3/3", "active")
    assert (statuses["LinkRoute"]["match"], statuses["LinkRoute"]["links"]) == ("p", 2 * 2 * 3)
    assert statuses["Broker"]["connected"] == "3/3"
    assert statuses["Broker"]["observedGeneration"] == 1
    router = statuses["Router"]
    assert (router["size"], router["ready"], router["observedGeneration"]) == (3, 3, 4)
    assert router["selector"] == "app.kubernetes.io/name=waymesh-router,waymesh.io/router=mesh"
    assert router["drift"] == {"state": "None", "current": 0, "repaired": 0, "unmanaged": 0}
    assert router["routers"][1] == {
        "id": "mesh-1", "state": "Running", "neighbors": ["mesh-0", "mesh-2"], "unsettled": 0,
        "certificateNotAfter": "2026-01-01T01:00:00Z",
    }  # fmt: skip
    assert router["tls"] == {
        "phase": "Stable", "authority": 1, "authorityNotAfter": "2035-12-30T00:00:00Z",
        "certificateNotAfter": "2026-04-01T00:00:00Z",
    }  # fmt: skip


def test_edge_routers_without_a_group_are_told() -> None:
    """Only a Router at which edge routers may connect has the condition."""
    assert "EdgesWithoutGroup" not in conditions(router_status(ROUTER, seen(), {}))
    resources = replace(ALL, router=replace(ROUTER, listeners=(Listener("edges", 5671, role="edge"),)))
    router = resources.router
    calm = router_status(router, seen(resources), {})
    assert conditions(calm)["EdgesWithoutGroup"][:2] == ("False", "NoneConnected")
    facts = {"mesh-0": {"edges_without_group": 2}, "mesh-2": {"edges_without_group": 1}}
    status = router_status(router, seen(resources, facts=facts), calm)
    value, reason, message = conditions(status)["EdgesWithoutGroup"]
    assert (value, reason) == ("True", "NoGroup")
    assert "at mesh-0 (2), mesh-2 (1)" in message
    assert conditions(status)["Ready"][0] == "True"
    assert fits("Router", status)


def test_local_mode_tells_that_edge_routers_have_no_group_and_that_they_are_gone() -> None:
    resources = replace(ALL, router=replace(ROUTER, listeners=(Listener("edges", 5671, role="edge"),)))
    told: list[Event] = []
    states = ResourceStates(told.append)
    for count in (0, 2, 3, 0, 0):
        now = seen(resources, facts={"mesh-0": {"edges_without_group": count}})
        states.update(resources, now, 0.0)
    found = [(event.level, event.text) for event in told if "EdgesWithoutGroup" in event.text]
    assert [level for level, _ in found] == ["warn", "good"]
    assert found[0][1].startswith(f"Router/{ROUTER.ref}: EdgesWithoutGroup: edge routers that no user group")
    assert "at mesh-0 (2)" in found[0][1]


def test_printer_columns_find_what_they_show() -> None:
    mesh = seen()
    statuses = {"Router": router_status(ROUTER, mesh, {}), **all_statuses(mesh)}
    shown = {
        "Router": ["drift", "phase", "readyRouters"],
        "AutoLink": ["active", "state", "lastError"],
        "LinkRoute": ["match", "active", "links"],
    }
    for kind, names in (shown | {"Broker": ["connected"], "Address": ["match", "consumers"]}).items():
        for name in names:
            assert name in statuses[kind], (kind, name)


def test_a_link_without_its_broker_says_why() -> None:
    away = {"connectionStatus": "FAILED", "connectionMsg": "Connection refused"}
    idle = {"operStatus": "inactive", "lastError": None}
    mesh = seen(live={("mesh-1", "k8s/ns/Broker/b"): away, ("mesh-1", "k8s/ns/AutoLink/l"): idle})
    link, broker = autolink_status(LINK, mesh, {}, NOW), broker_status(BROKER, mesh, {}, NOW)
    assert fits("AutoLink", link)
    assert fits("Broker", broker)
    said = "mesh-1: the broker is not connected: Connection refused"
    assert (link["active"], link["state"], link["lastError"]) == ("2/3", "inactive", said)
    assert conditions(link)["Ready"] == ("False", "NotActive", said)
    assert conditions(link)["Programmed"][0] == "True"
    assert (broker["connected"], broker["state"], broker["lastError"]) == (
        "2/3", "failed", "mesh-1: Connection refused",
    )  # fmt: skip


def test_a_link_beside_its_quiescing_predecessor_is_what_counts() -> None:
    mesh = seen()
    name = "k8s/ns/AutoLink/l"
    for router_id, router in mesh.observed.mesh.routers.items():
        former = Entity("router.config.autoLink", f"{name}~1", {"operStatus": "quiescing", "quiescing": True})
        changed = replace(router, entities=(former, *router.entities, replace(former, name=f"{name}~2")))
        mesh.observed.mesh.routers[router_id] = changed  # type: ignore[index]
    assert autolink_status(LINK, mesh, {}, NOW)["active"] == "3/3"


def test_while_nothing_happens_nothing_changes_and_a_change_has_its_time() -> None:
    first = router_status(ROUTER, seen(), {})
    assert router_status(ROUTER, seen(now=LATER), first) == first
    turned = router_status(ROUTER, seen(now=LATER, states={"mesh-2": RouterState.STARTING}), first)
    times = {c["type"]: c["lastTransitionTime"] for c in turned["conditions"]}
    assert (times["Converged"], times["Accepted"]) == ("2026-01-01T01:00:00Z", "2026-01-01T00:00:00Z")
    link = autolink_status(LINK, seen(), {}, NOW)
    assert autolink_status(LINK, seen(now=LATER), link, LATER) == link


def test_without_a_router_everything_says_that() -> None:
    for kind, status in all_statuses(None).items():
        assert fits(kind, status)
        found = conditions(status)
        assert found["ResolvedRefs"] == ("False", "RouterMissing", "there is no Router mesh"), kind
        assert found["Ready"][0] == "False"


def test_a_router_s_own_words_on_an_autolink_come_back() -> None:
    name = "k8s/ns/AutoLink/l"
    live = {
        ("mesh-1", name): {"operStatus": "failed", "lastError": "not-found: no queue q"},
        ("mesh-2", name): {"operStatus": "attaching"},
    }
    status = autolink_status(LINK, seen(live=live), {}, NOW)
    assert fits("AutoLink", status)
    assert (status["active"], status["state"], status["lastError"]) == (
        "1/3",
        "failed",
        "mesh-1: not-found: no queue q",
    )
    assert status["routers"][1] == {"id": "mesh-1", "operStatus": "failed", "lastError": "not-found: no queue q"}
    found = conditions(status)
    assert found["Programmed"][0] == "True"
    assert found["Ready"] == ("False", "NotActive", "mesh-1: not-found: no queue q")


def test_what_a_router_refuses_lacks_or_cannot_say_is_not_programmed() -> None:
    name = "k8s/ns/AutoLink/l"
    refused = {("mesh-0", ("router.config.autoLink", name)): "501 this router has no entities of this type yet"}
    missing: dict[tuple[str, str], Any] = {("mesh-0", name): None}
    status = autolink_status(LINK, seen(refused=refused, live=missing), {}, NOW)
    assert (status["state"], status["active"]) == ("refused", "2/3")
    assert conditions(status)["Programmed"][:2] == ("False", "Refused")
    assert conditions(autolink_status(LINK, seen(live=missing), {}, NOW))["Programmed"][1] == "Pending"
    lost = seen(states={"mesh-1": RouterState.STARTING})
    assert conditions(autolink_status(LINK, lost, {}, NOW))["Programmed"][1] == "RouterLost"
    router = conditions(router_status(ROUTER, seen(refused=refused), {}))
    assert router["Programmed"][1] == "ResourcesRefused"
    assert "mesh-0: k8s/ns/AutoLink/l: 501" in router["Programmed"][2]
    assert router["Ready"][0] == "True", "one autolink does not make a mesh useless"
    own = {("mesh-0", ("listener", "k8s/ns/Router/mesh/listener/a")): "Permission denied"}
    router = conditions(router_status(ROUTER, seen(refused=own | refused), {}))
    assert router["Programmed"][1] == router["Ready"][1] == "Refused"
    assert router["Ready"][2] == "mesh-0: k8s/ns/Router/mesh/listener/a: Permission denied"


def test_a_link_route_is_as_good_as_the_worse_of_its_directions() -> None:
    live = {("mesh-0", "k8s/ns/LinkRoute/r/out"): {"operStatus": "inactive"}}
    status = linkroute_status(ROUTE, seen(live=live), {}, NOW)
    assert (status["active"], status["routers"][0]["operStatus"]) == ("2/3", "inactive")


def test_a_broker_on_one_router_counts_that_one_only() -> None:
    broker = replace(BROKER, placement="List", ordinals=(1,))
    live = {("mesh-1", "k8s/ns/Broker/b"): {"connectionStatus": "FAILED", "connectionMsg": "broker:5672: refused"}}
    status = broker_status(broker, seen(Resources(ROUTER, brokers=(broker,)), live=live), {}, NOW)
    assert status["connected"] == "0/1"
    assert status["routers"] == [{"id": "mesh-1", "operStatus": "failed", "lastError": "broker:5672: refused"}]
    assert conditions(status)["Ready"] == ("False", "NotConnected", "mesh-1: broker:5672: refused")


def test_a_link_route_is_everywhere_and_counts_where_its_broker_is() -> None:
    broker = replace(BROKER, placement="List", ordinals=(1,))
    route = replace(ROUTE, container_id=None, broker=BROKER.ref)
    away = {"operStatus": "inactive"}
    live: dict[tuple[str, str], Any] = {
        (router, f"k8s/ns/LinkRoute/r/{way}"): away for router in ("mesh-0", "mesh-2") for way in ("in", "out")
    }
    mesh = seen(Resources(ROUTER, brokers=(broker,), linkroutes=(route,)), live=live)
    routes = {router.id: [e for e in router.entities if e.type == LINKROUTE] for router in mesh.desired.mesh.routers}
    assert [len(found) for found in routes.values()] == [2, 2, 2]
    status = linkroute_status(route, mesh, {}, NOW)
    assert (status["active"], [row["id"] for row in status["routers"]]) == ("1/1", ["mesh-1"])
    assert conditions(status)["Ready"][0] == "True"


def test_a_missing_secret_and_a_conflict_are_told_where_they_are() -> None:
    broker = replace(BROKER, mechanism="PLAIN", secret="s")
    younger = replace(ROUTE, ref=Ref("ns", "z"), direction="in", created="2026", prefix=f"{ROUTE.prefix}.")
    mesh = seen(replace(ALL, brokers=(broker,), linkroutes=(ROUTE, younger)))
    status = broker_status(broker, mesh, {}, NOW)
    assert conditions(status)["ResolvedRefs"] == ("False", "SecretMissing", "Secret s does not exist")
    assert conditions(status)["Accepted"][0] == "True"
    assert conditions(autolink_status(LINK, mesh, {}, NOW))["ResolvedRefs"][1] == "BrokerUnusable"
    found = conditions(linkroute_status(younger, mesh, {}, NOW))
    assert found["Accepted"][:2] == ("False", "Conflicted")
    assert found["Ready"][1] == "Conflicted"
    assert conditions(linkroute_status(ROUTE, mesh, {}, NOW))["Ready"][0] == "True"


def test_a_mesh_of_no_routers() -> None:
    empty = replace(ROUTER, size=0)
    mesh = seen(replace(ALL, router=empty))
    status = router_status(empty, mesh, {})
    assert fits("Router", status)
    assert conditions(status)["Ready"][:2] == ("True", "ScaledToZero")
    assert conditions(autolink_status(LINK, mesh, {}, NOW))["Ready"][:2] == ("False", "NoRouters")


@pytest.mark.parametrize(
    ("fields", "condition", "expected"),
    [
        ({"states": {"mesh-1": RouterState.EXITED}}, "Converged", ("False", "RoutersMissing", "waiting for mesh-1")),
        ({"facts": {"mesh-1": {"known": frozenset()}}}, "Converged",
         ("False", "PathsMissing", "no path to all other routers from mesh-1")),
        ({"facts": {"mesh-2": {"neighbours": ("mesh-0",)}}}, "Converged",
         ("False", "PathsMissing", "no path to all other routers from mesh-2")),
        ({"facts": {"mesh-2": {"ready": False}}}, "Ready", ("False", "RoutersNotReady", "waiting for mesh-2")),
        ({"draining": {"mesh-2": "draining"}, "facts": {"mesh-2": {"unsettled": 9}}}, "Draining",
         ("True", "Draining", "mesh-2 (9 unsettled)")),
        ({"errors": ("Service mesh: 403",)}, "Programmed", ("False", "Failed", "Service mesh: 403")),
        ({"pending": (DeleteObject("Service", "x"),)}, "Programmed",
         ("False", "Pending", "1 steps, next: delete Service x")),
        ({"drift": Drift(2, 1)}, "Programmed",
         ("False", "Drift", "2 entities were changed by hand; drift is Report: not repaired")),
        ({"objects": {("StatefulSet", "mesh"): {"status": {"currentRevision": "a", "updateRevision": "b", "replicas": 3,
                                                           "updatedReplicas": 1}}}},
         "RestartPending", ("True", "Rolling", "1 of 3 are updated")),
    ],
)  # fmt: skip
def test_what_a_router_says_when_something_is_not_as_it_should_be(
    fields: dict[str, Any], condition: str, expected: tuple[str, str, str]
) -> None:
    status = router_status(ROUTER, seen(**fields), {})
    assert fits("Router", status)
    assert conditions(status)[condition] == expected
    lesser = condition in ("Draining", "RestartPending") or expected[1] in ("Pending", "Drift")
    assert conditions(status)["Ready"][0] == str(lesser)


def test_stalled_and_paused() -> None:
    stalled = seen(context=replace(CONTEXT, tls=None))
    status = router_status(ROUTER, stalled, {})
    assert fits("Router", status)
    assert conditions(status)["Stalled"][0] == "True"
    assert conditions(status)["Accepted"][:2] == ("False", "Stalled")
    assert conditions(status)["Ready"][1] == "Stalled"
    assert conditions(autolink_status(LINK, stalled, {}, NOW))["Ready"][0] == "True", "the routers run"
    unborn = replace(stalled, observed=ObservedState())
    assert conditions(autolink_status(LINK, unborn, {}, NOW))["Ready"][1] == "RouterStalled"
    paused = replace(ROUTER, paused=True)
    assert conditions(router_status(paused, seen(replace(ALL, router=paused)), {}))["Paused"][0] == "True"


@pytest.mark.parametrize(
    ("telemetry", "there", "reason"),
    [
        (Telemetry("Claim", "files"), {"claims": {"files": None}}, "ClaimMissing"),
        (Telemetry("Claim", "files"), {"claims": {"files": ("ReadWriteOnce",)}}, "ClaimUnusable"),
        (Telemetry("S3", s3=S3("b", secret="keys")), {"secrets": {"keys": None}}, "SecretMissing"),
        (Telemetry("S3", s3=S3("b", secret="keys")), {"secrets": {"keys": {}}}, "SecretIncomplete"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_export_that_lacks_something_says_so_and_the_mesh_works(
    telemetry: Telemetry, there: dict[str, Any], reason: str
) -> None:
    exporting = replace(ROUTER, telemetry=telemetry)
    mesh = seen(replace(ALL, router=exporting), replace(CONTEXT, **there))
    found = conditions(router_status(exporting, mesh, {}))
    assert found["ResolvedRefs"][:2] == ("False", reason)
    assert "the export is not changed" in found["ResolvedRefs"][2]
    assert (found["Converged"][0], found["Programmed"][0]) == ("True", "True")


def test_a_new_default_image_waits_for_a_person() -> None:
    newer = replace(CONTEXT, settings=OperatorSettings("registry/router:2"), image_now="registry/router:1")
    found = conditions(router_status(ROUTER, seen(context=newer), {}))
    assert found["RestartPending"][:2] == ("True", "NewDefaultImage")
    assert found["Ready"][0] == "True"


def test_drift_that_was_repaired() -> None:
    assert router_status(ROUTER, seen(repaired=3), {})["drift"]["state"] == "Repaired"
    assert router_status(ROUTER, seen(repaired=3, drift=Drift(1)), {})["drift"]["state"] == "Present"
