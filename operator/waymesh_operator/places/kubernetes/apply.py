"""Applies a plan: objects through the API server one by one, actions on routers in parallel."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.errors import KubeError, LiveError, NamespaceEnding, NotOurs
from waymesh_operator.kube import SECRET, Kind, KubeClient, kind_of
from waymesh_operator.places.place import Refused, Result
from waymesh_operator.planning.actions import Action, ApplyObject, DeleteObject, ObjectAction, Scale, UpdateFiles
from waymesh_operator.planning.manifests import opens
from waymesh_operator.planning.parts import CONFLICTED, REFUSED_OBJECT, Obstacle, Part, part_of
from waymesh_operator.router_entities.actions import DrainRouter, RouterAction
from waymesh_operator.routers.live_router import LiveRouter, Outcome


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes the objects of one Router (`uid`). `see` receives each response, so that nothing is written twice."""

    kube: KubeClient
    namespace: str
    uid: str
    see: Callable[[str | None, Mapping[str, Any]], object]

    async def write(self, action: ObjectAction) -> None:
        """Apply one action. Raises KubeError."""
        match action:
            case ApplyObject():
                if action.new:
                    await self._refuse_foreign(action.manifest)
                self.see(None, await self.kube.apply(action.manifest))
            case Scale():
                self.see(None, await self.kube.apply(action.manifest))
            case DeleteObject():
                await self.kube.delete(kind_of(action.kind, action.api_version), self.namespace, action.name)
            case UpdateFiles():
                await self._update_files(action.manifest)

    async def _update_files(self, manifest: Mapping[str, Any]) -> None:
        try:
            self.see(None, await self.kube.apply(manifest))
        except KubeError as error:
            if not error.missing and not error.conflict:
                raise
            # The pod is gone, or another one has its name. That one mounts the present files when it starts.

    async def _refuse_foreign(self, manifest: Mapping[str, Any]) -> None:
        """Refuse to change an object of this name that this Router does not own."""
        kind, name = kind_of(manifest["kind"], manifest["apiVersion"]), manifest["metadata"]["name"]
        owners = await self._owners(kind, name)
        if owners is not None and self.uid not in owners:
            raise _not_ours(kind, name, owners)
        if kind.kind == "Certificate":
            # cert-manager would write the Secret. A Secret without an owner may be left from a deleted Router.
            written = manifest["spec"]["secretName"]
            owners = await self._owners(SECRET, written)
            if owners and self.uid not in owners:
                raise _not_ours(SECRET, written, owners)

    async def _owners(self, kind: Kind, name: str) -> dict[str, str] | None:
        """Return the owners of an object by uid, as `kind name`; None if the object does not exist."""
        try:
            live = await self.kube.get(kind, self.namespace, name)
        except KubeError as error:
            if error.missing:
                return None
            raise
        owners = live["metadata"].get("ownerReferences") or ()
        return {owner.get("uid", ""): f"{owner.get('kind')} {owner.get('name')}" for owner in owners}


def _not_ours(kind: Kind, name: str, owners: Mapping[str, str]) -> NotOurs:
    whose = f"belongs to {', '.join(owners.values())}" if owners else "is not owned by this Router"
    return NotOurs(409, f"{kind.kind} {name} exists and {whose}; it is not changed")


AtRouters = Callable[[Iterable[Callable[[], list[Outcome]]]], Awaitable[list[list[Outcome] | BaseException]]]
"""Runs requests to several routers at the same time; returns their outcomes or errors."""


async def carry_out(
    actions: Iterable[Action], writer: ObjectWriter, routers: Mapping[str, LiveRouter], at: AtRouters
) -> Result:
    """Apply a plan as far as possible.

    A router that does not answer or refuses an action does not delay the others, and neither does an object that cannot
    be written, with these exceptions: Pods are neither added nor removed, and no access from outside is opened, if what
    the routers boot with or what protects them could not be written, or while a router may still have an old listener;
    pods wait for the other objects of their part, too.
    No router drains unless the StatefulSet says that it leaves: nobody would take it back. Raises NamespaceEnding and
    stops there.
    """
    result, works = Result(), _Objects(writer)
    for at_routers, steps in itertools.groupby(actions, key=_at_router):
        if not at_routers:
            await works.write(steps, result)
        elif await _on_routers((step for step in steps if not works.forbid(step)), result, routers, at):
            works.guarded = False
    return result


class _Objects:
    """Writes the objects of one plan. `guarded`: what protects the routers is as desired so far."""

    def __init__(self, writer: ObjectWriter) -> None:
        self.guarded = True
        self._writer = writer
        # Whether the StatefulSet is as desired, and what its pods need to find each other.
        self._workload = True

    def forbid(self, step: Action) -> bool:
        """Return whether an action on a router must wait for an object."""
        return isinstance(step, DrainRouter) and not self._workload

    async def write(self, steps: Iterable[Action], result: Result) -> None:
        """Write the objects as far as possible."""
        for step in steps:
            if not isinstance(step, ObjectAction):
                continue
            ready = self.guarded and (self._workload or not _concerns_pods(step))
            written = (ready or not (_concerns_pods(step) or _opens(step))) and await self._one(step, result)
            self._workload = self._workload and (written or _part_of(step) != "workload")

    async def _one(self, step: ObjectAction, result: Result) -> bool:
        part = _part_of(step)
        try:
            await self._writer.write(step)
        except NamespaceEnding:
            raise
        except KubeError as error:
            result.errors.append(f"{step.describe()}: {error}")
            if isinstance(error, NotOurs):
                result.obstacles.append(Obstacle(part, CONFLICTED, f"{error}. {_TAKEN}"))
            elif error.lasting:
                result.obstacles.append(Obstacle(part, REFUSED_OBJECT, str(error)))
            self.guarded = self.guarded and part not in _GUARDS
            return False
        result.taken.append(step)
        return True


_TAKEN = "This Router needs the name: remove the object, or give the Router another name"
_GUARDS: tuple[Part, ...] = ("access", "certificates", "configuration")
"""What routers need so that they are protected as desired when they start."""


def _part_of(step: ObjectAction) -> Part:
    if isinstance(step, DeleteObject):
        return part_of(step.kind, step.name, {})
    return part_of(step.manifest["kind"], step.manifest["metadata"]["name"], step.manifest.get("spec") or {})


def _opens(step: ObjectAction) -> bool:
    return isinstance(step, ApplyObject) and opens(step.manifest)


async def _on_routers(
    steps: Iterable[Action], result: Result, routers: Mapping[str, LiveRouter], at: AtRouters
) -> bool:
    """Return whether a router did not answer."""
    silent = False
    by_router: dict[str, list[RouterAction]] = {}
    for step in steps:
        if isinstance(step, RouterAction) and step.router_id in routers:
            by_router.setdefault(step.router_id, []).append(step)

    works = [functools.partial(routers[name].carry_out, own) for name, own in by_router.items()]
    for name, outcomes in zip(by_router, await at(works)):
        if isinstance(outcomes, LiveError):
            result.errors.append(f"{name}: {outcomes}")
            silent = True
        elif isinstance(outcomes, BaseException):
            raise outcomes
        else:
            result.taken += [outcome.action for outcome in outcomes if not outcome.error]
            result.refused += [Refused(outcome.action, outcome.error) for outcome in outcomes if outcome.error]
    return silent


def _at_router(step: Action) -> bool:
    return bool(step.router_id)


def _concerns_pods(step: ObjectAction) -> bool:
    return isinstance(step, Scale) or (isinstance(step, ApplyObject) and step.manifest["kind"] == "StatefulSet")
