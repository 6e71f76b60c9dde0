"""The status of a Router."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.certificates import expires
from waymesh_operator.desired import ROUTER_LABEL, DesiredMesh
from waymesh_operator.entities import OWNED_PREFIX
from waymesh_operator.plan import ObservedRouter, RouterState
from waymesh_operator.specs import Router

from .conditions import Condition, rendered, timestamp
from .resources import verdict_conditions
from .seen import Seen

_STATES = {
    RouterState.STARTING: "Starting",
    RouterState.RUNNING: "Running",
    RouterState.EXITED: "Lost",
    RouterState.WAITING: "Lost",
    RouterState.DRAINING: "Draining",
}
NOT_READY = ("Stalled", "Failed", "Refused")
"""Reasons of Programmed for which a mesh is not ready."""
SHOWN = 3
"""How many of the same kind a message names."""


def router_status(router: Router, seen: Seen, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of the Router. `before` is its present one: a condition that does not change keeps its time."""
    live = seen.observed.mesh.routers
    status: dict[str, Any] = {
        "observedGeneration": router.generation,
        "size": len(live),
        "ready": sum(r.facts.ready and r.ordinal < router.size for r in live.values()),
        "selector": f"app.kubernetes.io/name=waymesh-router,{ROUTER_LABEL}={router.ref.name}",
        "drift": _drift(seen),
        "routers": [_row(name, seen) for name in _names(seen)],
        "conditions": rendered(_conditions(router, seen), before, router.generation, seen.now),
    }
    return status | ({"tls": _tls(seen)} if seen.tls else {})


def _names(seen: Seen) -> list[str]:
    """Wanted routers and those that are there, by ordinal."""
    ordinals = {router.id: router.ordinal for router in seen.desired.mesh.routers}
    ordinals |= {router.id: router.ordinal for router in seen.observed.mesh.routers.values()}
    return sorted(ordinals, key=lambda name: ordinals[name])


def _row(name: str, seen: Seen) -> dict[str, Any]:
    router = seen.observed.mesh.routers.get(name)
    if router is None:
        return {"id": name, "state": "Lost"}
    draining = seen.observed.draining.get(name, "none") != "none"
    row: dict[str, Any] = {"id": name, "state": "Draining" if draining else _STATES[router.state]}
    if router.state is RouterState.RUNNING:
        row |= {"neighbors": sorted(router.facts.neighbours), "unsettled": router.facts.unsettled}
    if router.facts.certificate_not_after is not None:
        row["certificateNotAfter"] = timestamp(router.facts.certificate_not_after)
    return row


def _drift(seen: Seen) -> dict[str, Any]:
    current, repaired = seen.drift.current, seen.repaired
    state = "Present" if current else "Repaired" if repaired else "None"
    return {"state": state, "current": current, "repaired": repaired, "unmanaged": seen.drift.unmanaged}


def _tls(seen: Seen) -> dict[str, Any]:
    assert seen.tls is not None
    told = {
        "phase": seen.tls.phase.name.capitalize(),
        "authority": seen.tls.generation,
        "authorityNotAfter": timestamp(expires(seen.tls.authority.certificate)),
    }
    if seen.tls.leaf.certificate:
        told["certificateNotAfter"] = timestamp(expires(seen.tls.leaf.certificate))
    return told | ({"message": seen.tls.message} if seen.tls.message else {})


def _conditions(router: Router, seen: Seen) -> list[Condition]:
    stalled = seen.desired.stalled
    found = [
        *verdict_conditions(seen.verdict("Router", router.ref)),
        Condition("Stalled", bool(stalled), "Stalled" if stalled else "NotStalled", stalled),
        _programmed(seen),
        _converged(seen),
        _restart_pending(router, seen),
        _draining(seen),
        Condition("Paused", router.paused, "Paused" if router.paused else "NotPaused"),
    ]
    return [*found, _ready(router, seen, {condition.type: condition for condition in found})]


def _programmed(seen: Seen) -> Condition:
    """Whether objects and routers are as they should be."""
    if seen.desired.stalled:
        return Condition("Programmed", False, "Stalled", seen.desired.stalled)
    if seen.errors:
        return Condition("Programmed", False, "Failed", "; ".join(seen.errors[:SHOWN]))
    if seen.refused:
        return _refused(seen)
    if seen.pending:
        message = f"{len(seen.pending)} steps, next: {seen.pending[0].describe()}"
        return Condition("Programmed", False, "Pending", message)
    if seen.drift.current:
        message = f"{seen.drift.current} entities were changed by hand and are left so"
        return Condition("Programmed", False, "Drift", message)
    return Condition("Programmed", True, "Programmed")


