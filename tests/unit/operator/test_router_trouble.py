"""Why a router does not run, from the status of its pod, and the resulting conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.operator.test_operator_status import ALL, CONTEXT, NOW, ROUTER, conditions, fits, seen
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.places.kubernetes.stateful_set import REQUESTS
from waymesh_operator.planning.plan import Drift, ObservedState
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Pod, Ref, Router
from waymesh_operator.router_entities.verdicts import Verdict
from waymesh_operator.routers.live_router import event_trouble, pod_view
from waymesh_operator.routers.observed import ObservedMesh, RouterState, Trouble

pytestmark = pytest.mark.engine_independent

LAST = {"exitCode": 1, "reason": "Error", "message": "booting\nlistener a: port 5672 is taken\n"}
KILLED = {"exitCode": 137, "reason": "OOMKilled"}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "router", "state": state} | more]}


def unscheduled(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


PODS: dict[str, tuple[dict[str, Any], Trouble]] = {
    "an image that is not there": (
        waiting("ImagePullBackOff", 'Back-off pulling image "router:2"'),
        Trouble("ImageUnavailable", 'Back-off pulling image "router:2"'),
    ),
    "the same at the next try": (waiting("ErrImagePull", "not found"), Trouble("ImageUnavailable", "not found")),
    "an image that nobody may pull": (
        waiting("ErrImageNeverPull", "is not present"), Trouble("ImageUnavailable", "is not present"),
    ),
    "a name that is none": (waiting("InvalidImageName", "bad name"), Trouble("ImageUnavailable", "bad name")),
    "no room": (unscheduled("0/1 nodes are available"), Trouble("Unschedulable", "0/1 nodes are available")),
    "a Secret of the pod that is missing": (
        waiting("CreateContainerConfigError", 'secret "x" not found'),
        Trouble("ConfigurationMissing", 'secret "x" not found'),
    ),
    "a command that is missing": (
        waiting("RunContainerError", "exec: not found"), Trouble("ContainerRefused", "exec: not found"),
    ),
    "the first failure": (
        waiting("CrashLoopBackOff", "back-off 10s", restartCount=1, lastState={"terminated": LAST}),
        Trouble("Exited", "exit code 1: listener a: port 5672 is taken", lasting=False),
    ),
    "one failure after the other": (
        waiting("CrashLoopBackOff", "back-off 40s", restartCount=3, lastState={"terminated": LAST}),
        Trouble("CrashLoop", "exit code 1: listener a: port 5672 is taken"),
    ),
    "one failure after the other, just started again": (
        {"containerStatuses": [{"name": "router", "state": {"running": {}}, "restartCount": 4,
                                "lastState": {"terminated": KILLED}}]},
        Trouble("CrashLoop", "exit code 137, OOMKilled"),
    ),
    "ended a moment ago": (
        {"containerStatuses": [{"name": "router", "state": {"terminated": KILLED}, "restartCount": 0}]},
        Trouble("Exited", "exit code 137, OOMKilled", lasting=False),
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
        Trouble("Evicted", "The node was low on memory."),
    ),
    "the container beside it": (
        waiting("PodInitializing") | {"initContainerStatuses": [
            {"name": "upload", "state": {"waiting": {"reason": "ErrImagePull", "message": "gone"}}}]},
        Trouble("ImageUnavailable", "gone"),
    ),
    "just starting": (waiting("ContainerCreating"), Trouble()),
    "all is well": ({"containerStatuses": [{"name": "router", "state": {"running": {}}}]}, Trouble()),
    "well again after a failure": (
        {"conditions": [{"type": "Ready", "status": "True"}],
         "containerStatuses": [{"name": "router", "state": {"running": {}}, "restartCount": 4,
                                "lastState": {"terminated": LAST}}]},
        Trouble(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PODS)
def test_pod_says_why_it_does_not_run(case: str) -> None:
    status, expected = PODS[case]
    metadata = {"name": "mesh-1", "uid": "u", "labels": {"waymesh.io/router": "mesh"}}
    view = pod_view({"metadata": metadata, "status": status}, Ref("ns", "mesh"))
    assert view is not None
    assert view.trouble == expected
    leaving = {"metadata": metadata | {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
    view = pod_view(leaving, Ref("ns", "mesh"))
    assert view is not None
    assert not view.trouble


def event(reason: str, message: str, at: str, kind: str = "Warning") -> dict[str, Any]:
    return {"reason": reason, "message": message, "type": kind, "lastTimestamp": at}


def test_newest_event_says_why() -> None:
    quota = event("FailedCreate", 'pods "mesh-1" is forbidden: exceeded quota: few', "2026-01-01T00:00:05Z")
    assert event_trouble([quota]) == Trouble("QuotaExceeded", quota["message"])
    created = event("SuccessfulCreate", "created", "2026-01-01T00:00:04Z", "Normal")
    assert event_trouble([quota, created]).word == "QuotaExceeded"
    assert event_trouble([quota, created | {"lastTimestamp": "2026-01-01T00:00:06Z"}]) == Trouble()
    refused = event("FailedCreate", "denied by a policy", "2026-01-01T00:00:05Z")
    assert event_trouble([refused]) == Trouble("PodRefused", "denied by a policy")
    mount = event("FailedMount", 'configmap "x" not found', "2026-01-01T00:00:05Z")
    assert event_trouble([mount]) == Trouble("VolumeUnavailable", 'configmap "x" not found')
    sandbox = event("FailedCreatePodSandBox", "no address left", "2026-01-01T00:00:05Z")
    assert event_trouble([sandbox]) == Trouble("FailedCreatePodSandBox", "no address left", lasting=False)
    assert event_trouble([event("Unhealthy", "probe failed", "2026-01-01T00:00:05Z")]) == Trouble()
    assert event_trouble([]) == Trouble()


IMAGE = Trouble("ImageUnavailable", "not found")
EXITED = Trouble("Exited", "exit code 1", lasting=False)


def hindered(**troubles: Trouble) -> Any:
    """Routers of these ordinals (k1: mesh-1) do not run, for that reason."""
    named = {f"mesh-{name[1:]}": trouble for name, trouble in troubles.items()}
    mesh = seen(states=dict.fromkeys(named, RouterState.STARTING))
    return replace(mesh, observed=replace(mesh.observed, troubles=named))


def test_status_says_why_a_router_does_not_run() -> None:
    status = router_status(ROUTER, hindered(k1=IMAGE), {})
    assert fits("Router", status)
    row = status["routers"][1]
    assert (row["id"], row["state"], row["reason"], row["message"]) == (
        "mesh-1", "Starting", "ImageUnavailable", "not found",
    )  # fmt: skip
    told = "mesh-1: ImageUnavailable: not found"
    found = conditions(status)
    assert found["Ready"] == ("False", "ImageUnavailable", f"{told}; waiting for mesh-1")
    assert found["Converged"] == found["Ready"]
    assert found["Stalled"] == ("True", "ImageUnavailable", told)
    assert (status["phase"], status["readyRouters"]) == ("Stalled", "3/3")


def test_what_time_may_help_is_not_stalled_and_what_a_person_must_do_comes_first() -> None:
    found = conditions(router_status(ROUTER, hindered(k0=EXITED), {}))
    assert found["Stalled"][0] == "False"
    assert found["Ready"][:2] == ("False", "Exited")
    found = conditions(router_status(ROUTER, hindered(k0=EXITED, k2=IMAGE), {}))
    assert found["Ready"][1] == "ImageUnavailable"
    assert found["Ready"][2].startswith("mesh-2: ImageUnavailable: not found (and 1 more)")


def test_a_router_without_a_pod_says_why() -> None:
    mesh = seen()
    routers = {name: one for name, one in mesh.observed.mesh.routers.items() if name != "mesh-2"}
    quota = {"mesh-2": Trouble("QuotaExceeded", "exceeded quota: few")}
    observed = replace(mesh.observed, mesh=ObservedMesh(routers), troubles=quota)
    status = router_status(ROUTER, replace(mesh, observed=observed), {})
    assert fits("Router", status)
    assert status["routers"][2] == {
        "id": "mesh-2", "state": "Lost", "reason": "QuotaExceeded", "message": "exceeded quota: few",
    }  # fmt: skip
    assert conditions(status)["Stalled"][:2] == ("True", "QuotaExceeded")


ROLLING = {("StatefulSet", "mesh"): {"status": {"currentRevision": "a", "updateRevision": "b", "replicas": 3}}}


def without(*names: str) -> Any:
    mesh = seen()
    routers = {name: one for name, one in mesh.observed.mesh.routers.items() if name not in names}
    return replace(mesh, observed=replace(mesh.observed, mesh=ObservedMesh(routers)))


@pytest.mark.parametrize(
    ("what", "before", "expected"),
    [
        (lambda: seen(), {}, "Ready"),
        (lambda: seen(facts={"mesh-1": {"ready": False}}), {}, "NotReady"),
        (lambda: without("mesh-0", "mesh-1", "mesh-2"), {}, "Starting"),
        (lambda: without("mesh-2"), {}, "Scaling"),
        (lambda: seen(states={"mesh-2": RouterState.STARTING}), {"phase": "Scaling"}, "Scaling"),
        (lambda: seen(states={"mesh-2": RouterState.STARTING}), {"phase": "Ready"}, "Starting"),
        (lambda: seen(draining={"mesh-2": "draining"}), {}, "Draining"),
        (lambda: seen(objects=ROLLING), {}, "Rolling"),
        (lambda: hindered(k1=IMAGE), {"phase": "Scaling"}, "Stalled"),
    ],
    ids=["ready", "not ready", "starting", "growing", "still growing", "one starts", "draining", "rolling", "stalled"],
)
def test_phase_says_what_is_going_on(what: Any, before: dict[str, Any], expected: str) -> None:
    assert router_status(ROUTER, what(), before)["phase"] == expected


def test_phase_of_a_mesh_that_shrinks_or_is_paused() -> None:
    smaller = replace(ROUTER, size=2)
    mesh = seen()
    desired = desired_cluster(replace(ALL, router=smaller), replace(CONTEXT, size_now=3))
    status = router_status(smaller, replace(mesh, desired=desired), {})
    assert (status["phase"], status["readyRouters"]) == ("Draining", "2/2")
    assert router_status(replace(ROUTER, paused=True), mesh, {})["phase"] == "Paused"


def test_a_repair_is_told_for_a_while_and_then_there_is_no_drift() -> None:
    first = router_status(ROUTER, seen(repaired=3), {})["drift"]
    assert (first["state"], first["repaired"]) == ("Repaired", 3)
    before = {"drift": first}
    soon = replace(seen(repaired=3), now=NOW.replace(minute=4))
    assert router_status(ROUTER, soon, before)["drift"] == first
    late = replace(seen(repaired=3), now=NOW.replace(minute=6))
    assert router_status(ROUTER, late, before)["drift"] == first | {"state": "None"}
    assert fits("Router", router_status(ROUTER, late, before))
    again = replace(seen(repaired=4), now=NOW.replace(minute=6))
    assert router_status(ROUTER, again, before)["drift"]["state"] == "Repaired"
    changed = replace(seen(repaired=3, drift=Drift(1)), now=NOW.replace(minute=6))
    assert router_status(ROUTER, changed, before)["drift"]["state"] == "Present"


def test_an_export_that_lacks_something_leaves_a_mesh_ready() -> None:
    mesh = seen()
    spared = Verdict(resolved_refs=False, reason="ClaimMissing", message="telemetry: no claim", spared=True)
    verdicts = {**mesh.desired.verdicts, ("Router", ROUTER.ref): spared}
    status = router_status(ROUTER, replace(mesh, desired=replace(mesh.desired, verdicts=verdicts)), {})
    found = conditions(status)
    assert found["ResolvedRefs"] == ("False", "ClaimMissing", "telemetry: no claim")
    assert found["Ready"][0] == "True"
    assert isinstance(mesh.observed, ObservedState)


def policy(**context: Any) -> str:
    """Where Kubernetes finds the last words of a router, in the pod template beside what there is."""
    desired = desired_cluster(ALL, replace(CONTEXT, **context))
    pod = desired.objects[-1]["spec"]["template"]["spec"]
    return str(next(item for item in pod["containers"] if item["name"] == "router").get("terminationMessagePolicy", ""))


def test_the_last_log_lines_of_a_router_are_kept_without_a_restart_for_it() -> None:
    former = {"containers": [{"name": "router", "image": "registry/router:1", "terminationMessagePolicy": "File"}]}
    kept = {"containers": [{"name": "router", "image": "registry/router:1",
                            "terminationMessagePolicy": "FallbackToLogsOnError"}]}  # fmt: skip
    assert policy() == "FallbackToLogsOnError"
    assert policy(pod_now=kept, image_now="registry/router:1") == "FallbackToLogsOnError"
    assert policy(pod_now=former, image_now="registry/router:1") == ""
    newer = replace(ROUTER, pod=Pod(image="registry/router:2"))
    there = replace(CONTEXT, pod_now=former, image_now="registry/router:1")
    desired = desired_cluster(replace(ALL, router=newer), there)
    container = desired.objects[-1]["spec"]["template"]["spec"]["containers"][0]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def resources(router: Router = ROUTER, **context: Any) -> Any:
    """The resources of the routers' container."""
    desired = desired_cluster(replace(ALL, router=router), replace(CONTEXT, **context))
    return desired.objects[-1]["spec"]["template"]["spec"]["containers"][0].get("resources")


