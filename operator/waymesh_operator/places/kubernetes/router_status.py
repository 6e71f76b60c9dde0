"""The status of a Router, with the addresses of its listeners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from waymesh_operator.planning.mesh import DesiredMesh
from waymesh_operator.planning.parts import CONFLICTED, REFUSED_OBJECT
from waymesh_operator.planning.status.conditions import (
    AUTHORITY,
    EXPIRING,
    LEAF,
    SHOWN,
    Condition,
    MeshSnapshot,
    expiring,
    expiry_rows,
    mesh_ends,
    rendered,
    timestamp,
)
from waymesh_operator.planning.status.dependents import verdict_conditions
from waymesh_operator.planning.status.obstacles import all_obstacles, reason_and_message, stalling
from waymesh_operator.planning.status.obstacles import rows as obstacle_rows
from waymesh_operator.planning.status.warnings import (
    edges_without_group,
    memory_full,
    memory_too_small,
    other_operator,
    some,
    unprotected,
)
from waymesh_operator.resources.router import Router
from waymesh_operator.router_entities.names import OWNED_PREFIX
from waymesh_operator.routers.observed import RUNS, ObservedRouter, RouterState, Trouble

from .exposure import Exposure, exposure_addresses, exposures, node_of, refusals
from .objects import ROUTER_LABEL

_STATES = {
    RouterState.STARTING: "Starting",
    RouterState.RUNNING: "Running",
    RouterState.SILENT: "Running",
    RouterState.EXITED: "Lost",
    RouterState.WAITING: "Lost",
    RouterState.DRAINING: "Draining",
}
NOT_READY_REASONS = ("Stalled", CONFLICTED, "ApiMissing", "Failed", "Refused", REFUSED_OBJECT)
"""Reasons of Programmed with which a mesh is not Ready."""
MISSING = "RoutersMissing"
"""The reason of Converged while routers do not run and nothing is known of why."""
TOLD_FOR = timedelta(minutes=5)
"""How long the state of drift is Repaired after a repair."""


def router_status(router: Router, seen: MeshSnapshot, before: Mapping[str, Any]) -> dict[str, Any]:
    """`.status` of the Router. `before` is its present one: a condition that does not change keeps its time."""
    live = seen.observed.mesh.routers
    ready = sum(r.facts.ready and r.ordinal < router.size for r in live.values())
    conditions = _conditions(router, seen)
    status: dict[str, Any] = {
        "observedGeneration": router.generation,
        "phase": phase(router, seen, {condition.type: condition for condition in conditions}, before),
        "size": len(live),
        "ready": ready,
        "readyRouters": f"{ready}/{router.size}",
        "selector": f"app.kubernetes.io/name=waymesh-router,{ROUTER_LABEL}={router.ref.name}",
        "drift": _drift(seen, before.get("drift") or {}),
        "routers": [_row(name, seen) for name in _names(seen)],
        "conditions": rendered(conditions, before, router.generation, seen.now),
    }
    if operator := before.get("operator"):
        status["operator"] = operator
    lasting = [(name, trouble) for name, trouble in _troubles(seen).items() if trouble.lasting]
    if obstacles := all_obstacles(seen, lasting):
        status["obstacles"] = obstacle_rows(obstacles)
    rows = merged_rows(expiry_rows(router, seen), exposure_rows(router, seen))
    return status | ({"tls": _tls(router, seen)} if seen.tls else {}) | ({"listeners": rows} if rows else {})


def _names(seen: MeshSnapshot) -> list[str]:
    """Return the ids of desired and existing routers, by ordinal."""
    ordinals = {router.id: router.ordinal for router in seen.desired.mesh.routers}
    ordinals |= {router.id: router.ordinal for router in seen.observed.mesh.routers.values()}
    return sorted(ordinals, key=lambda name: ordinals[name])


def _row(name: str, seen: MeshSnapshot) -> dict[str, Any]:
    router, trouble = seen.observed.mesh.routers.get(name), seen.observed.troubles.get(name)
    why = {"reason": trouble.word, "message": trouble.message} if trouble else {}
    if router is None:
        return {"id": name, "state": "Lost", **why}
    draining = seen.observed.draining.get(name, "none") != "none"
    row: dict[str, Any] = {"id": name, "state": "Draining" if draining else _STATES[router.state], **why}
    if router.state in RUNS:
        row |= {"neighbors": sorted(router.facts.neighbours), "unsettled": router.facts.unsettled}
    if router.facts.certificate_not_after is not None:
        row["certificateNotAfter"] = timestamp(router.facts.certificate_not_after)
    return row


def _drift(seen: MeshSnapshot, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drift status: a recent repair shows in the state, later only as count and time."""
    current, repaired = seen.drift.current, seen.repaired
    last = str(before.get("lastRepaired") or "")
    if repaired > int(before.get("repaired") or 0):
        last = timestamp(seen.now)
    recent = bool(last) and last > timestamp(seen.now - TOLD_FOR)
    state = "Present" if current else "Repaired" if recent else "None"
    fields = {"state": state, "current": current, "repaired": repaired, "unmanaged": seen.drift.unmanaged}
    return fields | ({"lastRepaired": last} if last else {})


