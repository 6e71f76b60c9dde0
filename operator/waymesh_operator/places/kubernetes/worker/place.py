"""A mesh in Kubernetes as the place of its reconciler: what is observed in the cluster, applied to it, and written into
the statuses there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import CERT_MANAGER, CLAIM, OWNED, RESOURCES, SELECTOR
from waymesh_operator.places.kubernetes.apply import ObjectWriter, carry_out
from waymesh_operator.places.kubernetes.context import ClusterContext, referenced_secrets, tls_request
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.exposure import exposed_addresses
from waymesh_operator.places.kubernetes.objects import RESTARTED_ANNOTATION, seeds_now
from waymesh_operator.places.place import Observation, Pass, Result, State
from waymesh_operator.planning.actions import Action, Scale
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.status.conditions import EXPIRING, MeshSnapshot, ends_in_seconds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.actions import DrainRouter, EntityAction
from waymesh_operator.router_entities.credentials import USERS_FILE
from waymesh_operator.router_entities.names import ADDRESS, SERVICE_ACCOUNT_KEYS, leads_out
from waymesh_operator.router_entities.tokens import UNKNOWN, ServiceAccountKeys
from waymesh_operator.routers.live_router import pod_view
from waymesh_operator.routers.observed import ObservedMesh, RouterState

from .environment import NORMAL, WARNING, Environment
from .inventory import Key, Object, Parser
from .live_mesh import Routers, secret_data
from .observation import Routes, UserSecrets, mesh_tls, read_claims, troubles
from .repairs import growth, holds, repairs
from .status_writer import Statuses

PASSES = 4
"""Maximum passes of a reconcile. It continues while there is something to do, so that the status shows the result."""
ISSUED_ANNOTATION = "cert-manager.io/certificate-name"
"""Annotation of Secrets that cert-manager writes."""
_RESOURCES = frozenset(kind.kind for kind in RESOURCES)
_WATCHED = _RESOURCES | {kind.kind for kind in OWNED}
_T = TypeVar("_T")


class KubernetesPlace:
    """The objects and pods of one mesh (see `Place`). `parser` knows which resources cannot be parsed."""

    passes = PASSES

    def __init__(self, mesh: Ref, world: Environment, parser: Parser) -> None:
        self.mesh = mesh
        self.routers = Routers(mesh, world)
        self.statuses = Statuses(mesh, world)
        self._parser = parser
        self._world = world
        self._secrets = UserSecrets(mesh, world)
        self._routes = Routes(mesh, world)
        self._repaired: int | None = None
        self._desired_secrets: dict[str, Any] = {}
        self._objects: dict[Key, Object] = {}
        self._others: tuple[str, ...] = ()
        self._told: set[str] = set()  # routers whose entities were changed after their last report

    @property
    def router(self) -> Object:
        """The Router in the present pass."""
        return self._objects["Router", self.mesh.namespace, self.mesh.name]

    @property
    def was_converged(self) -> bool:
        """See Place."""
        return holds(self.router.get("status") or {}, "Converged")

    async def observe(self, resources: Resources) -> Observation:
        """See Place."""
        self._objects = dict(self._world.inventory.of(self.mesh))
        live = await self.routers.observe(self._objects, bool(resources.addresses))
        self._told -= {name for name, router in live.mesh.routers.items() if router.state is RouterState.RUNNING}
        pods = self.routers.pods
        found = await troubles(self._world, self.mesh, self._objects, pods)
        return Observation(
            live.mesh,
            live.draining,
            {name: pod.start_id for name, pod in pods.items()},
            {**live.silent, **found},
            consumers=live.consumers,
            vhosts=live.vhosts,
        )

    async def facts(self, resources: Resources) -> ClusterContext:
        """See Place."""
        context = await self._context(resources, self._objects)
        self._others = await self._world.others.beside(self.router, self._world.settings.home)
        return context

    def desired(self, resources: Resources, facts: ClusterContext) -> DesiredState:
        """See Place."""
        return desired_cluster(resources, facts)

    def objects(self) -> dict[tuple[str, str], Object]:
        """See Place."""
        return {(kind, name): body for (kind, _, name), body in self._objects.items() if kind not in _RESOURCES}

    def versions(self) -> object:
        """See Place."""
        return self._objects, self._others  # objects that have not changed are the same

    async def compute(self, work: Callable[[], _T]) -> _T:
        """See Place."""
        return await self._world.in_thread(work)

    async def apply(self, this_pass: Pass, steps: Sequence[Action]) -> Result:
        """See Place. The results of our changes are known without reading again, so a second pass is cheap."""
        changed = self._changed_secrets(this_pass.desired)
        writer = ObjectWriter(self._world.kube, self.mesh.namespace, this_pass.desired.uid, self.store_response)
        result = await carry_out(steps, writer, self.routers.live, self._world.at_routers)
        self._told |= {action.router_id for action in result.taken if isinstance(action, EntityAction)}
        repaired = [action for action in result.taken if repairs(action, this_pass, self.router, changed)]
        self._count(repaired, result)
        await self._record_events(this_pass, result, repaired)
        return result

    async def write_status(self, this_pass: Pass, result: Result, seen: MeshSnapshot) -> State:
        """See Place."""
        if self._unheard(this_pass):
            return "busy"
        context: ClusterContext = this_pass.facts
        seen = replace(
            seen, repaired=self._repaired or 0, tls=context.tls, secrets=context.secrets, others=self._others
        )
        status = await self.statuses.write(this_pass.resources, seen, self._objects, self._parser.errors)
        self._measure(this_pass, status)
        stalled = bool(this_pass.desired.obstacles.starting) and not holds(status, "Draining")
        if not (_settled(status) or stalled) or _is_moving(this_pass.observed.mesh):
            return "busy"
        return "late" if self.statuses.late else "done"

    def _unheard(self, this_pass: Pass) -> bool:
        """Return whether all statuses stay as they are for now, because what routers have is not known. It is no sign
        of trouble before they count as silent. Either they were changed and have not answered since: the status of
        thousands of resources would be written twice. Or a Router is Ready, this operator has just begun, and routers
        whose pods are ready have not answered it yet."""
        asked = self.routers.live.keys() - this_pass.observed.troubles.keys()
        routers = [one for name, one in this_pass.observed.mesh.routers.items() if name in asked]
        if any(one.state is RouterState.SILENT and one.id in self._told for one in routers):
            return True
        waits = any(one.state is RouterState.STARTING and one.facts.ready for one in routers)
        return waits and holds(self.router.get("status") or {}, "Ready")

    def store_response(self, event: str | None, body: Object) -> bool:
        """Store the response to a write. Kinds without a watch are left out: they would stay in the inventory forever,
        and with them a worker for a deleted mesh."""
        return body["kind"] in _WATCHED and self._world.inventory.see(event, body)

    def _changed_secrets(self, desired: DesiredState) -> frozenset[str]:
        """Return our Secrets whose desired contents changed (users' Secrets, renewal): writing them is not a repair."""
        wanted = {item["metadata"]["name"]: item["data"] for item in desired.objects if item["kind"] == "Secret"}
        former, self._desired_secrets = self._desired_secrets, wanted
        return frozenset(name for name, data in wanted.items() if former.get(name) != data)

    async def _context(self, resources: Resources, objects: dict[Key, Object]) -> ClusterContext:
        """Return the present state of the cluster; adds routes and cert-manager's objects to the objects."""
        settings, namespace, name = self._world.settings, self.mesh.namespace, self.mesh.name
        request = tls_request(resources.router, settings)
        tls = await mesh_tls(request, objects, self.routers, self._world) if request else None
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

    def _count(self, repaired: Sequence[Action], result: Result) -> None:
        """Count the applied actions; `repaired` continues from the status."""
        for action in result.taken:
            self._world.metrics.actions.labels(type(action).__name__, "done").inc()
        for outcome in result.refused:
            self._world.metrics.actions.labels(type(outcome.action).__name__, "refused").inc()
        if self._repaired is None:
            self._repaired = int(((self.router.get("status") or {}).get("drift") or {}).get("repaired") or 0)
        if repaired:
            self._repaired += len(repaired)
            self._world.metrics.repairs.labels(self.mesh.namespace, self.mesh.name).inc(len(repaired))

    async def _record_events(self, this_pass: Pass, result: Result, repaired: Sequence[Action]) -> None:
        """Record Events of a pass."""
        record, body = self._world.recorder.record, self.router
        of_drift = {id(action) for action in repaired}
        for action in result.taken:
            if id(action) in of_drift:
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

    async def _record_scaling(self, action: Scale, this_pass: Pass, body: Object) -> None:
        for router in this_pass.observed.mesh.routers.values():
            if router.ordinal >= action.replicas and router.facts.unsettled:
                text = f"{router.id} stops with {router.facts.unsettled} unsettled deliveries: the drain timed out"
                await self._world.recorder.record(body, WARNING, "DrainTimedOut", text)
        await self._world.recorder.record(body, NORMAL, "Scaled", action.describe())

    def _measure(self, this_pass: Pass, status: Mapping[str, Any]) -> None:
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
    entities = (one for router in mesh.routers.values() for one in router.entities if one.type != ADDRESS)
    return any(
        entity.attributes.get("operStatus") in ("attaching", "failed", "quiescing")
        or (leads_out(entity) and entity.attributes.get("connectionStatus") in ("CONNECTING", "FAILED"))
        for entity in entities
    )
