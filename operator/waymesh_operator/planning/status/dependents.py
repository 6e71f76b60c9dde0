"""The status of the resources that refer to a Router. `before` is the present `.status` of the same resource."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from waymesh_operator.planning.mesh import DesiredRouter
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, Dependent, LinkRoute
from waymesh_operator.resources.exchange import Exchange
from waymesh_operator.resources.router_link import RouterLink
from waymesh_operator.resources.vhost_policy import VhostPolicy
from waymesh_operator.router_entities.builders import address_entity, autolink_entities, linkroute_entities
from waymesh_operator.router_entities.exchanges import exchange_entities
from waymesh_operator.router_entities.names import (
    BINDING,
    CONNECTOR,
    EXCHANGE,
    POLICY,
    QUIESCING,
    VHOST,
    Entity,
    broker_name,
    link_name,
    of_link,
)
from waymesh_operator.router_entities.policies import vhost_entity
from waymesh_operator.router_entities.verdicts import Verdict
from waymesh_operator.routers.observed import JUST_STARTED, RUNS, VhostCounts

from .conditions import ROUTER_MISSING, Condition, MeshSnapshot, link_expiring, link_validity, rendered, timestamp

LOST, REFUSED, MISSING, STARTING, UNKNOWN = "lost", "refused", "missing", "starting", "unknown"
WORST_FIRST = (
    REFUSED, "failed", LOST, MISSING, STARTING, UNKNOWN, "inactive", "attaching", "quiescing", "idle", "active",
)  # fmt: skip
"""States of an entity on a router, worst first: those that routers report, and those above."""
RESOLVED = "all references are resolved"
SHOWN = 3
"""Maximum number of routers named in a message."""
_CONNECTION = {"SUCCESS": "active", "CONNECTING": "attaching", "FAILED": "failed"}


@dataclass(frozen=True, slots=True)
class Row:
    """The state of a resource on one router."""

    id: str
    state: str
    error: str = ""
    # For a RouterLink: the id of the router to which this one is connected, and since when.
    peer: str = ""
    since: str = ""

    @property
    def programmed(self) -> bool:
        """Whether the router has what the resource requests."""
        return self.state not in (REFUSED, LOST, MISSING, STARTING)

    @functools.lru_cache(maxsize=1024)  # noqa: B019 - a row is a value
    def render(self) -> dict[str, Any]:
        """The row in `.status.routers`, which must not be changed: equal ones are one object."""
        optional = {"lastError": self.error, "peer": self.peer, "since": self.since}
        return {"id": self.id, "operStatus": self.state} | {name: text for name, text in optional.items() if text}


def address_status(
    address: Address, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of an Address. `seen` is None if the Router that it refers to does not exist (in all of these)."""
    rows = _rows("Address", address, [address_entity(address)], seen)
    fields = {"match": address.match, "consumers": seen.consumers.get(address.ref, 0) if seen else 0}
    return _status(_Case("Address", address, seen, rows), before, now) | fields