def test_new_routers_have_requests_and_running_ones_get_them_with_their_next_image() -> None:
    former: dict[str, Any] = {"name": "router", "image": "registry/router:1"}
    there: dict[str, Any] = {"pod_now": {"containers": [former]}, "image_now": "registry/router:1"}
    assert resources() == {"requests": REQUESTS}
    assert resources(**there) is None, "no restart for it"
    assert resources(replace(ROUTER, pod=Pod(image="registry/router:2")), **there) == {"requests": REQUESTS}
    kept: dict[str, Any] = {**there, "pod_now": {"containers": [{**former, "resources": {"requests": dict(REQUESTS)}}]}}
    assert resources(**kept) == {"requests": REQUESTS}
    own = {"limits": {"memory": "1Gi"}}
    assert resources(replace(ROUTER, pod=Pod(resources=own)), **kept) == own


def readiness(router: Router = ROUTER, **context: Any) -> int:
    """Seconds between two questions whether a router accepts clients."""
    desired = desired_cluster(replace(ALL, router=router), replace(CONTEXT, **context))
    container = desired.objects[-1]["spec"]["template"]["spec"]["containers"][0]
    return int(container["readinessProbe"]["periodSeconds"])


def test_new_routers_are_asked_each_second_whether_they_accept_clients_and_running_ones_with_their_next_image() -> None:
    former: dict[str, Any] = {"name": "router", "image": "registry/router:1", "readinessProbe": {"periodSeconds": 3}}
    there: dict[str, Any] = {"pod_now": {"containers": [former]}, "image_now": "registry/router:1"}
    assert readiness() == 1
    assert readiness(**there) == 3, "no restart for it"
    assert readiness(replace(ROUTER, pod=Pod(image="registry/router:2")), **there) == 1


def test_a_door_without_its_secret_says_what_makes_it() -> None:
    """Rather than what the routers say of the files that are not there."""
    door = Listener("door", 5671, role="inter-router", tls=True, auth="mtls", certificate="door", authorities="doors")
    router = replace(ROUTER, listeners=(*ROUTER.listeners, door))
    refused = {("mesh-0", ("listener", "k8s/ns/Router/mesh/listener/door")): "certFile: No such file or directory"}
    context = replace(CONTEXT, secrets={"door": None, "doors": None})
    found = conditions(router_status(router, seen(replace(ALL, router=router), context, refused=refused), {}))
    how = "kubectl waymesh link create-token mesh --listener door makes it"
    missing = "Secret door does not exist; Secret doors does not exist"
    assert found["Ready"] == ("False", "SecretMissing", f"listener door: {missing}; {how}")
    assert found["Programmed"] == found["Ready"], "not in the words of the routers"
