"""A router in a pod: its pod as the API server shows it, with reasons why the router in it does not run; its state over
AMQP management, and actions applied to it.

All methods of LiveRouter block and run in threads, one at a time for each router: a cancelled turn leaves its thread
running."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_client.channel import Tls
from waymesh_operator.errors import LiveError
from waymesh_operator.kube import SELECTOR
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.actions import DrainRouter, EntityAction, MoveClients, RouterAction, UndrainRouter
from waymesh_operator.router_entities.names import (
    ADDRESS,
    AUTOLINK,
    LINKROUTE,
    LISTENER,
    ROUTER,
    VHOST,
    Entity,
    leads_out,
)
from waymesh_operator.tls.rollover import TlsView

from .management import (
    Reach,
    apply_entity,
    read_consumers,
    read_containers,
    read_entities,
    read_known,
    read_vhosts,
    set_client_share,
    set_draining,
)
from .observed import NO_TROUBLE, RouterFacts, Trouble, VhostCounts

LASTING_RESTARTS = 3
"""After this many ends without becoming ready, a router is not expected to recover by itself."""
_LONGEST = 400
_WAITING = {
    "ErrImagePull": "ImageUnavailable",
    "ImagePullBackOff": "ImageUnavailable",
    "ErrImageNeverPull": "ImageUnavailable",
    "InvalidImageName": "ImageUnavailable",
    "ImageInspectError": "ImageUnavailable",
    "RegistryUnavailable": "ImageUnavailable",
    "CreateContainerConfigError": "ConfigurationMissing",
    "CreateContainerError": "ContainerRefused",
    "RunContainerError": "ContainerRefused",
}
_STARTING = (None, "ContainerCreating", "PodInitializing")
_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")


def pod_trouble(pod: Mapping[str, Any], router: Mapping[str, Any], ready: bool) -> Trouble:
    """Return the trouble that the pod reports. `router` is the status of its router container."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return _trouble(str(status.get("reason") or "PodFailed"), status.get("message"))
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _trouble(str(scheduled.get("reason") or "Unschedulable"), scheduled.get("message"))
    ended = _ended(router)
    if ended and not ready:
        return ended
    others = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((found for item in others if (found := _waits(item))), NO_TROUBLE)


def event_trouble(events: Iterable[Mapping[str, Any]]) -> Trouble:
    """Return the trouble in the newest Event about a pod or a StatefulSet; None if that Event is not a warning."""
    newest = max(events, key=_moment, default={})
    reason, message = str(newest.get("reason") or ""), newest.get("message")
    if newest.get("type") != "Warning" or not reason.startswith("Failed"):
        return NO_TROUBLE
    if reason in _MOUNTS:
        return _trouble("VolumeUnavailable", message)
    if reason == "FailedCreate":
        return _trouble("QuotaExceeded" if "exceeded quota" in str(message) else "PodRefused", message)
    return _trouble(reason, message, lasting=False)


def _ended(router: Mapping[str, Any]) -> Trouble:
    """Describe a router that ended, or ended before and is not ready yet: its last log line, else its exit code."""
    state = router.get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason")
    last = state.get("terminated") or (router.get("lastState") or {}).get("terminated")
    if not last or waiting not in (None, "CrashLoopBackOff"):
        return NO_TROUBLE
    lines = str(last.get("message") or "").strip().splitlines()
    reason = last.get("reason") if last.get("reason") not in (None, "Error", "Completed") else None
    words = [f"exit code {last.get('exitCode', '?')}", *([str(reason)] if reason else [])]
    text = ", ".join(words) + (f": {lines[-1].strip()}" if lines else "")
    lasting = int(router.get("restartCount") or 0) >= LASTING_RESTARTS
    return _trouble("CrashLoop" if lasting else "Exited", text, lasting=lasting)


def _waits(container: Mapping[str, Any]) -> Trouble:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason")
    if reason in _STARTING:
        return NO_TROUBLE
    return _trouble(_WAITING.get(reason, str(reason)), waiting.get("message") or reason)


