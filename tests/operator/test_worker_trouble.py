"""Why routers do not run, events about scaling, and no drift without a change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.errors import KubeError
from waymesh_operator.places.kubernetes.context import OperatorSettings
from waymesh_operator.places.kubernetes.objects import RESTARTED_ANNOTATION

pytestmark = pytest.mark.engine_independent


def break_pod(lab: Lab, name: str, reason: str, message: str) -> None:
    def change(pod: dict[str, Any]) -> None:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        waiting = {"reason": reason, "message": message}
        pod["status"]["containerStatuses"] = [{"name": "router", "state": {"waiting": waiting}}]

    lab.kube.edit("Pod", NAMESPACE, name, change)


def mend_pod(lab: Lab, name: str) -> None:
    def change(pod: dict[str, Any]) -> None:
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        pod["status"]["containerStatuses"] = [{"name": "router", "state": {"running": {}}}]

    lab.kube.edit("Pod", NAMESPACE, name, change)


def event(lab: Lab, about: dict[str, Any], reason: str, message: str, name: str = "e") -> None:
    lab.kube.put(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "involvedObject": {"uid": about["metadata"]["uid"]},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": "2026-01-01T00:00:09Z",
        }
    )


def row(lab: Lab, name: str) -> dict[str, Any]:
    return next(dict(item) for item in lab.status()["routers"] if item["id"] == name)


def test_worker_tells_of_an_image_that_is_missing_once_and_when_it_is_there() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        break_pod(lab, "mesh-1", "ErrImagePull", "router:2: not found")
        await lab.turn()
        assert (row(lab, "mesh-1")["reason"], row(lab, "mesh-1")["state"]) == ("ImageUnavailable", "Starting")
        assert lab.condition("Ready") == ("False", "ImageUnavailable")
        assert lab.condition("Stalled") == ("True", "ImageUnavailable")
        assert lab.status()["phase"] == "Stalled"
        break_pod(lab, "mesh-1", "ImagePullBackOff", "Back-off pulling image router:2")
        await lab.turn()
        told = [message for reason, message in lab.kube.events() if reason == "ImageUnavailable"]
        assert told == ["mesh-1: router:2: not found"]
        mend_pod(lab, "mesh-1")
        await lab.settle()
        assert "reason" not in row(lab, "mesh-1")
        assert (lab.status()["phase"], lab.status()["readyRouters"]) == ("Ready", "2/2")
        assert lab.condition("Stalled") == ("False", "NotStalled")

    run(story)


def test_worker_tells_of_a_quota_by_the_events_of_the_stateful_set() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.router(2)
        await lab.turn()
        stateful_set = lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]
        event(lab, stateful_set, "FailedCreate", 'pods "mesh-1" is forbidden: exceeded quota: few')
        await lab.turn()
        assert row(lab, "mesh-1")["reason"] == "QuotaExceeded"
        assert lab.condition("Stalled") == ("True", "QuotaExceeded")
        assert await lab.turn() == "busy"  # no watch tells that there is room again
        lab.control()
        await lab.settle()
        assert lab.condition("Ready") == ("True", "Ready")

    run(story)


def test_worker_tells_of_a_volume_by_the_events_of_the_pod_and_asks_for_none_when_all_runs() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        break_pod(lab, "mesh-0", "ContainerCreating", "")
        event(lab, lab.kube.objects["Pod", NAMESPACE, "mesh-0"], "FailedMount", 'secret "mesh-tls" not found')
        await lab.turn()
        assert row(lab, "mesh-0")["reason"] == "VolumeUnavailable"
        assert "mesh-tls" in row(lab, "mesh-0")["message"]
        mend_pod(lab, "mesh-0")
        await lab.settle()
        before = len(lab.kube.calls)
        lab.later(60)
        await lab.settle()
        assert ("list", "Event", "") not in lab.kube.calls[before:]

    run(story)


def test_worker_tells_of_growth_as_of_shrinking() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.router(3)
        await lab.settle()
        lab.router(2)
        await lab.settle()
        told = [message for reason, message in lab.kube.events() if reason == "Scaled"]
        assert "scale mesh from 0 to 1 routers" in told
        assert "scale mesh from 1 to 3 routers" in told
        assert len(told) == 3

    run(story)


@pytest.mark.parametrize("drift", ["Repair", "Report"])
def test_addresses_applied_with_their_router_are_no_drift(drift: str) -> None:
    async def story(lab: Lab) -> None:
        lab.router(2, drift=drift)
        await lab.turn()
        lab.control()  # the pods boot with the configuration of this moment
        lab.add("Address", "orders", prefix="orders")
        stateful_set = lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]
        for name in ("mesh-0", "mesh-1"):
            break_pod(lab, name, "ContainerCreating", "")
        await lab.turn()  # the seeds have the Address now, the routers have not
        for name in ("mesh-0", "mesh-1"):
            mend_pod(lab, name)
        assert stateful_set["metadata"]["uid"]
        await lab.settle()
        assert lab.live("mesh-1").names("router.config.address") == ["k8s/ns/Address/orders"]
        drifted = lab.status()["drift"]
        assert (drifted["state"], drifted["current"], drifted["repaired"]) == ("None", 0, 0)
        assert not [message for reason, message in lab.kube.events() if reason == "Repaired"]
        lab.live("mesh-1").rows["router.config.address"].clear()
        lab.later(60)
        await lab.settle()
        drifted = lab.status()["drift"]
        assert drifted["state"] == ("Repaired" if drift == "Repair" else "Present")

    run(story)


def test_drift_is_still_drift_to_an_operator_that_has_just_started() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2, drift="Report")
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        lab.live("mesh-1").rows["router.config.address"].clear()
        lab.anew()
        await lab.settle()
        assert lab.live("mesh-1").names("router.config.address") == []
        assert lab.status()["drift"]["current"] == 1

    run(story)


def test_drift_goes_back_to_none() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        lab.live("mesh-0").rows["router.config.address"].clear()
        lab.later(60)
        await lab.settle()
        assert lab.status()["drift"]["state"] == "Repaired"
        lab.later(400)
        await lab.settle()
        assert (lab.status()["drift"]["state"], lab.status()["drift"]["repaired"]) == ("None", 1)

    run(story)


def test_next_stateful_set_takes_over_the_pods_of_a_deleted_one_as_they_are() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()

        def restart(body: dict[str, Any]) -> None:
            body["spec"]["template"]["metadata"]["annotations"] = {RESTARTED_ANNOTATION: "2026-01-01T00:00:00Z"}

        lab.kube.edit("StatefulSet", NAMESPACE, "mesh", restart)
        await lab.settle()
        template = lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["template"]
        assert template["metadata"]["annotations"] == {RESTARTED_ANNOTATION: "2026-01-01T00:00:00Z"}
        for name in ("mesh-0", "mesh-1"):  # orphans of a StatefulSet that somebody deletes
            lab.kube.edit("Pod", NAMESPACE, name, lambda pod: pod["metadata"].pop("ownerReferences"))
            lab.kube.edit("Pod", NAMESPACE, name, lambda pod: pod.update(spec=template["spec"]))
            lab.kube.edit("Pod", NAMESPACE, name, lambda pod: pod["metadata"].update(template["metadata"]))
        lab.kube.remove("StatefulSet", NAMESPACE, "mesh")
        object.__setattr__(lab.world, "settings", OperatorSettings("router:2"))  # a newer default meanwhile
        await lab.turn()
        assert lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["template"] == template

    run(story)


@pytest.mark.parametrize("status", [400, 403, 422])
def test_what_the_api_server_refuses_is_stalled_with_its_reason(status: int) -> None:
    why = 'StatefulSet mesh: spec.template.spec.tolerations[0].effect: Unsupported value: "Never"'

    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()

        def fail(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("apply", "StatefulSet"):
                raise KubeError(status, why)

        lab.kube.fail = fail
        lab.router(1, pod={"tolerations": [{"effect": "Never"}]})
        await lab.until(lambda: lab.condition("Stalled") == ("True", "RefusedByApiServer"), failing=True)
        for name in ("Stalled", "Programmed", "Ready"):
            (found,) = (one for one in lab.status()["conditions"] if one["type"] == name)
            assert found["reason"] == "RefusedByApiServer"
            assert why in found["message"]
        assert lab.status()["phase"] == "Stalled"
        lab.kube.fail = lambda verb, kind, name: None
        lab.router(1)
        await lab.settle()
        assert lab.condition("Stalled")[0] == "False"
        assert lab.condition("Ready")[0] == "True"

    run(story)


@pytest.mark.parametrize("kind", ["StatefulSet", "Service"])
def test_a_new_router_that_the_api_server_refuses_is_not_ready_with_its_reason(kind: str) -> None:
    async def story(lab: Lab) -> None:
        def fail(verb: str, what: str, name: str) -> None:
            if (verb, what) == ("apply", kind):
                raise KubeError(422, f"{what} mesh: no")

        lab.kube.fail = fail
        lab.router(2)
        await lab.until(lambda: lab.condition("Stalled") == ("True", "RefusedByApiServer"), failing=True)
        ready, stalled = (
            next(one for one in lab.status()["conditions"] if one["type"] == name) for name in ("Ready", "Stalled")
        )
        assert (ready["status"], ready["reason"], ready["message"]) == ("False", stalled["reason"], stalled["message"])
        lab.kube.fail = lambda verb, what, name: None
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"

    run(story)


@pytest.mark.parametrize("status", [0, 409, 429, 500, 503])
def test_what_a_retry_may_mend_is_not_stalled(status: int) -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()

        def fail(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("apply", "StatefulSet"):
                raise KubeError(status, "not now")

        lab.kube.fail = fail
        lab.router(1, pod={"nodeSelector": {"a": "b"}})
        await lab.until(lambda: lab.condition("Programmed") == ("False", "Failed"), failing=True)
        assert lab.condition("Stalled")[0] == "False"

    run(story)
