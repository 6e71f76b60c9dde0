"""Router pods as the API server shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.kube import SELECTOR
from waymesh_operator.specs import Ref


@dataclass(frozen=True, slots=True)
class PodView:
    """One router's pod. `address` is empty until it has one; `trouble` says why it does not start."""

    id: str
    ordinal: int
    uid: str
    address: str = ""
    running: bool = False
    ready: bool = False
    leaving: bool = False
    trouble: str = ""

    @property
    def reachable(self) -> bool:
        """Whether it makes sense to ask the router."""
        return self.running and bool(self.address) and not self.leaving


def pod_view(pod: Mapping[str, Any], mesh: Ref) -> PodView | None:
    """The view of a pod; None for one that is no router of this mesh (a job's, a helm test's)."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    prefix, _, number = metadata["name"].rpartition("-")
    if prefix != mesh.name or not number.isdecimal() or (metadata.get("labels") or {}).get(SELECTOR) != mesh.name:
        return None
    containers = status.get("containerStatuses") or []
    router: Mapping[str, Any] = next((item for item in containers if item["name"] == "router"), {})
    return PodView(
        id=metadata["name"],
        ordinal=int(number),
        uid=metadata.get("uid", ""),
        address=status.get("podIP") or "",
        running="running" in (router.get("state") or {}),
        ready=_condition(status, "Ready").get("status") == "True",
        leaving=bool(metadata.get("deletionTimestamp")),
        trouble=_trouble(status, router),
    )


def _trouble(status: Mapping[str, Any], router: Mapping[str, Any]) -> str:
    """Why the router does not run: the scheduler's word, or the kubelet's."""
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', 'not scheduled')}: {scheduled.get('message', '')}".rstrip(": ")
    waiting = (router.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") in (None, "ContainerCreating", "PodInitializing"):
        return ""
    last = ((router.get("lastState") or {}).get("terminated") or {}).get("message") or waiting.get("message", "")
    return f"{waiting['reason']}: {last}".rstrip(": ")


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = status.get("conditions") or []
    return next((item for item in conditions if item.get("type") == kind), {})