def _trouble(word: str, message: Any, *, lasting: bool = True) -> Trouble:
    text = " ".join(str(message or "").split())
    return Trouble(word, text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…", lasting)


def _moment(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


@dataclass(frozen=True, slots=True)
class PodView:
    """One router's pod. `address` is empty until it has one; `trouble`: why it does not run; `waits`: the
    kubelet has not started the router yet; `start_id` identifies one start of the router; `node` is its node's name;
    `node_silent_since`: when Kubernetes found that the node does not answer."""

    id: str
    ordinal: int
    uid: str
    address: str = ""
    running: bool = False
    ready: bool = False
    leaving: bool = False
    waits: bool = False
    trouble: Trouble = NO_TROUBLE
    start_id: str = ""
    node: str = ""
    node_silent_since: str = ""

    @property
    def reachable(self) -> bool:
        """Whether the router can be queried."""
        return self.running and bool(self.address) and not self.leaving


def pod_view(pod: Mapping[str, Any], mesh: Ref) -> PodView | None:
    """Return the view of a pod; None if it is not a router of this mesh (a pod of a job or helm test)."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    prefix, _, number = metadata["name"].rpartition("-")
    if prefix != mesh.name or not number.isdecimal() or (metadata.get("labels") or {}).get(SELECTOR) != mesh.name:
        return None
    containers = status.get("containerStatuses") or []
    router: Mapping[str, Any] = next((item for item in containers if item["name"] == "router"), {})
    ready = _condition(status, "Ready").get("status") == "True"
    return PodView(
        id=metadata["name"],
        ordinal=int(number),
        uid=metadata.get("uid", ""),
        address=status.get("podIP") or "",
        running="running" in (router.get("state") or {}),
        ready=ready,
        leaving=bool(metadata.get("deletionTimestamp")),
        waits=not metadata.get("deletionTimestamp") and "waiting" in (router.get("state") or {}),
        trouble=NO_TROUBLE if metadata.get("deletionTimestamp") else pod_trouble(pod, router, ready),
        start_id=f"{metadata.get('uid', '')}/{router.get('restartCount', 0)}",
        node=(pod.get("spec") or {}).get("nodeName") or "",
        node_silent_since=_node_silent_since(status, router),
    )


def _node_silent_since(status: Mapping[str, Any], router: Mapping[str, Any]) -> str:
    """Return when Kubernetes has set the pod not ready because its node does not answer; empty if it has not.

    The kubelet sets the condition together with the state of the containers. When it does not answer, only the
    condition changes. Source: MarkPodsNotReady of Kubernetes' node lifecycle controller.
    """
    condition = _condition(status, "Ready")
    alone = condition.get("status") == "False" and router.get("ready") and "running" in (router.get("state") or {})
    return str(condition.get("lastTransitionTime") or "?") if alone else ""


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = status.get("conditions") or []
    return next((item for item in conditions if item.get("type") == kind), {})


ENTITIES_S, READ_PER_S = 30.0, 100
"""Maximum age of the entities that were read, while only the operator changes them; thousands are read less often: so
many a second, averaged over the interval."""
STATES_S = 2.0
"""Maximum age of the state of connections and links to brokers."""
FACTS_S = 1.0
TLS_S = 300.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The last report of a router: `drain` is its drainStatus, `consumers` their number by mobile address."""

    entities: tuple[Entity, ...] = ()
    facts: RouterFacts = field(default_factory=RouterFacts)
    drain: str = "none"
    consumers: Mapping[str, int] = field(default_factory=dict)
    vhosts: VhostCounts = field(default_factory=VhostCounts)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action; `error` is the router's reason for refusing it."""

    action: RouterAction
    error: str = ""


class LiveRouter:
    """The connection to one router and the data read over it. The operator's changes are noted without reading
    again."""

    def __init__(self, pod: PodView, tls: Tls, reach: Reach) -> None:
        self.pod = pod
        self.tls = tls
        self.view = TlsView()
        self.beside: LiveRouter | None = None
        """Another router of the mesh. It has nearly the same addresses: those that are equal are the same objects."""
        self._reach = reach
        self._client = reach.client(pod.address, tls)
        self._entities: dict[tuple[str, str], Entity] | None = None
        self._facts = RouterFacts()
        self._drain = "none"
        self._consumers: Mapping[str, int] = {}
        self._vhosts = VhostCounts()
        self._containers: frozenset[str] = frozenset()
        self._entities_at = self._states_at = self._facts_at = self._tls_at = float("-inf")
        self._busy = threading.Lock()
        self._ended = False

    def serves(self, pod: PodView, tls: Tls) -> bool:
        """Return whether this connection is still the right one."""
        return (pod.uid, pod.address, tls) == (self.pod.uid, self.pod.address, self.tls)

    def end(self) -> None:
        """Close permanently: actions that run in another thread stop after the current one."""
        self._ended = True
        self.close()

    def close(self) -> None:
        """Close the connection; it is opened again when needed.

        The router would close it during a pause, because no heartbeats are sent between requests.
        """
        with self._busy:
            self._client.close()

    @property
    def answered_at(self) -> float:
        """When the router replied last, also amid a `read`; on the monotonic clock."""
        return self._client.answered_at

    def forget(self) -> None:
        """Make the next read fetch everything."""
        self._entities_at = self._facts_at = float("-inf")

    def look_at_tls(self, probe: Tls | None, now: float) -> TlsView:
        """Make a TLS handshake and note what the router presents."""
        self.view = self._reach.tls_view(self.pod.address, self.tls, probe)
        self._tls_at = now
        return self.view

    def read(self, now: float, addresses: bool) -> Reading:
        """The state of the router, read again where it is too old. Raises LiveError."""
        with self._busy:
            return self._read(now, addresses)

    def _read(self, now: float, addresses: bool) -> Reading:
        try:
            if self._entities is None or now - self._entities_at >= max(ENTITIES_S, len(self._entities) / READ_PER_S):
                self._entities = self._kept(read_entities(self._client))
                self._consumers = read_consumers(self._client) if addresses else {}
                there = any(entity.type == VHOST for entity in self._entities.values())
                self._vhosts = read_vhosts(self._client) if there else VhostCounts()
                self._read_containers()
                self._entities_at = self._states_at = now
            elif now - self._states_at >= STATES_S:
                self._read_states(now)
            if now - self._facts_at >= FACTS_S:
                self._read_facts(now)
        except LiveError:
            self._entities = None
            self._facts_at = float("-inf")
            raise
        if now - self._tls_at >= TLS_S:
            self.look_at_tls(None, now)
        return Reading(tuple(self._entities.values()), self._facts, self._drain, self._consumers, self._vhosts)

    def carry_out(self, actions: Iterable[RouterAction]) -> list[Outcome]:
        """Apply actions one by one; a refused one does not stop the others. Raises LiveError if there is no answer."""
        with self._busy:
            return [self._step(action) for action in actions]

    def _step(self, action: RouterAction) -> Outcome:
        if self._ended:
            raise LiveError("the operator has closed its connection to the router")
        try:
            if isinstance(action, DrainRouter | UndrainRouter):
                set_draining(self._client, self._router().name, getattr(action, "timeout_s", None))
                self._facts_at = float("-inf")
            elif isinstance(action, MoveClients):
                set_client_share(self._client, self._router().name, action.share, action.older_s)
                self._facts_at = float("-inf")
            else:
                self._note(action, apply_entity(self._client, action))
        except LiveError as error:
            if not error.refused:
                self.forget()
                raise
            return Outcome(action, error.refused)
        return Outcome(action)

    def _note(self, action: EntityAction, result: Entity | None) -> None:
        """Note the effect of an action on the router's entities."""
        assert self._entities is not None
        if result is None:
            self._entities.pop((action.entity.type, action.entity.name), None)
        else:
            self._entities[result.type, result.name] = self._shared(result)

    def _read_states(self, now: float) -> None:
        """Read the state that changes without the operator: entities of types that connect to brokers or other
        meshes."""
        assert self._entities is not None
        types = {e.type for e in self._entities.values() if e.type in (AUTOLINK, LINKROUTE) or leads_out(e)}
        fresh = read_entities(self._client, sorted(types))
        kept = {key: entity for key, entity in self._entities.items() if key[0] not in types}
        self._entities = kept | self._kept(fresh)
        self._read_containers()
        self._states_at = now

    def _kept(self, read: Iterable[Entity]) -> dict[tuple[str, str], Entity]:
        """Return what was read, by type and name. What has not changed remains the same object, so that comparing
        thousands of entities costs little."""
        former = self._entities or {}
        found = {}
        for entity in read:
            key = entity.type, entity.name
            known = former.get(key)
            same = known is not None and known.attributes == entity.attributes
            found[key] = known if known is not None and same else self._shared(entity)
        return found

    def _shared(self, entity: Entity) -> Entity:
        """Return an address as the equal object of the other router, if that has it."""
        others = self.beside._entities if self.beside is not None and entity.type == ADDRESS else None
        known = others.get((entity.type, entity.name)) if others else None
        return known if known is not None and known.attributes == entity.attributes else entity

    def _read_containers(self) -> None:
        """Read which brokers are connected; only if there is a listener for them, as a router may have many
        connections."""
        assert self._entities is not None
        listeners = (entity for entity in self._entities.values() if entity.type == LISTENER)
        takes = any(entity.attributes.get("role") == "route-container" for entity in listeners)
        self._containers = read_containers(self._client) if takes else frozenset()

    def _read_facts(self, now: float) -> None:
        assert self._entities is not None
        (router,) = read_entities(self._client, (ROUTER,))
        known, neighbours = read_known(self._client, self.pod.id)
        for key in [key for key in self._entities if key[0] == ROUTER]:
            del self._entities[key]
        self._entities[router.type, router.name] = router
        unsettled = int(router.attributes.get("unsettledDeliveries") or 0)
        self._drain = str(router.attributes.get("drainStatus") or "none")
        edges = int(router.attributes.get("edgesWithoutGroup") or 0)  # older routers do not report it
        full = router.attributes.get("memoryState") == "full"
        limit = int(router.attributes.get("memoryLimit") or 0)
        self._facts = RouterFacts(
            known, neighbours, unsettled, edges_without_group=edges, memory_full=full, memory_limit=limit if full else 0
        )
        self._facts_at = now

    def _router(self) -> Entity:
        assert self._entities is not None
        return next(entity for entity in self._entities.values() if entity.type == ROUTER)

    @property
    def facts(self) -> RouterFacts:
        """The facts that were last read, with those from the pod and the handshake."""
        known = dataclasses.replace(self._facts, containers=self._containers)
        return dataclasses.replace(known, ready=self.pod.ready, certificate_not_after=self.view.not_after)
