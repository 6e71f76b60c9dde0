"""The worker of one mesh in Kubernetes: reconciles it as long as this operator looks after its Router.

All state is in the cluster: a new worker continues from the observed state, wherever its predecessor was interrupted. A
turn acts on the current state, not on events, so events may be lost, duplicated or late.
"""

from __future__ import annotations

import logging

from waymesh_operator.errors import NamespaceEnding
from waymesh_operator.kube import ROUTER
from waymesh_operator.places.reconciler import Clocks, Reconciler
from waymesh_operator.planning.actions import Action
from waymesh_operator.resources.router import Ref

from .environment import NORMAL, WARNING, Environment
from .inventory import Key, Object, Parser
from .ownership import OTHER_OPERATOR, operator_of
from .place import KubernetesPlace

log = logging.getLogger(__name__)


class MeshWorker:
    """Reconciles one mesh; `turn` is one reconcile."""

    def __init__(self, mesh: Ref, world: Environment) -> None:
        self.mesh = mesh
        self._world = world
        self._parser = Parser()
        self._place = KubernetesPlace(mesh, world, self._parser)
        self._reconciler = Reconciler(self._place, Clocks(world.clock, world.now), world.pace.least_resync_s)

    async def close(self) -> None:
        """Close all connections to routers."""
        await self._place.routers.close()

    async def turn(self) -> str | None:
        """Reconcile once. Returns `done` when observed and desired state agree, `busy` while something is in progress,
        None when nothing of the mesh is left. Raises WaymeshError."""
        objects = dict(self._world.inventory.of(self.mesh))
        if not objects:
            self._world.references.note(self.mesh, {})
            self._world.others.left.pop(self.mesh, None)
            return None
        if not await self._is_ours(objects):
            await self._place.routers.close()
            return "done"
        objects = dict(self._world.inventory.of(self.mesh))  # as the reconciler observes them, too
        resources = self._parser.resources(self.mesh, objects)
        if not resources.router.uid:
            await self._place.routers.close()
            self._world.references.note(self.mesh, {})
            await self._place.statuses.write(resources, None, objects, self._parser.errors)
            return "done"
        result = "error"
        try:
            result = await self._reconciler.turn(resources)
        except NamespaceEnding as error:
            # The objects of a namespace are deleted in arbitrary order: wait until the Router is deleted too.
            log.info("the namespace is being deleted: %s", error)
            result = "busy"
        finally:
            await self._place.routers.rest()
        return result

    async def plan(self) -> tuple[Action, ...]:
        """Return the actions of the next reconcile. Changes nothing. Raises WaymeshError."""
        objects = dict(self._world.inventory.of(self.mesh))
        resources = self._parser.resources(self.mesh, objects)
        if not resources.router.uid:
            return ()
        return (await self._reconciler.plan(resources)).actions

    async def _is_ours(self, objects: dict[Key, Object]) -> bool:
        """Whether this operator looks after the Router. Claims it in its status if no other operator does."""
        namespace, name = place = self.mesh.namespace, self.mesh.name
        home, others = self._world.settings.home, self._world.others
        key = ("Router", namespace, name)
        body = objects.get(key)
        owner = operator_of(body) if home and body else home
        if body is not None and owner not in ("", home) and not await others.is_gone(owner):
            others.left[self.mesh] = owner
            self._world.metrics.left_to_others.labels(*place).set(1)
            text = f"the operator of namespace {owner} looks after this Router; that of {home} leaves it alone"
            await self._world.recorder.record(body, WARNING, OTHER_OPERATOR, text)
            return False
        others.left.pop(self.mesh, None)
        self._world.metrics.left_to_others.labels(*place).set(0)
        if body is not None and owner != home:
            status = {**(body.get("status") or {}), "operator": home}
            objects[key] = await self._world.kube.patch_status(ROUTER, namespace, name, status)
            self._place.store_response(None, objects[key])
            if owner:
                text = f"the operator of namespace {home} looks after this Router now: that of {owner} has ended"
                await self._world.recorder.record(body, NORMAL, "OperatorChanged", text)
        return True
