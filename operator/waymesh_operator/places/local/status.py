"""Events of local mode, and the state of the resources of a mesh, reported on change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.planning.status.conditions import MeshSnapshot
from waymesh_operator.planning.status.dependents import (
    STARTING,
    autolink_status,
    broker_status,
    exchange_status,
    linkroute_status,
    router_link_status,
    vhost_policy_status,
)
from waymesh_operator.planning.status.warnings import edges_without_group
from waymesh_operator.resources.dependents import Broker, Dependent, Resources
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.resources.router_link import RouterLink

GOOD, NOTE, WARN, BAD = "good", "note", "warn", "bad"


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its level (good, note, warn, bad), and one line of text."""

    level: str
    text: str


SETTLE_S = 2.0
"""Time for a new resource to become active before its error is reported."""
Sink = Callable[[Event], None]
"""Called with each event."""
_STATUS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "Broker": broker_status,
    "AutoLink": autolink_status,
    "LinkRoute": linkroute_status,
    "VhostPolicy": vhost_policy_status,
    "RouterLink": router_link_status,
    "Exchange": exchange_status,
}


@dataclass(frozen=True, slots=True)
class ResourceView:
    """A resource that refers to a Router and has a state: worst state on any router, share of routers (2/3), error."""

    kind: str
    resource: Dependent
    state: str = ""
    share: str = ""
    error: str = ""
    # False: invalid, or it refers to something that is missing; see `error`.
    resolved: bool = True

    @property
    def ready(self) -> bool:
        """Whether it is active on all its routers."""
        return self.state == "active"

    @property
    def subject(self) -> str:
        """Kind and name."""
        return f"{self.kind}/{self.resource.ref}"


@dataclass(slots=True)
class ResourceStates:
    """The states of the resources of one mesh, and those that were reported."""

    events: Sink
    views: tuple[ResourceView, ...] = ()
    _reported: dict[tuple[str, Ref], tuple[bool, str]] = field(default_factory=dict)
    # When each resource that was never active was first seen.
    _waiting: dict[tuple[str, Ref], float] = field(default_factory=dict)
    # Whether edge routers without a user group were reported.
    _edges: bool = False

    @property
    def settled(self) -> bool:
        """Whether every resource is active, or its error was reported."""
        return all(view.ready or (view.kind, view.resource.ref) in self._reported for view in self.views)

    def update(self, resources: Resources, seen: MeshSnapshot, now: float) -> None:
        """Compute the states from the observation, and report those that have changed.

        Connections and links take a moment to start: the error of a resource that was never active is reported if it
        persists. Until the routers have started, this time does not begin, and what was reported last holds.
        """
        self._report_edges(resources.router, seen)
        self.views = tuple(_views(resources, seen))
        former, self._reported = self._reported, {}
        for view in self.views:
            key = (view.kind, view.resource.ref)
            if view.state == STARTING and view.resolved:
                self._waiting[key] = now
                if key in former:
                    self._reported[key] = former[key]
                continue
            since = self._waiting.setdefault(key, now)
            if key not in former and not view.ready and view.resolved and now - since < SETTLE_S:
                continue
            state = self._reported[key] = (view.ready, view.error)
            if state == former.get(key, (False, "")):
                continue
            if view.ready:
                self.events(Event(GOOD, f"{view.subject} is active on {view.share}"))
            elif view.error:
                self.events(Event(WARN, f"{view.subject}: {view.error}"))

    def _report_edges(self, router: Router, seen: MeshSnapshot) -> None:
        """Report the condition EdgesWithoutGroup if it has changed, not which routers it concerns."""
        (condition,) = edges_without_group(router, seen) or (None,)
        holds = condition is not None and bool(condition.holds)
        if condition is not None and holds != self._edges:
            self.events(Event(WARN if holds else GOOD, f"Router/{router.ref}: {condition.type}: {condition.message}"))
        self._edges = holds


def _views(resources: Resources, seen: MeshSnapshot) -> Iterator[ResourceView]:
    for kind, resource in resources.dependents:
        if kind in _STATUS:
            yield _view(kind, resource, _STATUS[kind](resource, seen, before={}, now=seen.now))
        elif not (verdict := seen.verdict(kind, resource.ref)).good:
            yield ResourceView(kind, resource, verdict.reason, "", verdict.message, False)


def _view(kind: str, resource: Dependent, status: Mapping[str, Any]) -> ResourceView:
    conditions = {item["type"]: item for item in status["conditions"]}
    for name in ("Accepted", "ResolvedRefs"):
        if conditions[name]["status"] != "True":
            return ResourceView(kind, resource, conditions[name]["reason"], "", conditions[name]["message"], False)
    share = status["connected" if isinstance(resource, Broker | RouterLink) else "active"]
    return ResourceView(kind, resource, status["state"], share, status["lastError"])
