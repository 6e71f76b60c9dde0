"""Pods are told to update their files when a Secret of theirs has changed, and refused actions are tried again soon."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from tests.operator.test_worker_listener_secrets import LISTENERS, people
from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.places.place import Refused, Result
from waymesh_operator.places.refusals import FIRST_S, Refusals
from waymesh_operator.planning.pods import FILES_ANNOTATION
from waymesh_operator.router_entities.actions import DrainRouter

pytestmark = pytest.mark.engine_independent


def told(lab: Lab) -> dict[str, str]:
    """The versions that each pod was told to mount."""
    pods = lab.kube.select("Pod", NAMESPACE)
    return {pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(FILES_ANNOTATION, "") for pod in pods}


def present(lab: Lab) -> str:
    secrets = [lab.kube.objects["Secret", NAMESPACE, f"mesh-{name}"] for name in ("tls", "credentials")]
    return ".".join(secret["metadata"]["resourceVersion"] for secret in secrets)


def annotations_written(lab: Lab) -> int:
    return sum(call[:2] == ("apply", "Pod") for call in lab.kube.calls)


def test_pods_are_told_once_for_each_change_of_a_secret() -> None:
    async def story(lab: Lab) -> None:
        people(lab, alice="one")
        lab.router(2, listeners=LISTENERS)
        await lab.settle()
        before, versions = told(lab), present(lab)
        assert before == {"mesh-0": versions, "mesh-1": versions}
        assert annotations_written(lab) == 2
        people(lab, alice="two")
        lab.later(60)
        await lab.settle()
        assert present(lab) != versions
        assert told(lab) == {"mesh-0": present(lab), "mesh-1": present(lab)}
        assert annotations_written(lab) == 4
        lab.anew()  # another operator
        await lab.settle()
        lab.later(60)
        await lab.settle()
        assert annotations_written(lab) == 4
        assert lab.status()["drift"]["repaired"] == 0
        assert not [event for event in lab.kube.events() if event[0] in ("Repaired", "StepFailed")]

    run(story)


def test_a_pod_that_starts_later_is_told_when_its_router_answers() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.router(2)
        await lab.settle()
        assert told(lab) == {"mesh-0": present(lab), "mesh-1": present(lab)}

    run(story)


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_goes_meanwhile_is_no_error(status: int) -> None:
    async def story(lab: Lab) -> None:
        def fail(verb: str, kind: str, name: str) -> None:
            if (verb, kind, name) == ("apply", "Pod", "mesh-1"):
                raise KubeError(status, "pods mesh-1: the uid differs")

        lab.kube.fail = fail
        lab.router(2)
        await lab.until(lambda: lab.condition("Converged")[0] == "True")
        assert told(lab) == {"mesh-0": present(lab), "mesh-1": ""}
        assert "StepFailed" not in [reason for reason, _ in lab.kube.events()]

    run(story)


def test_missing_rights_are_reported() -> None:
    async def story(lab: Lab) -> None:
        def fail(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("apply", "Pod"):
                raise KubeError(403, "pods is forbidden")

        lab.kube.fail = fail
        lab.router(1)
        with pytest.raises(WaymeshError, match="update the files of Pod mesh-0: pods is forbidden"):
            await lab.until(lambda: False)
        assert ("StepFailed", "update the files of Pod mesh-0: pods is forbidden") in lab.kube.events()

    run(story)


def test_refused_actions_are_tried_again_soon_and_then_more_and_more_rarely() -> None:
    clock = {"now": 100.0}
    refusals = Refusals(lambda: clock["now"], 5.0)
    action: Any = DrainRouter("mesh-0", 30)
    waited, soon = [], []
    for _ in range(5):
        assert refusals.due([action]) == [action]
        refusals.note([action], Result(refused=[Refused(action, "no")]))
        soon.append(refusals.soon)
        start = clock["now"]
        while not refusals.due([action]):
            clock["now"] += FIRST_S / 4
        waited.append(clock["now"] - start)
    assert waited == [1, 2, 4, 5, 5]
    assert soon == [True, True, True, False, False], "then with each resync"
    refusals.note([action], Result(taken=[action]))
    assert not refusals.reasons
    refusals.note([action], Result(refused=[Refused(action, "no")]))
    clock["now"] += FIRST_S
    assert refusals.due([action]) == [action], "it starts anew"
