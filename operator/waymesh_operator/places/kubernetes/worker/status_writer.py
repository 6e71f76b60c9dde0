"""Writes changed statuses of the resources of a mesh, and Events for important changes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import kind_of
from waymesh_operator.places.kubernetes.router_status import router_status
from waymesh_operator.planning.status.addresses import AddressStatuses
from waymesh_operator.planning.status.conditions import EXPIRING, MeshSnapshot, unread_router, unread_status
from waymesh_operator.planning.status.dependents import (
    autolink_status,
    broker_status,
    exchange_status,
    linkroute_status,
    router_link_status,
    vhost_policy_status,
)
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.router import Ref

from .environment import NORMAL, WARNING, Environment
from .inventory import Key, Object

AT_ONCE = 16
"""Maximum number of concurrent requests: behind thousands of them, the Lease would not be renewed in time."""
SUMMED = 5
"""If more resources of a kind have the same news at once, one Event about their Router sums them up."""
COUNTS_S = 10.0
VOLATILE_FIELDS = frozenset({"unsettled", "consumers", "links", "connections", "denied", "lastTransitionTime"})
"""Fields that change with every message or client; if only these have changed, a status is written less often."""
GOOD_WHEN_FALSE = frozenset({"Conflicted", "Stalled", EXPIRING})
REPORTED_CONDITIONS = frozenset(
    {"Accepted", "Conflicted", "Programmed", "ResolvedRefs", "Stalled", "Ready", "Converged", EXPIRING}
)
REPORTED_WHEN_GOOD = frozenset({"Ready", "Converged"})
WARNED_AT_ONCE = frozenset({"Accepted", "Conflicted", "ResolvedRefs", "Stalled", EXPIRING})
"""Conditions that cause a warning even if they are bad from the beginning."""
FAILED = "failed"
TRANSIENT_REASONS = frozenset({"Pending", "RoutersMissing", "PathsMissing", "RoutersNotReady"})
"""Transient reasons, which are not worth a warning."""
_STATUS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "Broker": broker_status,
    "AutoLink": autolink_status,
    "LinkRoute": linkroute_status,
    "VhostPolicy": vhost_policy_status,
    "RouterLink": router_link_status,
    "Exchange": exchange_status,
}
Wanted = tuple[Key, dict[str, Any]]


@dataclass(slots=True)
class Statuses:
    """Writes the status of the resources of one mesh."""

    mesh: Ref
    world: Environment
    # Number of statuses that differ from what was computed last, and are written later.
    late: int = 0
    _written: dict[Key, float] = field(default_factory=dict)
    _addresses: AddressStatuses = field(default_factory=AddressStatuses)

    async def write(
        self,
        resources: Resources,
        seen: MeshSnapshot | None,
        objects: Mapping[Key, Object],
        unread: Mapping[Key, str],
    ) -> dict[str, Any]:
        """Update all statuses; returns that of the Router. `seen` is None if there is no Router, or an unreadable one.
        `unread`: why resources cannot be parsed.

        Tries all, then raises the first KubeError if any failed.
        """
        now = self.world.now()
        wanted = await self.world.in_thread(functools.partial(self._wanted, resources, seen, objects, now))
        router = unread.get(("Router", self.mesh.namespace, self.mesh.name))
        if router is not None:
            wanted = [(key, unread_router(status, router)) for key, status in wanted]
        wanted += [(key, unread_status(objects[key], why, now)) for key, why in unread.items()]
        changed = [(key, status) for key, status in wanted if (objects[key].get("status") or {}) != status]
        news = [(key, status) for key, status in changed if self._is_due(key, status, objects)]
        self.late = len(changed) - len(news)
        failures = await self._write_all(news)
        self._written = {key: at for key, at in self._written.items() if self.world.clock() - at < COUNTS_S}
        await self._tell(
            [(objects[key], status) for key, status in news if key not in failures],
            objects.get(("Router", self.mesh.namespace, self.mesh.name)),
        )
        for failure in failures.values():
            if not failure.missing:
                raise failure
        return next((status for key, status in wanted if key[0] == "Router"), {})

    def _wanted(
        self, resources: Resources, seen: MeshSnapshot | None, objects: Mapping[Key, Object], now: datetime
    ) -> list[Wanted]:
        """The desired status of each resource that still exists; of Addresses, only those that differ from theirs."""
        present = (
            (address, body.get("status") or {})
            for address in resources.addresses
            if (body := objects.get(("Address", *address.ref))) is not None
        )
        changed = self._addresses.changed(present, seen, now)
        found: list[Wanted] = [(("Address", *address.ref), status) for address, status in changed]
        for kind, resource in resources.others:
            key = (kind, *resource.ref)
            if key in objects:
                before = objects[key].get("status") or {}
                found.append((key, _STATUS[kind](resource, seen, before=before, now=now)))
        key = ("Router", *resources.router.ref)
        if seen is not None and key in objects:
            found.append((key, router_status(resources.router, seen, objects[key].get("status") or {})))
        return found

    def _is_due(self, key: Key, status: Mapping[str, Any], objects: Mapping[Key, Object]) -> bool:
        before = objects[key].get("status") or {}
        if _without_volatile(before) != _without_volatile(status):
            return True
        return self.world.clock() - self._written.get(key, float("-inf")) >= COUNTS_S

    async def _write_all(self, news: Iterable[Wanted]) -> dict[Key, KubeError]:
        """Write statuses; returns what failed. As many tasks as requests at a time: one for each of thousands of
        statuses takes more memory than the statuses."""
        failures: dict[Key, KubeError] = {}
        left = iter(news)

        async def write() -> None:
            for key, status in left:
                failure = await self._write(key, status)
                if failure is not None:
                    failures[key] = failure

        await asyncio.gather(*(write() for _ in range(AT_ONCE)))
        return failures

    async def _write(self, key: Key, status: Mapping[str, Any]) -> KubeError | None:
        kind, namespace, name = key
        try:
            answer = await self.world.kube.patch_status(kind_of(kind), namespace, name, status)
        except KubeError as error:
            return error
        self._written[key] = self.world.clock()
        self.world.inventory.see(None, answer)
        return None

    async def _tell(self, written: Iterable[tuple[Object, Mapping[str, Any]]], router: Object | None) -> None:
        """Record Events of the changes from the present objects to these statuses."""
        news: dict[tuple[str, str, str], list[tuple[Object, str]]] = {}
        for body, status in written:
            kind = body["kind"]
            for sort, reason, message in transitions(body.get("status") or {}, status, all_of_them=kind == "Router"):
                news.setdefault((kind, sort, reason), []).append((body, message))
        for (kind, sort, reason), found in news.items():
            if len(found) > SUMMED and kind != "Router":
                names = ", ".join(str(body["metadata"]["name"]) for body, _ in found[:SUMMED])
                (first, message), *_ = found
                text = f"{len(found)} resources of kind {kind} ({names} and others): {message}"
                await self.world.recorder.record(router or first, sort, reason, text)
                continue
            for body, message in found:
                await self.world.recorder.record(body, sort, reason, message)


def transitions(
    before: Mapping[str, Any], status: Mapping[str, Any], *, all_of_them: bool
) -> Iterable[tuple[str, str, str]]:
    """Return Events for changed conditions: all that became bad, for a Router also those that became good; and for
    resources that fail before they ever worked."""
    events = [*_start_failures(before, status), *_changed_conditions(before, status, all_of_them=all_of_them)]
    if not events and status.get("state") == FAILED != before.get("state"):
        events.append((WARNING, "Failed", status["lastError"]))
    return events


def _start_failures(before: Mapping[str, Any], status: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Return an Event for each router that does not run, if the reason is new."""
    former = {row["id"]: row.get("reason") for row in before.get("routers") or ()}
    for row in status.get("routers") or ():
        if row.get("reason") and row["reason"] != former.get(row["id"]):
            yield WARNING, row["reason"], f"{row['id']}: {row['message']}"


