"""Routers that do not answer hold up no other mesh, and no other part of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kit.waiting import DEADLINE_S
from tests.operator.kit import MESH, NAMESPACE, Lab, resource, run
from waymesh_client.channel import Tls
from waymesh_client.errors import ConnectionFailed
from waymesh_operator.kube import SELECTOR
from waymesh_operator.places.kubernetes.worker.mesh_worker import MeshWorker
from waymesh_operator.places.kubernetes.worker.pool import Pool
from waymesh_operator.routers.management import PodClient, SecureReach
from waymesh_operator.tls.rollover import TlsView

pytestmark = pytest.mark.engine_independent

LOST = 100
FOR_EVER_S = 10 * DEADLINE_S


@contextmanager
def silent_port() -> Iterator[int]:
    """A port of which the kernel accepts connections, and nobody answers. Its end resets them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4 * LOST)
        yield listener.getsockname()[1]


class SomeSilent:
    """A Reach: the routers of the lab, and silent ones at 127.0.0.1. `asked` counts requests to these."""

    def __init__(self, lab: Lab, port: int) -> None:
        self._lab = lab
        self._silent = SecureReach(port, FOR_EVER_S)
        self.asked = 0

    def client(self, address: str, tls: Tls) -> PodClient:
        if not address.startswith("127."):
            return self._lab.mesh.client(address, tls)
        self.asked += 1
        return self._silent.client(address, tls)

    def tls_view(self, address: str, tls: Tls, probe: Tls | None) -> TlsView:
        return self._lab.mesh.tls_view(address, tls, probe)


def pod_of(mesh: str, stateful_set: Mapping[str, Any]) -> dict[str, Any]:
    """A ready pod with an address at which nobody answers."""
    labels = {SELECTOR: mesh}
    owner = {"uid": stateful_set["metadata"]["uid"], "kind": "StatefulSet"}
    ready = [{"type": "Ready", "status": "True"}]
    containers = [{"name": "router", "state": {"running": {}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{mesh}-0", "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]},
        "spec": {},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": ready, "containerStatuses": containers},
    }


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


def pool_of(lab: Lab, port: int) -> tuple[Pool, SomeSilent]:
    """A pool whose routers at 127.0.0.1 never answer."""
    reach = SomeSilent(lab, port)
    clock = asyncio.get_running_loop().time
    pace = dataclasses.replace(lab.world.pace, busy_s=1.0, busiest_s=5.0, resync_s=30.0, patience_s=FOR_EVER_S)
    lab.world = dataclasses.replace(lab.world, reach=reach, clock=clock, pace=pace)
    pool = Pool(lab.world)
    lab.inventory.changed = pool.wake
    return pool, reach


def test_a_mesh_acts_at_once_beside_a_hundred_whose_routers_do_not_answer() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        for number in range(LOST):
            lab.kube.put(resource("Router", f"lost-{number}", size=1))
        with silent_port() as port:
            pool, reach = pool_of(lab, port)
            pool.start()
            for mesh in lab.inventory.meshes():
                pool.wake(mesh)
            await until(lambda: len(lab.kube.select("StatefulSet")) == LOST + 1)
            for stateful_set in lab.kube.select("StatefulSet"):
                if stateful_set["metadata"]["name"] != "mesh":
                    lab.kube.put(pod_of(stateful_set["metadata"]["name"], stateful_set))
            await until(lambda: reach.asked == LOST)
            lab.add("Address", "orders", prefix="orders", distribution="balanced")
            await until(lambda: lab.live("mesh-0").names("router.config.address") != [])
        await pool.stop()

    run(story)


def row(lab: Lab, name: str) -> dict[str, Any]:
    return next(dict(item) for item in lab.status()["routers"] if item["id"] == name)


def on_node(lab: Lab, pod: str, node: str) -> None:
    lab.kube.edit("Pod", NAMESPACE, pod, lambda body: body["spec"].update(nodeName=node))


def mute(router: str, verb: str, what: str) -> None:
    """Let mesh-1 not answer; the other routers see that it runs."""
    if router == "mesh-1":
        raise ConnectionFailed(router, 55672, "no answer")


def test_one_unanswered_request_does_not_make_a_mesh_unready() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        on_node(lab, "mesh-1", "node-7")
        lab.mesh.fail = mute
        assert await lab.turn() == "busy"
        assert lab.condition("Ready")[0] == "True"
        assert (lab.condition("Converged")[0], row(lab, "mesh-1")["state"]) == ("True", "Running")
        await lab.turn()
        assert lab.condition("Ready") == ("False", "RouterNotAnswering")
        assert lab.condition("Stalled")[0] == "False"
        message = "the router on node node-7 has not answered the operator since 2026-01-01T"
        assert row(lab, "mesh-1")["message"].startswith(message)
        lab.mesh.fail = lambda router, verb, what: None
        await lab.settle()
        assert (lab.condition("Ready")[0], "reason" in row(lab, "mesh-1")) == ("True", False)

    run(story)