def _tls(router: Router, seen: MeshSnapshot) -> dict[str, Any]:
    """Return phase and dates of the certificates that exist, not of those that are to be written."""
    assert seen.tls is not None
    status = {"phase": seen.tls.phase.name.capitalize(), "authority": seen.tls.generation}
    names = {AUTHORITY: "authorityNotAfter", LEAF: "certificateNotAfter"}
    ends = {names[end.what]: timestamp(end.validity.end) for end in mesh_ends(router, seen) if end.what in names}
    return status | ends | ({"message": seen.tls.message} if seen.tls.message else {})


def _conditions(router: Router, seen: MeshSnapshot) -> list[Condition]:
    found = [
        *verdict_conditions(seen.verdict("Router", router.ref)),
        _stalled(seen),
        _programmed(router, seen),
        _converged(router, seen),
        _restart_pending(router, seen),
        _draining(seen),
        _paused(router),
        expiring(router, seen),
        unprotected(router),
        memory_full(seen),
        *memory_too_small(router),
        *edges_without_group(router, seen),
        *other_operator(seen),
    ]
    return [*found, _ready(router, seen, {condition.type: condition for condition in found})]


def _stalled(seen: MeshSnapshot) -> Condition:
    """Return the condition: whether manual action is needed."""
    if found := stalling(seen):
        return Condition("Stalled", True, *reason_and_message(found))
    lasting = {name: trouble for name, trouble in _troubles(seen).items() if trouble.lasting}
    if lasting:
        return Condition("Stalled", True, next(iter(lasting.values())).word, _summary(lasting))
    return Condition("Stalled", False, "NotStalled", "no manual action is needed")


def _paused(router: Router) -> Condition:
    if router.paused:
        return Condition("Paused", True, "Paused", "spec.paused: the operator changes nothing in the mesh")
    return Condition("Paused", False, "NotPaused", "the operator reconciles the mesh")


def _troubles(seen: MeshSnapshot) -> dict[str, Trouble]:
    """Return the troubles of desired routers, permanent ones first."""
    found = seen.observed.troubles
    wanted = [router.id for router in seen.desired.mesh.routers if router.id in found]
    return {name: found[name] for name in sorted(wanted, key=lambda name: not found[name].lasting)}


def _summary(troubles: Mapping[str, Trouble]) -> str:
    """Describe the first trouble, and count the others."""
    name, trouble = next(iter(troubles.items()))
    others = len(troubles) - 1
    return f"{name}: {trouble}" + (f" (and {others} more)" if others else "")


def _programmed(router: Router, seen: MeshSnapshot) -> Condition:
    """Return the condition: whether objects and routers match the resources."""
    if found := stalling(seen):
        return Condition("Programmed", False, *reason_and_message(found))
    if seen.errors:
        return Condition("Programmed", False, "Failed", "; ".join(seen.errors[:SHOWN]))
    if seen.refused:
        return _refused(router, seen)
    if seen.desired.mesh.paused and seen.pending:
        message = f"{len(seen.pending)} steps wait while spec.paused is set, first: {seen.pending[0].describe()}"
        return Condition("Programmed", False, "Paused", message)
    if seen.pending:
        message = f"{len(seen.pending)} steps, next: {seen.pending[0].describe()}"
        return Condition("Programmed", False, "Pending", message)
    if seen.drift.current:
        message = f"{seen.drift.current} entities were changed by hand; drift is Report: not repaired"
        return Condition("Programmed", False, "Drift", message)
    return Condition("Programmed", True, "Programmed", "objects and routers match the resources")


