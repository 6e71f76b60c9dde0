"""Routers that do not answer hold up no other mesh, and no other part of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kit.waiting import DEADLINE_S
from tests.operator.kit import NAMESPACE, Lab, resource, run
from waymesh_client.channel import Tls
from waymesh_operator.cluster.worker.pool import Pool
from waymesh_operator.kube import SELECTOR
from waymesh_operator.routers.management import LiveClient, SecureReach
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

    def client(self, address: str, tls: Tls) -> LiveClient:
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