def _refused(seen: Seen) -> Condition:
    """What routers would not take: entities of the mesh itself, or of resources that refer to it and say so too."""
    own = {item: reason for item, reason in seen.refused.items() if not _is_dependent(item[1][1])}
    told = [f"{name}: {key[1]}: {reason}" for (name, key), reason in sorted((own or seen.refused).items())]
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return Condition("Programmed", False, "Refused" if own else "ResourcesRefused", "; ".join(told[:SHOWN]) + more)


def _is_dependent(entity: str) -> bool:
    parts = entity.split("/")
    return entity.startswith(OWNED_PREFIX) and parts[2] != "Router"


def _converged(seen: Seen) -> Condition:
    """Whether every wanted router runs, and sees all others and has its neighbours."""
    mesh = seen.desired.mesh
    running = {r.id: r for r in seen.observed.mesh.routers.values() if r.state is RouterState.RUNNING}
    lost = [router.id for router in mesh.routers if router.id not in running]
    if lost:
        return Condition("Converged", False, "RoutersMissing", f"waiting for {_some(lost)}")
    wrong = [name for name, peers in _neighbours(mesh).items() if not _sees(running[name], peers, mesh)]
    if wrong:
        return Condition("Converged", False, "PathsMissing", f"not all others are seen by {_some(wrong)}")
    return Condition("Converged", True, "Converged")


def _neighbours(mesh: DesiredMesh) -> dict[str, set[str]]:
    neighbours: dict[str, set[str]] = {router.id: set() for router in mesh.routers}
    for router in mesh.routers:
        for connector in router.connectors:
            neighbours[router.id].add(connector.peer)
            neighbours.setdefault(connector.peer, set()).add(router.id)
    return neighbours


def _sees(router: ObservedRouter, peers: set[str], mesh: DesiredMesh) -> bool:
    others = {other.id for other in mesh.routers} - {router.id} if peers else set()
    return others <= router.facts.known and peers <= set(router.facts.neighbours)


def _restart_pending(router: Router, seen: Seen) -> Condition:
    """Whether pods run something older than they should."""
    if seen.desired.restart_pending:
        return Condition("RestartPending", True, "NewDefaultImage", seen.desired.restart_pending)
    live = seen.observed.objects.get(("StatefulSet", router.ref.name), {})
    told = live.get("status") or {}
    old, new = told.get("currentRevision"), told.get("updateRevision")
    if old and new and old != new:
        updated = told.get("updatedReplicas", 0)
        return Condition("RestartPending", True, "Rolling", f"{updated} of {told.get('replicas', 0)} are restarted")
    return Condition("RestartPending", False, "UpToDate")


def _draining(seen: Seen) -> Condition:
    routers = seen.observed.mesh.routers
    leaving = [
        f"{name} ({router.facts.unsettled} unsettled)"
        for name, router in sorted(routers.items())
        if router.state is RouterState.DRAINING or seen.observed.draining.get(name, "none") != "none"
    ]
    if leaving:
        return Condition("Draining", True, "Draining", _some(leaving))
    return Condition("Draining", False, "NotDraining")


def _ready(router: Router, seen: Seen, others: Mapping[str, Condition]) -> Condition:
    """Whether the mesh does what it is there for; else the first reason why not.

    What a resource that refers to it lacks is for that resource to say, and a change under way disturbs nobody.
    """
    for kind in ("Accepted", "Converged"):
        if others[kind].holds is not True:
            return Condition("Ready", False, others[kind].reason, others[kind].message)
    live = seen.observed.mesh.routers
    waiting = [r.id for r in seen.desired.mesh.routers if r.id not in live or not live[r.id].facts.ready]
    if waiting:
        return Condition("Ready", False, "RoutersNotReady", f"waiting for {_some(waiting)}")
    if others["Programmed"].reason in NOT_READY:
        return Condition("Ready", False, others["Programmed"].reason, others["Programmed"].message)
    if others["ResolvedRefs"].holds is not True and not seen.verdict("Router", router.ref).spared:
        return Condition("Ready", False, others["ResolvedRefs"].reason, others["ResolvedRefs"].message)
    return Condition("Ready", True, "Ready" if router.size else "ScaledToZero")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
