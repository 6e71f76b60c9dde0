"""Why routers that should run do not: what their pods say, and where these are silent, Events about them.

Events are not watched. They are asked for by the object that they are about, and only while a pod is missing or does
not get on: a quota shows in the StatefulSet's alone, a volume that cannot be mounted in the pod's.
"""

from __future__ import annotations

from collections.abc import Mapping

from waymesh_operator.cluster.observed import Trouble
from waymesh_operator.errors import KubeError
from waymesh_operator.kube.kinds import EVENT
from waymesh_operator.resources.model import Ref
from waymesh_operator.routers.pods import PodView
from waymesh_operator.routers.trouble import event_trouble

from .inventory import Key, Object
from .world import World

ASKED = 3
"""Pods of one mesh whose Events are asked for in one turn."""


async def hindrances(
    world: World, mesh: Ref, objects: Mapping[Key, Object], pods: Mapping[str, PodView]
) -> dict[str, Trouble]:
    """The trouble of each router that has some, by its id."""
    found = {name: pod.trouble for name, pod in pods.items() if pod.trouble}
    stuck = [pod for pod in pods.values() if pod.waits and not pod.trouble]
    for pod in stuck[:ASKED]:
        trouble = event_trouble(await _events(world, mesh, pod.uid))
        if trouble:
            found[pod.id] = trouble
    stateful_set = objects.get(("StatefulSet", mesh.namespace, mesh.name))
    wanted = int(stateful_set["spec"].get("replicas", 1)) if stateful_set else 0
    missing = [name for name in (f"{mesh.name}-{k}" for k in range(wanted)) if name not in pods]
    if stateful_set and missing:
        trouble = event_trouble(await _events(world, mesh, stateful_set["metadata"].get("uid", "")))
        found |= dict.fromkeys(missing, trouble) if trouble else {}
    return found


async def _events(world: World, mesh: Ref, uid: str) -> list[Object]:
    """Events about an object; none when they cannot be read: without them a status is only less clear."""
    try:
        return list(await world.kube.list(EVENT, mesh.namespace, fields=f"involvedObject.uid={uid}"))
    except KubeError:
        return []
