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
from waymesh_operator.router_entities.actions import RouterAction
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

    A router that does not answer or refuses an action does not delay the others. Pods are neither added nor removed if
    their boot configuration could not be written, and no access from outside is opened while a router may still have
    an old listener. Raises NamespaceEnding and stops there.
    """
    result = Result()
    for at_routers, steps in itertools.groupby(actions, key=_at_router):
        if at_routers:
            await _on_routers(steps, result, routers, at)
        else:
            await _on_objects(steps, result, writer)
    return result


async def _on_objects(steps: Iterable[Action], result: Result, writer: ObjectWriter) -> None:
    closed = bool(result.errors)
    for step in steps:
        if not isinstance(step, ObjectAction) or (result.errors and _concerns_pods(step)):
            continue
        if closed and isinstance(step, ApplyObject) and opens(step.manifest):
            continue
        try:
            await writer.write(step)
        except NamespaceEnding:
            raise
        except KubeError as error:
            result.errors.append(f"{step.describe()}: {error}")
            result.foreign += [str(error)] if isinstance(error, NotOurs) else []
            result.invalid += [str(error)] if error.lasting else []
        else:
            result.taken.append(step)


async def _on_routers(
    steps: Iterable[Action], result: Result, routers: Mapping[str, LiveRouter], at: AtRouters
) -> None:
    by_router: dict[str, list[RouterAction]] = {}
    for step in steps:
        if isinstance(step, RouterAction) and step.router_id in routers:
            by_router.setdefault(step.router_id, []).append(step)

    works = [functools.partial(routers[name].carry_out, own) for name, own in by_router.items()]
    for name, outcomes in zip(by_router, await at(works)):
        if isinstance(outcomes, LiveError):
            result.errors.append(f"{name}: {outcomes}")
        elif isinstance(outcomes, BaseException):
            raise outcomes
        else:
            result.taken += [outcome.action for outcome in outcomes if not outcome.error]
            result.refused += [Refused(outcome.action, outcome.error) for outcome in outcomes if outcome.error]


def _at_router(step: Action) -> bool:
    return bool(step.router_id)


def _concerns_pods(step: ObjectAction) -> bool:
    return isinstance(step, Scale) or (isinstance(step, ApplyObject) and step.manifest["kind"] == "StatefulSet")
