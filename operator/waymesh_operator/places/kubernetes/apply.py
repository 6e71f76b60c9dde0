"""Applies a plan: objects through the API server one by one, actions on routers in parallel. Keeps which routers have
received the present configuration, and which actions they have refused."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.errors import KubeError, LiveError, NamespaceEnding, NotOurs
from waymesh_operator.kube import SECRET, Kind, KubeClient, kind_of
from waymesh_operator.planning.actions import Action, ApplyObject, DeleteObject, ObjectAction, Scale, UpdateFiles
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.manifests import MANIFEST_ANNOTATION, opens
from waymesh_operator.planning.plan import Drift
from waymesh_operator.router_entities.actions import DrainRouter, EntityAction, MoveClients, RouterAction, UndrainRouter
from waymesh_operator.routers.live_router import LiveRouter, Outcome
from waymesh_operator.routers.observed import ObservedMesh, RouterState


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


@dataclass(slots=True)
class Result:
    """The result of applying a plan."""

    taken: list[Action] = field(default_factory=list)
    # Actions that a router refused, with its reason.
    refused: list[Outcome] = field(default_factory=list)
    # Descriptions of failures.
    errors: list[str] = field(default_factory=list)
    # The subset that persists until a person removes the object with a name that the Router needs, or renames it.
    foreign: list[str] = field(default_factory=list)
    # The subset that the API server refuses until a person changes the Router, a quota or the operator's rights.
    invalid: list[str] = field(default_factory=list)


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
            result.refused += [outcome for outcome in outcomes if outcome.error]


def _at_router(step: Action) -> bool:
    return bool(step.router_id)


def _concerns_pods(step: ObjectAction) -> bool:
    return isinstance(step, Scale) or (isinstance(step, ApplyObject) and step.manifest["kind"] == "StatefulSet")


@dataclass(slots=True)
class DeliveredSeeds:
    """For each router the current start (`PodView.start_id`) and the digest of the seeds that it matched last."""

    _known: dict[str, tuple[str, str]] | None = None

    def fresh(
        self, desired: DesiredState, mesh: ObservedMesh, start_ids: Mapping[str, str], was_converged: bool
    ) -> frozenset[str]:
        """Running routers that have not matched this configuration since they started.

        `was_converged`: the mesh had converged before the first observation, so its routers have received it.
        """
        digest = _digest(desired)
        running = _running(mesh)
        if self._known is None:
            self._known = {name: (start_ids.get(name, ""), digest) for name in running} if was_converged else {}
        return frozenset(name for name in running if self._known.get(name) != (start_ids.get(name, ""), digest))

    def note(
        self,
        desired: DesiredState,
        mesh: ObservedMesh,
        start_ids: Mapping[str, str],
        steps: Iterable[Action],
        drift: Drift,
        refused: Collection[tuple[str, tuple[str, str]]],
    ) -> None:
        """Note which routers match: those without actions other than refused ones."""
        behind = {
            step.router_id
            for step in steps
            if isinstance(step, EntityAction) and (step.router_id, step.entity.key) not in refused
        }
        digest = _digest(desired)
        former = self._known or {}
        self._known = {name: known for name, known in former.items() if name in mesh.routers}
        for name in _running(mesh) - behind - drift.routers:
            self._known[name] = (start_ids.get(name, ""), digest)


def _running(mesh: ObservedMesh) -> frozenset[str]:
    return frozenset(name for name, router in mesh.routers.items() if router.state is RouterState.RUNNING)


def _digest(desired: DesiredState) -> str:
    seeds = [item for item in desired.objects if item["kind"] == "ConfigMap"]
    return " ".join(str(item["metadata"]["annotations"][MANIFEST_ANNOTATION]) for item in seeds)


RefusalKey = tuple[str, tuple[str, str]]
"""A router's id and an `Entity.key`."""
_DRAIN = ("drain", "")
_SHARE = ("router", "share")


FIRST_S = 1.0
"""Seconds after which a refused action is tried again. They double with each refusal. A router accepts some actions a
moment later, when a file that they need has arrived."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    at: float
    wait_s: float


@dataclass(slots=True)
class Refusals:
    """What was refused, why, and when. A refused action is tried again after at most `again_s`."""

    clock: Callable[[], float]
    again_s: float
    _known: dict[RefusalKey, _Refusal] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[RefusalKey, str]:
        """The reason for each entity that a router refused."""
        return {which: refusal.reason for which, refusal in self._known.items()}

    @property
    def soon(self) -> bool:
        """Whether an action is tried again before the next resync."""
        return any(refusal.wait_s < self.again_s for refusal in self._known.values())

    def due(self, actions: Iterable[Action]) -> list[Action]:
        """The actions without those that were refused recently."""
        now = self.clock()
        return [action for action in actions if self._is_due(_which(action), now)]

    def note(self, planned: Iterable[Action], result: Result) -> None:
        """Keep refusals of planned actions; forget those that were accepted or are no longer planned."""
        open_ = {_which(action) for action in planned} - {_which(action) for action in result.taken}
        self._known = {which: known for which, known in self._known.items() if which in open_}
        now = self.clock()
        for outcome in result.refused:
            which = _which(outcome.action)
            former = self._known.get(which)
            wait_s = 2 * former.wait_s if former else FIRST_S
            self._known[which] = _Refusal(outcome.error, now, min(wait_s, self.again_s))

    def _is_due(self, which: RefusalKey, now: float) -> bool:
        refusal = self._known.get(which)
        return refusal is None or now - refusal.at >= refusal.wait_s


def _which(action: Action) -> RefusalKey:
    if isinstance(action, EntityAction):
        return action.router_id, action.entity.key
    if isinstance(action, DrainRouter | UndrainRouter):
        return action.router_id, _DRAIN
    if isinstance(action, MoveClients):
        return action.router_id, _SHARE
    return "", ("", "")
