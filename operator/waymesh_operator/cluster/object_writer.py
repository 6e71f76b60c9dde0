"""Steps on objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube.api import KubeClient
from waymesh_operator.kube.kinds import kind_of

from .actions import ApplyObject, DeleteObject, Scale

ObjectAction = ApplyObject | DeleteObject | Scale


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes the objects of one Router (`uid`). `see` gets each answer, so that nothing is done twice."""

    kube: KubeClient
    namespace: str
    uid: str
    see: Callable[[str | None, Mapping[str, Any]], object]

    async def write(self, action: ObjectAction) -> None:
        """Carry out one step. Raises KubeError."""
        match action:
            case ApplyObject():
                if action.new:
                    await self._refuse_foreign(action.manifest)
                self.see(None, await self.kube.apply(action.manifest))
            case Scale():
                self.see(None, await self.kube.apply(action.manifest))
            case DeleteObject():
                await self.kube.delete(kind_of(action.kind), self.namespace, action.name)

    async def _refuse_foreign(self, manifest: Mapping[str, Any]) -> None:
        """What has the name but not this Router as its owner is somebody else's and stays as it is."""
        kind, name = kind_of(manifest["kind"]), manifest["metadata"]["name"]
        try:
            live = await self.kube.get(kind, self.namespace, name)
        except KubeError as error:
            if error.missing:
                return
            raise
        owners = live["metadata"].get("ownerReferences") or ()
        if self.uid not in {owner.get("uid") for owner in owners}:
            raise KubeError(409, f"{kind.kind} {name} exists and does not belong to this Router; it is left alone")
