"""A router in a pod, over AMQP management: its state, and actions applied to it.

All methods block and run in threads, one at a time for each router: a cancelled turn leaves its thread running.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from waymesh_client.channel import Tls
from waymesh_operator.errors import LiveError
from waymesh_operator.router_entities.diff import (
    DrainRouter,
    EntityAction,
    MoveClients,
    RouterAction,
    UndrainRouter,
)
from waymesh_operator.router_entities.names import AUTOLINK, LINKROUTE, LISTENER, ROUTER, VHOST, Entity, leads_out
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
from .observed import RouterFacts, VhostCounts
from .pods import PodView

ENTITIES_S = 30.0
"""Maximum age of the entities that were read, while only the operator changes them."""
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

    def forget(self) -> None:
        """Make the next read fetch everything."""
        self._entities_at = self._facts_at = float("-inf")

    def look_at_tls(self, probe: Tls | None, now: float) -> TlsView:
        """Make a TLS handshake and note what the router presents."""
        self.view = self._reach.look(self.pod.address, self.tls, probe)
        self._tls_at = now
        return self.view

    def read(self, now: float, addresses: bool) -> Reading:
        """The state of the router, read again where it is too old. Raises LiveError."""
        with self._busy:
            return self._read(now, addresses)

    def _read(self, now: float, addresses: bool) -> Reading:
        try:
            if self._entities is None or now - self._entities_at >= ENTITIES_S:
                self._entities = {(e.type, e.name): e for e in read_entities(self._client)}
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
            self._entities[result.type, result.name] = result

    def _read_states(self, now: float) -> None:
        """Read the state that changes without the operator: entities of types that connect to brokers or other
        meshes."""
        assert self._entities is not None
        types = {e.type for e in self._entities.values() if e.type in (AUTOLINK, LINKROUTE) or leads_out(e)}
        fresh = read_entities(self._client, sorted(types))
        kept = {key: entity for key, entity in self._entities.items() if key[0] not in types}
        self._entities = kept | {(entity.type, entity.name): entity for entity in fresh}
        self._read_containers()
        self._states_at = now

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
        self._entities = {key: entity for key, entity in self._entities.items() if key[0] != ROUTER}
        self._entities[router.type, router.name] = router
        unsettled = int(router.attributes.get("unsettledDeliveries") or 0)
        self._drain = str(router.attributes.get("drainStatus") or "none")
        self._facts = RouterFacts(known, neighbours, unsettled)
        self._facts_at = now

    def _router(self) -> Entity:
        assert self._entities is not None
        return next(entity for entity in self._entities.values() if entity.type == ROUTER)

    @property
    def facts(self) -> RouterFacts:
        """The facts that were last read, with those from the pod and the handshake."""
        known = dataclasses.replace(self._facts, containers=self._containers)
        return dataclasses.replace(known, ready=self.pod.ready, certificate_not_after=self.view.not_after)
