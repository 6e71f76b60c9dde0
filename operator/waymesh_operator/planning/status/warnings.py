"""Conditions of a Router that warn: they do not change Ready."""

from __future__ import annotations

from waymesh_operator.resources.router import Router

from .conditions import SHOWN, Condition, MeshSnapshot

LEAST_MEMORY_MIB = 48
"""A started router without clients uses 33 to 45 MiB (bench figure `rss`), so that less leaves nothing for clients. A
container of 64 MiB, of which routers use 85 %, serves hundreds (`tests/interop/test_limits_small_memory.py`)."""


def some(names: list[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def edges_without_group(router: Router, seen: MeshSnapshot) -> list[Condition]:
    """Return the condition, if edge routers may connect: whether no user group limits some that are connected."""
    if all(listener.role != "edge" for listener in router.listeners):
        return []
    found = {name: one.facts.edges_without_group for name, one in sorted(seen.observed.mesh.routers.items())}
    counts = [f"{name} ({count})" for name, count in found.items() if count]
    if not counts:
        return [Condition("EdgesWithoutGroup", False, "NoneConnected", "no edge router without a user group")]
    text = f"edge routers that no user group of a VhostPolicy names use and route all addresses at {some(counts)}"
    return [Condition("EdgesWithoutGroup", True, "NoGroup", f"{text}; see the warnings of these routers")]


def unprotected(router: Router) -> Condition:
    """Return the condition: listeners that anyone who reaches their port may use, and whose traffic is not encrypted,
    without `allowUnprotected`."""
    names = [
        item.name for item in router.listeners if not item.tls and item.auth == "none" and not item.allow_unprotected
    ]
    if not names:
        text = "each listener has TLS or authentication, or allowUnprotected"
        return Condition("Unprotected", False, "Protected", text)
    text = f"anyone in the cluster may connect, and traffic is not encrypted: {some(names)}; set tls and auth, or "
    return Condition("Unprotected", True, "NoTlsAndAuth", text + "allowUnprotected: true of the listener")


def memory_full(seen: MeshSnapshot) -> Condition:
    """Return the condition: routers whose memory is full refuse new connections and links of clients."""
    routers = sorted(seen.observed.mesh.routers.values(), key=lambda one: one.ordinal)
    full = [f"{one.id} (limit {one.facts.memory_limit >> 20} MiB)" for one in routers if one.facts.memory_full]
    if not full:
        return Condition("MemoryFull", False, "NotFull", "no router is at the limit of its memory")
    text = f"new connections and links of clients are refused at {some(full)}; see maxMemory and pod.resources"
    return Condition("MemoryFull", True, "LimitReached", text)


def memory_too_small(router: Router) -> list[Condition]:
    """Return the condition, if `maxMemory` leaves next to nothing for clients."""
    limit = router.max_memory
    if not limit or limit >= LEAST_MEMORY_MIB << 20:  # None: the container's limit, 0: no limit
        return []
    text = f"maxMemory is {limit / (1 << 20):.3g} MiB, but a router without clients uses up to 45 MiB: few or no "
    text += f"clients can connect; set at least {LEAST_MEMORY_MIB}Mi"
    return [Condition("MemoryTooSmall", True, "NoneForClients", text)]


def other_operator(seen: MeshSnapshot) -> list[Condition]:
    """Return the condition, while operators of other namespaces watch the Router, too: they leave it alone, and whoever
    installed them learns here that this one acts."""
    if not seen.others:
        return []
    text = f"the operator of namespace {', '.join(seen.others[:SHOWN])} watches this Router, too, and leaves it alone"
    return [Condition("OtherOperator", True, "LeavesAlone", f"{text}; status.operator names the one that acts")]