def drains(lab: Lab) -> list[str]:
    """The drainStatus of each router that the present worker has heard of."""
    contacts = lab.worker._place.routers._contacts.values()
    return [contact.reported.drain for contact in contacts if contact.reported is not None]


def test_a_router_that_answers_request_after_request_is_not_silent_however_long_all_of_them_take() -> None:
    """As thousands of Addresses are read on a busy machine. Without an answer for 15 s amid them, it is silent."""

    async def story(lab: Lab) -> None:
        lab.router(2)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.settle()
        released = threading.Event()
        pace = dataclasses.replace(lab.world.pace, patience_s=0.01)
        lab.worker = MeshWorker(MESH, dataclasses.replace(lab.world, pace=pace))
        async with asyncio.timeout(DEADLINE_S):
            while len(drains(lab)) < 2:
                await lab.turn()
                await asyncio.sleep(0.01)

        def slow(router: str, verb: str, what: str) -> None:
            if router == "mesh-1":
                released.wait(DEADLINE_S)

        lab.mesh.fail = slow
        try:
            for _ in range(20):
                lab.live("mesh-0").answered_at = lab.live("mesh-1").answered_at = lab.seconds
                await lab.turn()
                told = lab.condition("Ready"), lab.condition("Programmed", "Address", "orders")
                assert told == (("True", "Ready"), ("True", "Programmed"))
            for _ in range(8):
                await lab.turn()
            assert lab.condition("Ready") == ("False", "RouterNotAnswering")
            assert lab.condition("Programmed", "Address", "orders") == ("False", "RouterLost")
        finally:
            released.set()

    run(story)


def test_a_new_operator_leaves_the_status_until_it_has_heard_of_the_routers() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        before = lab.status()
        lab.anew()
        lab.mesh.fail = mute
        assert await lab.turn() == "busy"
        assert lab.status() == before
        await lab.turn()
        assert lab.condition("Ready") == ("False", "RouterNotAnswering"), "twice"
        lab.mesh.fail = lambda router, verb, what: None
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_a_router_that_does_not_answer_is_asked_less_and_less() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        lab.live("mesh-1").up = False
        asked = []
        lab.mesh.fail = lambda router, verb, what: asked.append(lab.seconds) if router == "mesh-1" else None
        for _ in range(60):
            await lab.turn()
        between = [later - earlier for earlier, later in itertools.pairwise(asked)]
        assert between == [2, 2, 4, 8, 16, 30, 30]

    run(story)


def test_a_router_that_does_not_answer_once_is_not_removed_without_a_drain() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        lab.live("mesh-1").up = False
        lab.router(1)
        await lab.turn()
        assert lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["replicas"] == 2
        lab.live("mesh-1").up = True
        await lab.turn()
        assert lab.live("mesh-1").router["draining"]

    run(story)


def test_the_other_routers_of_a_mesh_are_changed_while_one_is_silent() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        released = threading.Event()
        pace = dataclasses.replace(lab.world.pace, patience_s=0.01)
        lab.worker = MeshWorker(MESH, dataclasses.replace(lab.world, pace=pace))

        def silent(router: str, verb: str, what: str) -> None:
            if router == "mesh-1":
                released.wait(DEADLINE_S)

        lab.mesh.fail = silent
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        try:
            await lab.until(lambda: lab.live("mesh-0").names("router.config.address") != [])
            assert lab.live("mesh-1").names("router.config.address") == []
        finally:
            released.set()
        woken = asyncio.Event()
        lab.inventory.changed = lambda mesh: woken.set()
        async with asyncio.timeout(DEADLINE_S):
            while not lab.live("mesh-1").names("router.config.address"):
                await lab.turn()
                await asyncio.sleep(0.01)

    run(story)


def test_a_node_that_does_not_answer_is_named() -> None:
    """Kubernetes then sets the condition of the pod, and the state of its container stays as it was."""

    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        lab.live("mesh-1").up = False

        def lose(pod: dict[str, Any]) -> None:
            pod["spec"]["nodeName"] = "worker-7"
            lost = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:40Z"}
            pod["status"]["conditions"] = [lost]
            pod["status"]["containerStatuses"] = [{"name": "router", "ready": True, "state": {"running": {}}}]

        lab.kube.edit("Pod", NAMESPACE, "mesh-1", lose)
        await lab.until(lambda: lab.condition("Ready") == ("False", "NodeNotAnswering"))
        (row,) = (row for row in lab.status()["routers"] if row["id"] == "mesh-1")
        assert row["message"] == "node worker-7 does not answer since 2026-01-01T00:00:40Z"
        assert "node worker-7" in str(lab.status()["conditions"])

    run(story)