def _refused(router: Router, seen: MeshSnapshot) -> Condition:
    """Describe what routers refused: entities of the Router, else of resources that refer to it and report it too."""
    own = {item: reason for item, reason in seen.refused.items() if not _is_dependent(item[1][1])}
    verdict = seen.verdict("Router", router.ref)
    if own and not verdict.resolved_refs and not verdict.spared:
        # Routers refuse a listener whose files are missing, in long words that do not name the Secret.
        return Condition("Programmed", False, verdict.reason, verdict.message)
    refusals = [f"{name}: {key[1]}: {reason}" for (name, key), reason in sorted((own or seen.refused).items())]
    more = f"; and {len(refusals) - SHOWN} more" if len(refusals) > SHOWN else ""
    return Condition("Programmed", False, "Refused" if own else "ResourcesRefused", "; ".join(refusals[:SHOWN]) + more)


def _is_dependent(entity: str) -> bool:
    parts = entity.split("/")
    return entity.startswith(OWNED_PREFIX) and parts[2] != "Router"


_PATHS = {
    "interior": " and have paths to each other",
    "standalone": "; with role standalone they are not connected: clients only reach those of the same router",
}


def _converged(router: Router, seen: MeshSnapshot) -> Condition:
    """Return the condition: every desired router runs, is connected to its neighbours, and has a path to all others."""
    mesh = seen.desired.mesh
    running = {r.id: r for r in seen.observed.mesh.routers.values() if r.state in RUNS}
    lost = [router.id for router in mesh.routers if router.id not in running]
    if lost:
        return Condition("Converged", False, *_awaited(lost, seen, MISSING))
    wrong = [name for name, peers in mesh.neighbours.items() if not _sees(running[name], peers, mesh)]
    if wrong:
        return Condition("Converged", False, "PathsMissing", f"no path to all other routers from {some(wrong)}")
    return Condition("Converged", True, "Converged", f"{len(running)} routers run{_PATHS.get(router.role, '')}")


def _sees(router: ObservedRouter, peers: set[str], mesh: DesiredMesh) -> bool:
    others = {other.id for other in mesh.routers} - {router.id} if peers else set()
    return others <= router.facts.known and peers <= set(router.facts.neighbours)


def _awaited(routers: list[str], seen: MeshSnapshot, reason: str) -> tuple[str, str]:
    """Return reason and message of a condition that waits for routers; a trouble of one of them is the reason."""
    waiting = f"waiting for {some(routers)}"
    troubles = {name: trouble for name, trouble in _troubles(seen).items() if name in routers}
    if troubles:
        return next(iter(troubles.values())).word, f"{_summary(troubles)}; {waiting}"
    return reason, waiting


def _restart_pending(router: Router, seen: MeshSnapshot) -> Condition:
    """Return the condition: whether pods run an older image or template."""
    if seen.desired.restart_pending:
        return Condition("RestartPending", True, "NewDefaultImage", seen.desired.restart_pending)
    live = seen.observed.objects.get(("StatefulSet", router.ref.name), {})
    rollout = live.get("status") or {}
    old, new = rollout.get("currentRevision"), rollout.get("updateRevision")
    if old and new and old != new:
        updated = rollout.get("updatedReplicas", 0)
        return Condition("RestartPending", True, "Rolling", f"{updated} of {rollout.get('replicas', 0)} are updated")
    return Condition("RestartPending", False, "UpToDate", "all pods are up to date")


def _draining(seen: MeshSnapshot) -> Condition:
    routers = seen.observed.mesh.routers
    leaving = [
        f"{name} ({router.facts.unsettled} unsettled)"
        for name, router in sorted(routers.items())
        if router.state is RouterState.DRAINING or seen.observed.draining.get(name, "none") != "none"
    ]
    if leaving:
        return Condition("Draining", True, "Draining", some(leaving))
    return Condition("Draining", False, "NotDraining", "no router is draining")


