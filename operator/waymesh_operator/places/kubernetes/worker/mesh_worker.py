"""The worker of one mesh: repeats observe → plan → apply → status.

All state is in the cluster: a new worker continues from the observed state, wherever its predecessor was interrupted. A
turn acts on the current state, not on events, so events may be lost, duplicated or late.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping
from typing import Any

from waymesh_operator.errors import KubeError, NamespaceEnding, WaymeshError
from waymesh_operator.kube import CERT_MANAGER, CLAIM, OWNED, RESOURCES, ROUTER, SELECTOR
from waymesh_operator.places.kubernetes.apply import DeliveredSeeds, ObjectWriter, Refusals, Result, carry_out
from waymesh_operator.places.kubernetes.context import ClusterContext, referenced_secrets, tls_request
from waymesh_operator.places.kubernetes.exposure import exposed_addresses
from waymesh_operator.places.kubernetes.objects import RESTARTED_ANNOTATION, seeds_now
from waymesh_operator.planning.actions import Action, Scale
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.status.conditions import EXPIRING, MeshSnapshot, consumers_by_address, ends_in_seconds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.actions import DrainRouter
from waymesh_operator.router_entities.credentials import USERS_FILE
from waymesh_operator.router_entities.names import SERVICE_ACCOUNT_KEYS, leads_out
from waymesh_operator.router_entities.tokens import UNKNOWN, ServiceAccountKeys
from waymesh_operator.routers.live_router import pod_view
from waymesh_operator.routers.observed import ObservedMesh, RouterState

from .environment import NORMAL, WARNING, Environment
from .inventory import Key, Object, Parser
from .live_mesh import Routers, secret_data
from .observation import Routes, UserSecrets, mesh_tls, read_claims, troubles
from .ownership import OTHER_OPERATOR, operator_of
from .reconcile_pass import Observation, ReconcilePass, growth, holds, planned, repairs
from .status_writer import Statuses
from .steady import SteadyState

log = logging.getLogger(__name__)
PASSES = 4
"""Maximum passes of a reconcile. It continues while there is something to do, so that the status shows the result."""
ISSUED_ANNOTATION = "cert-manager.io/certificate-name"
"""Annotation of Secrets that cert-manager writes."""
_RESOURCES = frozenset(kind.kind for kind in RESOURCES)
_WATCHED = _RESOURCES | {kind.kind for kind in OWNED}


class MeshWorker:
    """Reconciles one mesh; `turn` is one reconcile."""

    def __init__(self, mesh: Ref, world: Environment) -> None:
        self.mesh = mesh
        self._world = world
        self._parser = Parser()
        self._routers = Routers(mesh, world)
        self._secrets = UserSecrets(mesh, world)
        self._routes = Routes(mesh, world)
        self._statuses = Statuses(mesh, world)
        self._refusals = Refusals(world.clock, world.pace.least_resync_s)
        self._delivered = DeliveredSeeds()
        self._steady = SteadyState(world.clock, world.now)
        self._repaired: int | None = None
        self._desired_secrets: dict[str, Any] = {}

    async def close(self) -> None:
        """Close all connections to routers."""
        await self._routers.close()

    async def turn(self) -> str | None:
        """Reconcile once. Returns `done` when observed and desired state agree, `busy` while something is in progress,
        None when nothing of the mesh is left. Raises WaymeshError."""
        objects = dict(self._world.inventory.of(self.mesh))
        if not objects:
            self._world.references.note(self.mesh, {})
            self._world.others.left.pop(self.mesh, None)
            return None
        if not await self._is_ours(objects):
            await self._routers.close()
            return "done"
        resources = self._parser.resources(self.mesh, objects)
        if not resources.router.uid:
            await self._routers.close()
            self._world.references.note(self.mesh, {})
            await self._statuses.write(resources, None, objects, self._parser.errors)
            return "done"
        result = "error"
        try:
            result = await self._reconcile(resources, objects)
        except NamespaceEnding as error:
            # The objects of a namespace are deleted in arbitrary order: wait until the Router is deleted too.
            log.info("the namespace is being deleted: %s", error)
            result = "busy"
        finally:
            await self._routers.rest()
        return result

    async def plan(self) -> tuple[Action, ...]:
        """Return the actions of the next reconcile. Changes nothing. Raises WaymeshError."""
        objects = dict(self._world.inventory.of(self.mesh))
        resources = self._parser.resources(self.mesh, objects)
        if not resources.router.uid:
            return ()
        return (await self._plan(resources, objects, *await self._observe(resources, objects))).actions

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
            self._store_response(None, objects[key])
            if owner:
                text = f"the operator of namespace {home} looks after this Router now: that of {owner} has ended"
                await self._world.recorder.record(body, NORMAL, "OperatorChanged", text)
        return True

    async def _reconcile(self, resources: Resources, objects: dict[Key, Object]) -> str:
        body = objects["Router", self.mesh.namespace, self.mesh.name]
        busy = False
        former: ReconcilePass | None = None
        for number in range(PASSES):
            observation, context = await self._observe(resources, objects)
            if not number and self._steady.holds(objects, observation, context):
                return "done"
            former = await self._plan(resources, objects, observation, context, former)
            this_pass, result = await self._pass(former, resources, body)
            busy = busy or bool(result.taken)
            if result.errors or not result.taken:
                break
            objects = dict(self._world.inventory.of(self.mesh))
        seen = self._seen(this_pass, result, resources, observation.others)
        status = await self._statuses.write(resources, seen, objects, self._parser.errors)
        self._measure(this_pass, status)
        if result.errors:
            raise WaymeshError("; ".join(result.errors))
        settled = _settled(status) or (bool(str(this_pass.desired.obstacles)) and not holds(status, "Draining"))
        busy = busy or not settled or self._refusals.soon or _is_moving(this_pass.observed.mesh)
        if busy:
            return "busy"
        if not self._refusals.reasons and not self._statuses.late:
            self._steady.keep(objects, observation, context)
        return "done"

    async def _pass(
        self, this_pass: ReconcilePass, resources: Resources, body: Object
    ) -> tuple[ReconcilePass, Result]:
        """Apply a plan. The results of our changes are known without reading again, so a second pass is cheap."""
        # What a router refused is not drift: nobody changed it.
        current = max(0, this_pass.drift.current - len(self._refusals.reasons))
        this_pass = dataclasses.replace(
            this_pass,
            drift=dataclasses.replace(this_pass.drift, current=current),
            changed_secrets=self._changed_secrets(this_pass.desired),
        )
        writer = ObjectWriter(self._world.kube, self.mesh.namespace, resources.router.uid, self._store_response)
        steps = self._refusals.due(this_pass.actions)
        result = await carry_out(steps, writer, self._routers.live, self._world.at_routers)
        self._refusals.note(this_pass.actions, result)
        self._count(this_pass, result, body)
        await self._record_events(this_pass, result, body)
        return this_pass, result

    def _store_response(self, event: str | None, body: Object) -> bool:
        """Store the response to a write. Kinds without a watch are left out: they would stay in the inventory forever,
        and with them a worker for a deleted mesh."""
        return body["kind"] in _WATCHED and self._world.inventory.see(event, body)

    def _changed_secrets(self, desired: DesiredState) -> frozenset[str]:
        """Return our Secrets whose desired contents changed (users' Secrets, renewal): writing them is not a repair."""
        wanted = {item["metadata"]["name"]: item["data"] for item in desired.objects if item["kind"] == "Secret"}
        former, self._desired_secrets = self._desired_secrets, wanted
        return frozenset(name for name, data in wanted.items() if former.get(name) != data)

    async def _observe(
        self, resources: Resources, objects: dict[Key, Object]
    ) -> tuple[Observation, ClusterContext]:
        """Return the state of the routers, and of the cluster as far as it is not in `objects`; adds to these what is
        not watched."""
        live = await self._routers.observe(objects, bool(resources.addresses))
        troubles_ = await troubles(self._world, self.mesh, objects, self._routers.pods)
        context = await self._context(resources, objects)
        router = objects["Router", self.mesh.namespace, self.mesh.name]
        others = await self._world.others.beside(router, self._world.settings.home)
        pods = self._routers.pods
        observation = Observation(
            live, troubles_, {name: pod.start_id for name, pod in pods.items()}, self._refusals.reasons, others
        )
        return observation, context

    async def _plan(
        self,
        resources: Resources,
        objects: dict[Key, Object],
        observation: Observation,
        context: ClusterContext,
        former: ReconcilePass | None = None,
    ) -> ReconcilePass:
        return await self._world.in_thread(
            functools.partial(planned, resources, context, objects, observation, self._delivered, former)
        )

    def _seen(
        self, this_pass: ReconcilePass, result: Result, resources: Resources, others: tuple[str, ...]
    ) -> MeshSnapshot:
        return MeshSnapshot(
            this_pass.desired,
            this_pass.observed,
            self._world.now(),
            refused=self._refusals.reasons,
            errors=tuple(result.errors),
            foreign=tuple(result.foreign),
            invalid=tuple(result.invalid),
            pending=(*this_pass.withheld, *(action for action in this_pass.actions if action not in result.taken)),
            consumers=consumers_by_address(resources.addresses, this_pass.live.consumers),
            vhosts=this_pass.live.vhosts,
            drift=this_pass.drift,
            repaired=self._repaired or 0,
            tls=this_pass.context.tls,
            secrets=this_pass.context.secrets,
            others=others,
        )

    async def _context(self, resources: Resources, objects: dict[Key, Object]) -> ClusterContext:
        """Return the present state of the cluster; adds routes and cert-manager's objects to the objects."""
        settings, namespace, name = self._world.settings, self.mesh.namespace, self.mesh.name
        request = tls_request(resources.router, settings)
        tls = await mesh_tls(request, objects, self._routers, self._world) if request else None
        stateful_set = objects.get(("StatefulSet", namespace, name))
        secrets = await self._secrets.read(referenced_secrets(resources))
        claims = await read_claims(self._world, namespace, resources.router.telemetry.claim)
        pod = _template(objects, self.mesh)
        routes = await self._routes.read(resources.router, objects)
        lacking = {(CLAIM, name): "" for name, modes in claims.items() if modes is None}
        self._world.references.note(self.mesh, {**self._secrets.versions(), **lacking})
        return ClusterContext(
            settings,
            secrets,
            tls,
            _replicas(stateful_set),
            _image(pod["spec"]),
            (request is None or _is_left_over(objects)) and await self._cert_manager(objects),
            claims,
            pod["spec"],
            str((pod["metadata"].get("annotations") or {}).get(RESTARTED_ANNOTATION, "")),
            users_now=self._users_now(objects),
            service_accounts=await self._service_accounts(resources, objects),
            routes=routes,
            addresses=exposed_addresses(resources.router, objects),
            seeds_now=seeds_now(name, objects),
        )

    def _users_now(self, objects: dict[Key, Object]) -> bytes:
        """Return the last desired users file, else the existing one, so that an edited file is restored."""
        name = f"{self.mesh.name}-credentials"
        wanted = {"data": self._desired_secrets[name]} if name in self._desired_secrets else None
        return secret_data(wanted or objects.get(("Secret", self.mesh.namespace, name)) or {}).get(USERS_FILE, b"")

    async def _service_accounts(self, resources: Resources, objects: dict[Key, Object]) -> ServiceAccountKeys:
        if not any(profile.of_cluster for profile in resources.router.token_profiles):
            return UNKNOWN
        secret = objects.get(("Secret", self.mesh.namespace, f"{self.mesh.name}-credentials"))
        live = secret_data(secret).get(SERVICE_ACCOUNT_KEYS, b"") if secret else b""
        return await self._world.service_accounts.read(self._world.kube, self._world.clock(), live)

    async def _cert_manager(self, objects: dict[Key, Object]) -> bool:
        """Return whether cert-manager is installed; adds its objects for this mesh to the objects."""
        selector = f"{SELECTOR}={self.mesh.name}"
        for kind in CERT_MANAGER:
            try:
                found = await self._world.kube.list(kind, self.mesh.namespace, selector)
            except KubeError as error:
                if error.missing or error.status == 403:
                    return False
                raise
            objects.update({(kind.kind, self.mesh.namespace, item["metadata"]["name"]): item for item in found})
        return True

    def _count(self, this_pass: ReconcilePass, result: Result, body: Object) -> None:
        """Count the applied actions; `repaired` continues from the status."""
        for action in result.taken:
            self._world.metrics.actions.labels(type(action).__name__, "done").inc()
        for outcome in result.refused:
            self._world.metrics.actions.labels(type(outcome.action).__name__, "refused").inc()
        if self._repaired is None:
            self._repaired = int(((body.get("status") or {}).get("drift") or {}).get("repaired") or 0)
        count = sum(repairs(action, this_pass, body) for action in result.taken)
        if count:
            self._repaired += count
            self._world.metrics.repairs.labels(self.mesh.namespace, self.mesh.name).inc(count)

    async def _record_events(self, this_pass: ReconcilePass, result: Result, body: Object) -> None:
        """Record Events of a pass."""
        record = self._world.recorder.record
        for action in result.taken:
            if repairs(action, this_pass, body):
                await record(body, NORMAL, "Repaired", f"repaired drift: {action.describe()}")
            elif isinstance(action, DrainRouter):
                await record(body, NORMAL, "Draining", action.describe())
            elif isinstance(action, Scale):
                await self._record_scaling(action, this_pass, body)
            elif grown := growth(action, this_pass):
                await record(body, NORMAL, "Scaled", grown)
        for error in result.errors:
            await record(body, WARNING, "StepFailed", error)
        for outcome in result.refused:
            if isinstance(outcome.action, DrainRouter):
                await record(body, WARNING, "StepFailed", outcome.error)

    async def _record_scaling(self, action: Scale, this_pass: ReconcilePass, body: Object) -> None:
        for router in this_pass.observed.mesh.routers.values():
            if router.ordinal >= action.replicas and router.facts.unsettled:
                text = f"{router.id} stops with {router.facts.unsettled} unsettled deliveries: the drain timed out"
                await self._world.recorder.record(body, WARNING, "DrainTimedOut", text)
        await self._world.recorder.record(body, NORMAL, "Scaled", action.describe())

    def _measure(self, this_pass: ReconcilePass, status: Mapping[str, Any]) -> None:
        metrics, labels = self._world.metrics, (self.mesh.namespace, self.mesh.name)
        metrics.drift.labels(*labels).set(this_pass.drift.current)
        metrics.converged.labels(*labels).set(holds(status, "Converged"))
        metrics.routers.labels(*labels).set(len(this_pass.observed.draining))
        metrics.expiring.labels(*labels).set(holds(status, EXPIRING))
        metrics.listeners_end(*labels, ends_in_seconds(status))


def _is_left_over(objects: Mapping[Key, Object]) -> bool:
    """Return whether cert-manager wrote a Secret of the mesh, and so may write it again."""
    return any(
        ISSUED_ANNOTATION in (body["metadata"].get("annotations") or {})
        for (kind, _, _), body in objects.items()
        if kind == "Secret"
    )


def _replicas(stateful_set: Object | None) -> int | None:
    return None if stateful_set is None else int(stateful_set["spec"].get("replicas", 1))


def _template(objects: Mapping[Key, Object], mesh: Ref) -> Object:
    """Return metadata and specification of the pods: those of the StatefulSet, or if it was deleted, of a remaining
    pod; empty if there are none."""
    stateful_set = objects.get(("StatefulSet", mesh.namespace, mesh.name))
    if stateful_set is not None:
        template = stateful_set["spec"]["template"]
        return {"metadata": template.get("metadata") or {}, "spec": template["spec"]}
    pods = (body for key, body in sorted(objects.items()) if key[0] == "Pod" and pod_view(body, mesh))
    return next(pods, {"metadata": {}, "spec": {}})


def _image(pod: Object) -> str:
    return str(next((item["image"] for item in pod.get("containers", ()) if item["name"] == "router"), ""))


def _settled(status: Mapping[str, Any]) -> bool:
    """Return whether nothing is in progress that watches do not report, so that the next reconcile can wait."""
    rolling = (status.get("tls") or {}).get("phase", "Stable") != "Stable"
    moving = rolling or holds(status, "Draining") or not holds(status, "Converged")
    return holds(status, "Paused") or not moving


def _is_moving(mesh: ObservedMesh) -> bool:
    """Return whether a router does not answer, or a connection or link to a broker or another mesh is changing state,
    which watches do not report."""
    if any(router.state is RouterState.SILENT for router in mesh.routers.values()):
        return True
    entities = (entity for router in mesh.routers.values() for entity in router.entities)
    return any(
        entity.attributes.get("operStatus") in ("attaching", "failed", "quiescing")
        or (leads_out(entity) and entity.attributes.get("connectionStatus") in ("CONNECTING", "FAILED"))
        for entity in entities
    )