def autolink_status(
    autolink: AutoLink, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of an AutoLink."""
    rows = _rows("AutoLink", autolink, autolink_entities(autolink), seen)
    return _status_and_state(_Case("AutoLink", autolink, seen, rows), {"active": _share(rows)}, before, now)


def linkroute_status(
    linkroute: LinkRoute, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of a LinkRoute."""
    rows = _rows("LinkRoute", linkroute, linkroute_entities(linkroute), seen)
    links = sum(_count(entity, seen) for entity in linkroute_entities(linkroute)) if seen else 0
    fields = {"match": linkroute.match, "active": _share(rows), "links": links}
    return _status_and_state(_Case("LinkRoute", linkroute, seen, rows), fields, before, now)


def exchange_status(
    exchange: Exchange, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of an Exchange."""
    rows = _rows("Exchange", exchange, exchange_entities(exchange), seen)
    fields = {"bindings": len(exchange.bindings), "active": _share(rows)}
    return _status_and_state(_Case("Exchange", exchange, seen, rows), fields, before, now)


def broker_status(
    broker: Broker, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of a Broker."""
    if broker.incoming_id:
        return _incoming_status(broker, seen, before, now)
    rows = _rows("Broker", broker, [Entity(CONNECTOR, broker_name(broker.ref))], seen)
    return _status_and_state(_Case("Broker", broker, seen, rows), {"connected": _share(rows)}, before, now)


def _incoming_status(
    broker: Broker, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the status of a Broker that connects to the routers. One router is enough for it to be ready."""
    rows: list[Row] = []
    if seen is not None and seen.verdict("Broker", broker.ref).good:
        there = seen.connected(broker.incoming_id)
        rows = [
            lost(router, seen) or Row(router.id, "active" if router.id in there else "inactive")
            for router in seen.desired.mesh.routers
        ]
    fields = {"connected": _share(rows)}
    rows = _where_connected(rows, broker.incoming_id, seen) if seen else rows
    return _status_and_state(_Case("Broker", broker, seen, rows), fields, before, now)


def _where_connected(rows: Sequence[Row], container: str, seen: MeshSnapshot) -> list[Row]:
    """Return the rows of a broker that chooses its routers: a router without a connection is not an error, unless the
    broker is connected to no router."""
    there = seen.connected(container)
    idle = [row for row in rows if row.state == "inactive" and row.id not in there]
    if there:
        return [row for row in rows if row not in idle]
    not_connected = f"no broker with container-id {container} has connected"
    return [Row(row.id, row.state, row.error or not_connected) if row in idle else row for row in rows]


def router_link_status(
    link: RouterLink, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of a RouterLink."""
    found = _rows("RouterLink", link, [Entity(CONNECTOR, link_name(link.ref))], seen)
    rows = _dated([_of_other_name(row, link.router.name) for row in found], before, now)
    peers = sorted({row.peer for row in rows if row.peer})
    meshes = sorted({_mesh_of(peer) or peer for peer in peers})
    fields = {"connected": _share(rows), "peers": peers, "peer": ",".join(peers), "remoteMesh": ",".join(meshes)}
    validity = link_validity(link, seen)
    expiring = () if validity is None else (link_expiring(link, validity, now),)
    if validity is not None:
        fields["certificateNotAfter"] = timestamp(validity.end)
    return _status_and_state(_Case("RouterLink", link, seen, rows, expiring), fields, before, now)


def _dated(rows: Sequence[Row], before: Mapping[str, Any], now: datetime) -> list[Row]:
    """Return the rows with the time since which each has its peer, taken from `before` if the peer is the same."""
    former = {(row["id"], row.get("peer")): row.get("since") for row in before.get("routers") or ()}
    return [replace(row, since=former.get((row.id, row.peer)) or timestamp(now)) if row.peer else row for row in rows]


def _mesh_of(router_id: str) -> str:
    """Return the name of this router's Router: the id without its ordinal; empty if it has none."""
    name, _, ordinal = router_id.rpartition("-")
    return name if ordinal.isdecimal() else ""


def _of_other_name(row: Row, own: str) -> Row:
    """Return the row, or an error row if the router at the other end has an id that belongs to this Router."""
    if _mesh_of(row.peer) != own:
        return row
    return Row(row.id, "failed", f"{row.peer} is an id of this Router, too: give one of both meshes another name")


def vhost_policy_status(
    policy: VhostPolicy, seen: MeshSnapshot | None, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """`.status` of a VhostPolicy."""
    rows = _rows("VhostPolicy", policy, [vhost_entity(policy)], seen)
    counts = seen.vhosts if seen else VhostCounts()
    groups = [{"name": group.name, "denied": counts.denied[policy.hostname, group.name]} for group in policy.groups]
    denied = sum(number for (hostname, _), number in counts.denied.items() if hostname == policy.hostname)
    fields = {
        "active": _share(rows),
        "connections": counts.connections[policy.hostname],
        "denied": counts.refused[policy.hostname] + denied,
        "dryRunDenials": counts.dry_run[policy.hostname],
        "groups": groups,
    }
    return _status_and_state(_Case("VhostPolicy", policy, seen, rows), fields, before, now)


def _count(entity: Entity, seen: MeshSnapshot) -> int:
    """Return the number of links of a link route's entity, over all routers."""
    live = (one for by_key in seen.live.values() for one in by_key.get(entity.key))
    return sum(int(one.attributes.get("linkCount") or 0) for one in live)


@dataclass(frozen=True, slots=True)
class _Case:
    kind: str
    resource: Dependent
    seen: MeshSnapshot | None
    rows: Sequence[Row]
    # Conditions of this kind only.
    more: Sequence[Condition] = ()


def _rows(kind: str, resource: Dependent, entities: Sequence[Entity], seen: MeshSnapshot | None) -> list[Row]:
    """Return one row for each router that should have the entities, with the worst state if there are several."""
    if seen is None or not seen.verdict(kind, resource.ref).good:
        return []
    rows: dict[str, Row] = {}
    for entity in entities:
        for router in seen.placed(entity.name):
            row, former = _row(entity, router, seen), rows.get(router.id)
            rows[router.id] = row if former is None else min(former, row, key=lambda r: WORST_FIRST.index(r.state))
    container = next((seen.desired.containers.get(entity.name, "") for entity in entities), "")
    return _where_connected(list(rows.values()), container, seen) if container else list(rows.values())


def lost(router: DesiredRouter, seen: MeshSnapshot) -> Row | None:
    """Return the row of a router that does not answer; None for one that does."""
    observed = seen.observed.mesh.routers.get(router.id)
    if observed is None or observed.state not in RUNS:
        trouble = seen.observed.troubles.get(router.id)
        if trouble == JUST_STARTED:
            return Row(router.id, STARTING, trouble.message)
        why = "the router does not answer" if observed else "the router does not run"
        return Row(router.id, LOST, trouble.message or why if trouble else why)
    return None


def _row(entity: Entity, router: DesiredRouter, seen: MeshSnapshot) -> Row:
    gone = lost(router, seen)
    if gone is not None:
        return gone
    refused = seen.refused.get((router.id, entity.key))
    live = seen.live[router.id].get(entity.key)
    if refused:
        return Row(router.id, REFUSED, refused)
    if not live:
        return Row(router.id, MISSING, "not on the router yet")
    # Next to an entity that is being deleted, its replacement may exist already.
    chosen = live[0] if len(live) == 1 else min(live, key=lambda entity: bool(entity.attributes.get(QUIESCING)))
    if chosen.type == VHOST:
        return _enforced(router.id, seen)
    return _inactive(_reported_state(router.id, chosen), chosen, seen)


def _enforced(router_id: str, seen: MeshSnapshot) -> Row:
    """Return the state of a vhost, which routers do not report: active if the router enforces the vhost policies."""
    policies = seen.live[router_id].get((POLICY, ""))
    if any(entity.attributes.get("enableVhostPolicy") for entity in policies):
        return Row(router_id, "active")
    return Row(router_id, "inactive", "not enforced: set policy.enabled of the Router")


def _inactive(row: Row, live: Entity, seen: MeshSnapshot) -> Row:
    """Return the row, with the reason why the link's Broker is not connected."""
    name = str(live.attributes.get("connection") or "")
    if row.state != "inactive" or row.error or not name:
        return row
    for connector in seen.live[row.id].get((CONNECTOR, name)):
        reported = _reported_state(row.id, connector)
        return Row(row.id, row.state, f"the broker is not connected: {reported.error or reported.state}")
    return row


def _reported_state(router_id: str, live: Entity) -> Row:
    """Return the state that the router reports for an entity. Addresses, exchanges and bindings have none: they are
    active if they exist."""
    attributes = live.attributes
    if live.type == CONNECTOR:
        state = _CONNECTION.get(str(attributes.get("connectionStatus")), UNKNOWN)
        text = str(attributes.get("connectionMsg") or "")
        if state != "active":
            return Row(router_id, state, text)
        return Row(router_id, state, peer=_container_of(text) if of_link(live) else "")
    stateless = "distribution" in attributes or live.type in (EXCHANGE, BINDING)
    state = str(attributes.get("operStatus") or ("active" if stateless else UNKNOWN))
    known = state if state in WORST_FIRST else UNKNOWN
    return Row(router_id, known, "" if known == "active" else str(attributes.get("lastError") or ""))


def _container_of(message: str) -> str:
    """Return the peer's container-id from the connectionMsg of an open connection."""
    return message.partition("container_id=")[2]


def _status(case: _Case, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    generation = case.resource.generation
    return {
        "observedGeneration": generation,
        "routers": [row.render() for row in case.rows],
        "conditions": rendered([*_conditions(case), *case.more], before, generation, now),
    }


def _status_and_state(
    case: _Case, fields: Mapping[str, Any], before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the status with the fields of this kind, and the worst state on any router."""
    return {**_status(case, before, now), **fields, **_state(case)}


def _conditions(case: _Case) -> list[Condition]:
    if case.seen is None:
        message = f"there is no Router {case.resource.router.name}"
        missing = Verdict(resolved_refs=False, reason=ROUTER_MISSING, message=message)
        return [*verdict_conditions(missing), *_not_done(missing)]
    verdict = case.seen.verdict(case.kind, case.resource.ref)
    if not verdict.good:
        return [*verdict_conditions(verdict), *_not_done(verdict)]
    # First what costs nothing: there may be thousands of resources.
    if not case.seen.observed.mesh.routers and (stalled := case.seen.desired.obstacles.starting):
        router = Verdict(accepted=False, reason="RouterStalled", message=stalled)
        return [*verdict_conditions(verdict), *_not_done(router)]
    return [*verdict_conditions(verdict), _programmed(case.rows), _ready(case)]


def verdict_conditions(verdict: Verdict) -> list[Condition]:
    """Return Accepted and ResolvedRefs according to the verdict."""
    accepted = verdict.accepted and not verdict.conflicted
    problem = (verdict.reason, verdict.message)
    resolved = ("ResolvedRefs", RESOLVED) if verdict.resolved_refs else problem
    return [
        Condition("Accepted", accepted, *(("Accepted", _good(verdict)) if accepted else problem)),
        Condition("ResolvedRefs", verdict.resolved_refs, *resolved),
    ]


def _good(verdict: Verdict) -> str:
    return verdict.message if verdict.good and verdict.message else "the resource is valid"


def _not_done(verdict: Verdict) -> list[Condition]:
    return [Condition(kind, False, verdict.reason, verdict.message) for kind in ("Programmed", "Ready")]


def _programmed(rows: Sequence[Row]) -> Condition:
    lacking = [row for row in rows if not row.programmed]
    if not lacking:
        return Condition("Programmed", True, "Programmed", _on(rows))
    worst = min(lacking, key=lambda row: WORST_FIRST.index(row.state))
    reason = {REFUSED: "Refused", LOST: "RouterLost", MISSING: "Pending", STARTING: "Pending"}[worst.state]
    return Condition("Programmed", False, reason, f"{worst.id}: {worst.error}")


def _ready(case: _Case) -> Condition:
    if not case.rows:
        return Condition("Ready", False, "NoRouters", "the mesh has no router for it")
    waiting = [row for row in case.rows if row.state != "active"]
    if not waiting:
        return Condition("Ready", True, "Ready", _on(case.rows))
    worst = min(waiting, key=lambda row: WORST_FIRST.index(row.state))
    reason = "NotConnected" if case.kind in ("Broker", "RouterLink") else "NotActive"
    message = f"{worst.id}: {worst.error or worst.state}"
    return Condition("Ready", False, reason if worst.programmed else "NotProgrammed", message)


def _on(rows: Sequence[Row]) -> str:
    """Describe the routers on which the resource is active."""
    if not rows:
        return "the mesh has no router for it"
    names = ", ".join(row.id for row in rows[:SHOWN])
    return f"on {names}" + (f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")


def _share(rows: Sequence[Row]) -> str:
    return f"{sum(row.state == 'active' for row in rows)}/{len(rows)}"


def _state(case: _Case) -> dict[str, str]:
    """Return the worst state on any router, and the error there; for a resource that is not applied, why not."""
    rows = case.rows
    if case.seen is None:
        return {"state": ROUTER_MISSING, "lastError": f"there is no Router {case.resource.router.name}"}
    if not (verdict := case.seen.verdict(case.kind, case.resource.ref)).good:
        return {"state": verdict.reason, "lastError": verdict.message}
    worst = min(rows, key=lambda row: (WORST_FIRST.index(row.state), not row.error), default=None)
    error = next((f"{row.id}: {row.error}" for row in (worst, *rows) if row and row.error), "")
    return {"state": worst.state if worst else "", "lastError": error}