def _ready(router: Router, seen: MeshSnapshot, others: Mapping[str, Condition]) -> Condition:
    """Return the condition: whether the mesh serves clients; else the first reason why not.

    Problems of resources that refer to the Router show in those; a change in progress does not affect clients.
    """
    if others["Accepted"].holds is not True:
        return Condition("Ready", False, others["Accepted"].reason, others["Accepted"].message)
    if others["Converged"].holds is not True:
        # While a person must act, "waiting for mesh-0" would be no answer: its pod may not even exist.
        why = "Stalled" if others["Converged"].reason == MISSING and others["Stalled"].holds is True else "Converged"
        return Condition("Ready", False, others[why].reason, others[why].message)
    live = seen.observed.mesh.routers
    waiting = [r.id for r in seen.desired.mesh.routers if r.id not in live or not live[r.id].facts.ready]
    if waiting:
        return Condition("Ready", False, *_awaited(waiting, seen, "RoutersNotReady"))
    if others["ResolvedRefs"].holds is not True and not seen.verdict("Router", router.ref).spared:
        return Condition("Ready", False, others["ResolvedRefs"].reason, others["ResolvedRefs"].message)
    if others["Programmed"].reason in NOT_READY_REASONS:
        return Condition("Ready", False, others["Programmed"].reason, others["Programmed"].message)
    if any(end.validity.end <= seen.now for end in mesh_ends(router, seen)):
        return Condition("Ready", False, others[EXPIRING].reason, others[EXPIRING].message)
    if not router.size:
        return Condition("Ready", True, "ScaledToZero", "spec.size is 0")
    return Condition("Ready", True, "Ready", f"{router.size} of {router.size} routers accept clients")


PAUSED, STALLED, ROLLING, DRAINING, SCALING = "Paused", "Stalled", "Rolling", "Draining", "Scaling"
STARTING, READY, NOT_READY = "Starting", "Ready", "NotReady"


def phase(router: Router, seen: MeshSnapshot, conditions: Mapping[str, Condition], before: Mapping[str, Any]) -> str:
    """Return the phase. `before` is the former status: a growing mesh is Scaling until its new routers have joined."""
    live = seen.observed.mesh.routers
    running = sum(one.state in RUNS for one in live.values())
    converged = conditions["Converged"].holds is True
    if router.paused:
        return PAUSED
    if conditions["Stalled"].holds is True:
        return STALLED
    if conditions["RestartPending"].reason == ROLLING:
        return ROLLING
    if conditions["Draining"].holds is True or any(one.ordinal >= router.size for one in live.values()):
        return DRAINING
    if running and (len(live) < router.size or (before.get("phase") == SCALING and not converged)):
        return SCALING
    if conditions["Ready"].holds is True:
        return READY
    return NOT_READY if converged else STARTING


Row = dict[str, Any]


def exposure_rows(router: Router, seen: MeshSnapshot) -> list[Row]:
    """Return for each listener with `expose` its type, its addresses, and those of single routers."""
    rows: dict[str, Row] = {}
    nodes = _nodes(seen)
    for exposure in exposures(router, router.size):
        addresses = exposure_addresses(exposure, seen.observed.objects, nodes)
        if exposure.router_id:
            own = {"id": exposure.router_id, "addresses": addresses}
            rows[exposure.listener.name].setdefault("routers", []).append(own)
            continue
        row: Row = {"name": exposure.listener.name, "exposure": exposure.expose.type, "addresses": addresses}
        message = _why(exposure, seen, bool(addresses))
        rows[exposure.listener.name] = row | ({"message": message} if message else {})
    return list(rows.values())


def merged_rows(*parts: Iterable[Row]) -> list[Row]:
    """Merge rows of the same listener."""
    rows: dict[str, Row] = {}
    for row in (row for part in parts for row in part):
        rows[row["name"]] = rows.get(row["name"], {}) | row
    return list(rows.values())


def _nodes(seen: MeshSnapshot) -> dict[str, str]:
    """Return the addresses of the running routers' nodes."""
    running = (name for name, one in seen.observed.mesh.routers.items() if one.state in RUNS)
    found = {name: node_of(seen.observed.objects.get(("Pod", name), {})) for name in running}
    return {name: host for name, host in found.items() if host}


def _why(exposure: Exposure, seen: MeshSnapshot, found: bool) -> str:
    """Return why there is no address; empty if there is one."""
    if found:
        return ""
    if exposure.route:
        refused = refusals(seen.observed.objects.get((exposure.route, exposure.name), {}))
        if refused:
            return f"{exposure.route} {exposure.name} is refused: {'; '.join(refused)}"
        return _WAITING.get(exposure.route, "no host name is known")
    return _WAITING.get(exposure.expose.type, "the Service does not exist yet")


_WAITING = {
    "NodePort": "no router runs yet",
    "LoadBalancer": "the load balancer has no address yet",
    "TLSRoute": "the TLSRoute does not exist yet",
    "Ingress": "the Ingress does not exist yet",
    "Route": "the Route has no host yet",
    "TCPRoute": "the address is that of the Gateway; expose.host shows it here",
}