def _changed_conditions(
    before: Mapping[str, Any], status: Mapping[str, Any], *, all_of_them: bool
) -> Iterable[tuple[str, str, str]]:
    former = {item["type"]: item for item in before.get("conditions") or ()}
    not_running = {row.get("reason") for row in status.get("routers") or ()} - {None}
    for item in status.get("conditions") or ():
        was, is_ = former.get(item["type"], {}).get("status"), item["status"]
        # The reason why a router does not run has its own Event.
        if is_ in (was, "Unknown") or item["type"] not in REPORTED_CONDITIONS or item["reason"] in not_running:
            continue
        text = f"{item['type']}: {item['message']}" if item.get("message") else f"{item['type']} is {is_}"
        if is_ == _bad(item["type"]):
            if was is not None or item["type"] in WARNED_AT_ONCE:
                yield NORMAL if item["reason"] in TRANSIENT_REASONS else WARNING, item["reason"], text
        elif all_of_them and item["type"] in REPORTED_WHEN_GOOD:
            yield NORMAL, item["reason"], text


def _bad(condition: str) -> str:
    return "True" if condition in GOOD_WHEN_FALSE else "False"


def _without_volatile(value: Any) -> Any:
    """Return a status without the fields that change all the time."""
    if isinstance(value, Mapping):
        return {name: _without_volatile(inner) for name, inner in value.items() if name not in VOLATILE_FIELDS}
    return [_without_volatile(item) for item in value] if isinstance(value, list) else value
