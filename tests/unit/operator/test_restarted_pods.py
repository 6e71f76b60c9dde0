"""A plan says how many pods a step restarts: all, if it changes their template."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from waymesh_operator.cli.tables import action_row
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.actions import ApplyObject
from waymesh_operator.planning.manifests import Manifest
from waymesh_operator.planning.plan import ObservedState, plan
from waymesh_operator.planning.pods import replaced_pods
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Pod, Ref, Router
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.engine_independent

TLS = next_tls(TlsRequest("mesh", "ns"), {}, {}, datetime(2026, 1, 1, tzinfo=UTC))
CONTEXT = ClusterContext(OperatorSettings("registry/router:1"), tls=TLS, size_now=3, image_now="registry/router:1")
ROUTER = Router(Ref("ns", "mesh"), size=3, uid="u-1")
PODS: list[dict[str, Any]] = [
    {"resources": {"limits": {"memory": "1Gi"}}},
    {"tolerations": ({"key": "k"},)},
    {"affinity": {"nodeAffinity": {}}},
    {"node_selector": {"disk": "ssd"}},
    {"priority_class": "high"},
    {"service_account": "puller"},
    {"platform_user": True},
    {"pull_secrets": ("a", "b")},
    {"spread": ({"topologyKey": "t"},)},
    {"image": "mine:2"},
    {"image_pull_policy": "Never"},
    {"labels": {"team": "a"}},
    {"annotations": {"note": "b"}},
]


def wanted(router: Router = ROUTER) -> Manifest:
    return desired_cluster(Resources(router), CONTEXT).objects[-1]


def live(router: Router = ROUTER) -> dict[str, Any]:
    """The StatefulSet as the API server returns it: with fields that nobody set."""
    body: dict[str, Any] = json.loads(json.dumps(wanted(router)))
    template = body["spec"]["template"]
    template["metadata"]["creationTimestamp"] = None
    template["spec"] |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    template["spec"]["containers"][0].setdefault("resources", {})
    template["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    template["spec"]["volumes"][0]["projected"]["defaultMode"] = 420
    return body


@pytest.mark.parametrize("fields", PODS, ids=[next(iter(fields)) for fields in PODS])
def test_a_field_of_the_pods_restarts_all_when_it_comes_and_when_it_goes(fields: dict[str, Any]) -> None:
    other = replace(ROUTER, pod=Pod(**fields))
    assert replaced_pods(wanted(other), live()) == 3
    assert replaced_pods(wanted(), live(other)) == 3
    assert replaced_pods(wanted(other), live(other)) == 0


def test_another_number_of_threads_restarts_all_and_their_seeds_come_first() -> None:
    threaded = replace(ROUTER, worker_threads=3)
    assert "annotations" not in live()["spec"]["template"]["metadata"]  # as before there was such a number
    assert replaced_pods(wanted(threaded), live()) == replaced_pods(wanted(), live(threaded)) == 3
    assert replaced_pods(wanted(replace(ROUTER, worker_threads=1)), live()) == 0
    assert replaced_pods(wanted(threaded), live(threaded)) == 0
    objects = {
        (kind(item), item["metadata"]["name"]): item for item in desired_cluster(Resources(ROUTER), CONTEXT).objects
    }
    observed = ObservedState({**objects, ("StatefulSet", "mesh"): live()})
    seeds, pods = plan(desired_cluster(Resources(threaded), CONTEXT), observed)
    assert isinstance(seeds, ApplyObject)
    assert isinstance(pods, ApplyObject)
    assert (kind(seeds.manifest), seeds.restarts) == ("ConfigMap", 0)
    assert pods.describe() == "update StatefulSet mesh: restarts its 3 pods, one after the other"


def kind(manifest: Manifest) -> str:
    return str(manifest["kind"])


def test_a_step_that_leaves_the_template_restarts_no_pod() -> None:
    assert replaced_pods(wanted(replace(ROUTER, size=7)), live()) == 0
    limited = replace(ROUTER, pod=Pod(resources={"limits": {"cpu": "500m"}}))
    body = live(limited)
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "0.5"
    assert replaced_pods(wanted(limited), body) == 0


def test_the_step_of_a_plan_says_so() -> None:
    desired = desired_cluster(Resources(replace(ROUTER, drain_timeout_s=90)), CONTEXT)
    observed = ObservedState({("StatefulSet", "mesh"): live()})
    (step,) = (step for step in plan(desired, observed) if isinstance(step, ApplyObject) and step.restarts)
    assert step.describe() == "update StatefulSet mesh: restarts its 3 pods, one after the other"
    assert action_row(step)["restarts"] == 3
    assert replace(step, restarts=1).describe() == "update StatefulSet mesh: restarts its pod"
    calm = [step for step in plan(desired, ObservedState()) if isinstance(step, ApplyObject)]
    assert calm
    assert not any(step.restarts or "restarts" in action_row(step) for step in calm)
