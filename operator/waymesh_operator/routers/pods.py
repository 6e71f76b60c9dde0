"""Router pods as the API server shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.cluster.observed import NO_TROUBLE, Trouble
from waymesh_operator.kube.kinds import SELECTOR
from waymesh_operator.resources.model import Ref

from .trouble import pod_trouble


@dataclass(frozen=True, slots=True)
class PodView:
    """One router's pod. `address` is empty until it has one; `trouble` says why it does not run, `waits` that the
    kubelet has not started the router yet. `life` tells one start of the router from the next."""

    id: str
    ordinal: int
    uid: str
    address: str = ""
    running: bool = False
    ready: bool = False
    leaving: bool = False
    waits: bool = False
    trouble: Trouble = NO_TROUBLE
    life: str = ""

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
    ready = _condition(status, "Ready").get("status") == "True"
    return PodView(
        id=metadata["name"],
        ordinal=int(number),
        uid=metadata.get("uid", ""),
        address=status.get("podIP") or "",
        running="running" in (router.get("state") or {}),
        ready=ready,
        leaving=bool(metadata.get("deletionTimestamp")),
        waits=not metadata.get("deletionTimestamp") and "waiting" in (router.get("state") or {}),
        trouble=NO_TROUBLE if metadata.get("deletionTimestamp") else pod_trouble(pod, router, ready),
        life=f"{metadata.get('uid', '')}/{router.get('restartCount', 0)}",
    )


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = status.get("conditions") or []
    return next((item for item in conditions if item.get("type") == kind), {})
