"""`waymesh doctor`: what it reads of a cluster, and what it makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.operator.fake_kube import FakeKube
from waymesh_operator.cli.doctor import BAD, GOOD, UNKNOWN, WARNING, Facts, Finding, examine, look
from waymesh_operator.errors import KubeError

pytestmark = pytest.mark.engine_independent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CRDS = Path(__file__).parents[3] / "crds"


def pod(name: str, namespace: str = "waymesh-system", **more: Any) -> dict[str, Any]:
    spec = {"serviceAccountName": "waymesh", "containers": [{"args": more.pop("args", [])}]}
    status = {"conditions": [{"type": "Ready", "status": "True"}]} | more
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}


def lease(namespace: str = "waymesh-system", age_s: float = 3) -> dict[str, Any]:
    spec = {"holderIdentity": "waymesh-abc", "leaseDurationSeconds": 15}
    spec |= {"renewTime": (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    return {"kind": "Lease", "metadata": {"name": "waymesh-operator", "namespace": namespace}, "spec": spec}


def resource(kind: str, name: str, **conditions: tuple[str, str, str]) -> dict[str, Any]:
    rows = [{"type": kind_, "status": s, "reason": r, "message": m} for kind_, (s, r, m) in conditions.items()]
    metadata = {"name": name, "namespace": "shop"}
    return {"kind": kind, "metadata": metadata, "status": {"conditions": rows} if rows else {}}


READY = {"Ready": ("True", "Ready", "")}
HEALTHY = Facts(
    NOW, {"Router": frozenset(), "Address": frozenset()}, [lease()], [pod("waymesh-abc")], [pod("mesh-0", "shop")],
    [resource("Router", "mesh", **READY), resource("Address", "orders", **READY)],
)  # fmt: skip


def found(facts: Facts, state: str = BAD) -> list[Finding]:
    return [one for one in examine(facts) if one.state == state]


def test_a_healthy_cluster_has_no_problem_and_says_what_was_checked() -> None:
    rows = list(examine(HEALTHY))
    assert {one.state for one in rows} == {GOOD}
    assert [one.check for one in rows] == ["definitions", "operator", "rights", "pods", "resources"]


def test_an_empty_cluster_is_told_how_to_install() -> None:
    (definitions, operator) = found(Facts(NOW, {"Router": None, "Address": frozenset()}))
    assert definitions.text == "missing: Router"
    assert "helm upgrade --install" in definitions.do
    assert (operator.text, "helm" in operator.do) == ("no pod of an operator", True)


def waiting(reason: str) -> dict[str, Any]:
    return {"image": "r/waymesh-router:1", "state": {"waiting": {"reason": reason, "message": "pull access denied"}}}


REFUSED, CRASHED = ([waiting(reason)] for reason in ("ErrImagePull", "CrashLoopBackOff"))
UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
NO_BROKER = resource("Broker", "b", Ready=("False", "Lost", "x"), ResolvedRefs=("False", "NoSecret", "no b"))
STARTING = resource(
    "Router",
    "mesh",
    Accepted=("True", "Accepted", "the resource is valid"),
    Stalled=("False", "NotStalled", "no manual action is needed"),
    Draining=("False", "NotDraining", "no router is draining"),
    Ready=("False", "RoutersMissing", "waiting for mesh-0"),
)
CHANGES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"leases": []}, "no Lease", "log of the operator"),
    ({"leases": [lease(age_s=60)]}, "was last renewed 2025-12-31T23:59:00", "read its log"),
    ({"operators": [pod("waymesh-abc", conditions=[])]}, "no pod of the operator is ready", "log"),
    ({"pods": [pod("mesh-0", "shop", containerStatuses=REFUSED)]}, "pull access denied", "spec.pod.image"),
    ({"pods": [pod("mesh-0", "shop", containerStatuses=CRASHED)]}, "CrashLoop", "--previous"),
    ({"pods": [pod("mesh-1", "shop", conditions=[UNPLACED])]}, "pod shop/mesh-1: no node", "make room"),
    ({"resources": [resource("Router", "mesh")]}, "Router shop/mesh has no status", "no operator watches"),
    ({"resources": [NO_BROKER]}, "Broker shop/b: Lost: x", "troubleshooting"),
    ({"resources": [STARTING]}, "Router shop/mesh: RoutersMissing: waiting for mesh-0", "troubleshooting"),
    ({"forbidden": ["u may not patch statefulsets.apps"]}, "u may not patch statefulsets.apps", "roles"),
    (
        {"operators": [pod("a"), pod("b", "other")], "leases": [lease(), lease("other")]},
        "operators in other and waymesh-system watch the same namespaces",
        "keep one",
    ),
)


@pytest.mark.parametrize(("change", "text", "do"), CHANGES, ids=range(len(CHANGES)))
def test_a_problem_is_named_with_what_to_do(change: Mapping[str, Any], text: str, do: str) -> None:
    (problem,) = found(replace(HEALTHY, **change))
    assert text in problem.text
    assert do in problem.do


def test_operators_with_namespaces_of_their_own_are_no_problem() -> None:
    operators = [pod("a", args=["--namespace=shop"]), pod("b", "other", args=["--namespace=bank"])]
    facts = replace(HEALTHY, operators=operators, leases=[lease(), lease("other")])
    assert found(facts) == []


def test_what_is_about_to_go_wrong_is_a_warning() -> None:
    certificate = ("True", "CertificateEndsSoon", "listener amqps: Secret shop-tls until Sunday")
    facts = replace(
        HEALTHY,
        definitions={"Router": frozenset({"spec.expose", "spec.pod"})},
        resources=[resource("Router", "mesh", CertificateExpiring=certificate, **READY)],
    )
    definitions, expiring = found(facts, WARNING)
    assert "2 fields are missing (spec.expose, spec.pod)" in definitions.text
    assert "until Sunday" in expiring.text
    assert found(facts) == []


# --- reading ---


def cluster(*objects: Mapping[str, Any], without: str = "") -> FakeKube:
    kube = FakeKube()
    for path in CRDS.glob("*.yaml"):
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        if body["spec"]["names"]["kind"] != without:
            base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
            kube.documents[base + body["metadata"]["name"]] = body
    for one in objects:
        kube.put(one)
    return kube


def read(kube: FakeKube, allowed: bool = True) -> Facts:
    async def may(user: str, verb: str, group: str, resource: str, namespace: str) -> bool:
        assert user == "system:serviceaccount:waymesh-system:waymesh"
        return allowed or resource != "routers/status"

    return asyncio.run(look(kube, may, None, NOW))


def labelled(body: dict[str, Any], name: str) -> dict[str, Any]:
    body["metadata"]["labels"] = {"app.kubernetes.io/name": name}
    return body


def test_a_cluster_is_read() -> None:
    operator = labelled(pod("waymesh-abc", args=["--namespace=shop"]), "waymesh-operator")
    router = labelled(pod("mesh-0", "shop"), "waymesh-router")
    kube = cluster(operator, router, lease(), resource("Router", "mesh", **READY))
    facts = read(kube)
    assert found(facts) == found(facts, WARNING) == found(facts, UNKNOWN) == []
    assert [item["metadata"]["name"] for item in (*facts.operators, *facts.pods)] == ["waymesh-abc", "mesh-0"]
    assert read(kube, allowed=False).forbidden == [
        "system:serviceaccount:waymesh-system:waymesh may not patch routers/status.waymesh.io in namespace shop"
    ]


def test_missing_and_older_definitions_are_seen() -> None:
    kube = cluster(without="Broker")
    name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/routers.waymesh.io"
    schema = kube.documents[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["policy"]
    facts = read(kube)
    assert facts.definitions["Broker"] is None
    assert "spec.policy" in (facts.definitions["Router"] or ())
    assert facts.definitions["Address"] == frozenset()


def test_what_may_not_be_read_is_told_and_is_no_problem() -> None:
    kube = cluster()

    def fail(verb: str, kind: str, name: str) -> None:
        raise KubeError(403, f"{kind} is forbidden")

    kube.fail = fail
    facts = read(kube)
    assert found(facts) == []
    assert {one.check for one in found(facts, UNKNOWN)} >= {"pods", "leases", "customresourcedefinitions", "routers"}
