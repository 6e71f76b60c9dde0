"""Two operators that watch the same Routers: one acts, the other leaves them alone until the first has ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.operator.kit import MESH, NAMESPACE, Lab, run
from waymesh_operator.errors import KubeError
from waymesh_operator.kube import ROUTER
from waymesh_operator.places.kubernetes.worker.environment import EventRecorder
from waymesh_operator.places.kubernetes.worker.mesh_worker import MeshWorker
from waymesh_operator.places.kubernetes.worker.ownership import LATELY, LOOK_S, STALE_S

pytestmark = pytest.mark.engine_independent

HOME, OTHER = "waymesh-system", "elsewhere"


def at_home(lab: Lab) -> None:
    object.__setattr__(lab.world, "settings", dataclasses.replace(lab.world.settings, home=HOME))
    lab.world.recorder.home = HOME


def second(lab: Lab) -> MeshWorker:
    """The worker of an operator of another namespace for the same Router."""
    settings = dataclasses.replace(lab.world.settings, home=OTHER)
    world = dataclasses.replace(
        lab.world, settings=settings, recorder=EventRecorder(lab.kube, lambda: lab.time, OTHER)
    )
    return MeshWorker(MESH, world)


async def renew_own(lab: Lab) -> None:
    metadata = {"name": "waymesh-operator", "namespace": HOME}
    spec = {"holderIdentity": "pod", "renewTime": str(lab.time)}
    await lab.kube.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


def lists_of_events(lab: Lab) -> int:
    return sum(call[:2] == ("list", "Event") for call in lab.kube.calls)


async def renew(lab: Lab, number: int) -> None:
    """The other operator renews its Lease."""
    metadata = {"name": "waymesh-operator", "namespace": OTHER}
    spec = {"holderIdentity": "pod", "renewTime": str(number)}
    await lab.kube.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


async def claim(lab: Lab, namespace: str) -> None:
    await lab.kube.patch_status(ROUTER, NAMESPACE, "mesh", {**lab.status("Router", "mesh"), "operator": namespace})


def writes(lab: Lab) -> list[tuple[str, str, str]]:
    """What was written, without Events."""
    changes = [call for call in lab.kube.calls if call[0] in ("apply", "status", "delete")]
    return [call for call in changes if call[1] not in ("Event", "Lease")]


def events(lab: Lab, reason: str) -> list[Mapping[str, Any]]:
    return [body for key, body in lab.kube.objects.items() if key[0] == "Event" and body["reason"] == reason]


def test_a_router_names_its_operator_before_anything_is_done() -> None:
    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)
        await lab.settle()
        assert lab.status("Router", "mesh")["operator"] == HOME
        assert writes(lab)[0][:2] == ("status", "Router")
        lab.kube.calls.clear()
        lab.later(1000)
        await lab.settle()
        assert lab.status("Router", "mesh")["operator"] == HOME
        assert writes(lab) == []

    run(story)


def test_what_another_operator_looks_after_is_left_alone_and_taken_over_when_that_one_has_ended() -> None:
    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)
        await renew(lab, 1)
        await claim(lab, OTHER)
        lab.kube.calls.clear()
        for number in range(2, 8):
            lab.later(STALE_S / 3)
            await renew(lab, number)
            await lab.settle()
        assert writes(lab) == []
        assert len(events(lab, "OtherOperator")) == 1
        assert lab.world.others.left == {MESH: OTHER}
        assert lab.world.metrics.left_to_others.labels(NAMESPACE, "mesh")._value.get() == 1
        lab.later(STALE_S / 2)
        await lab.settle()
        assert writes(lab) == []
        lab.later(STALE_S)
        await lab.settle()
        assert lab.status("Router", "mesh")["operator"] == HOME
        assert lab.condition("Ready", "Router", "mesh")[0] == "True"
        assert len(events(lab, "OperatorChanged")) == 1
        assert lab.world.others.left == {}

    run(story)


def test_an_operator_whose_lease_is_gone_has_ended_but_not_one_whose_lease_cannot_be_read() -> None:
    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)
        await claim(lab, OTHER)

        def fail(verb: str, kind: str, name: str) -> None:
            if kind == "Lease":
                raise KubeError(403, "forbidden")

        lab.kube.fail = fail
        for _ in range(4):
            lab.later(STALE_S)
            await lab.settle()
        assert lab.status("Router", "mesh")["operator"] == OTHER
        lab.kube.fail = lambda verb, kind, name: None
        await lab.settle()
        assert lab.status("Router", "mesh")["operator"] == HOME

    run(story)


def test_a_router_that_is_given_to_another_operator_is_left_alone() -> None:
    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)
        await lab.settle()
        await renew(lab, 1)
        await claim(lab, OTHER)
        lab.kube.calls.clear()
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        assert writes(lab) == []
        await claim(lab, HOME)
        await lab.settle()
        assert lab.condition("Programmed", "Address", "orders")[0] == "True"

    run(story)


def test_the_owner_names_another_operator_that_leaves_its_router_alone_until_that_one_has_gone() -> None:
    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)
        await lab.settle()
        assert lab.condition("OtherOperator") == ("", "")
        other = second(lab)
        for _ in range(12):
            lab.later(LOOK_S)
            await renew_own(lab)
            assert await other.turn() == "done"
            await lab.settle()
        assert lab.condition("OtherOperator") == ("True", "LeavesAlone")
        assert lab.condition("Ready")[0] == "True"
        assert lab.status()["operator"] == HOME
        (found,) = (item for item in lab.status()["conditions"] if item["type"] == "OtherOperator")
        assert OTHER in found["message"]
        lab.later((LATELY + timedelta(minutes=1)).total_seconds())
        await lab.settle()
        assert lab.condition("OtherOperator") == ("", "")

    run(story)


def test_what_this_operator_told_of_others_names_no_other_operator() -> None:
    """It left the Router alone a moment ago, and looks after it now."""

    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)
        await renew(lab, 1)
        await claim(lab, OTHER)
        await lab.settle()
        assert len(events(lab, "OtherOperator")) == 1
        await claim(lab, HOME)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        assert lab.condition("OtherOperator") == ("", "")

    run(story)


def test_the_events_are_listed_once_a_minute_and_a_refused_list_stops_nothing() -> None:
    async def story(lab: Lab) -> None:
        at_home(lab)
        lab.router(1)

        def fail(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("list", "Event"):
                raise KubeError(403, "forbidden")

        lab.kube.fail = fail
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        lab.later(LOOK_S)
        lab.kube.calls.clear()
        for _ in range(5):
            lab.add("Address", "orders", prefix="orders")
            await lab.turn()
        assert lists_of_events(lab) == 1

    run(story)
