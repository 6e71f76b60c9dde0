"""Router pods from the API server, and reasons why the router in a pod does not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.kube.api import SELECTOR
from waymesh_operator.resources.router import Ref

from .observed import NO_TROUBLE, Trouble

LASTING_RESTARTS = 3
"""After this many ends without becoming ready, a router is not expected to recover by itself."""
_LONGEST = 400
_WAITING = {
    "ErrImagePull": "ImageUnavailable",
    "ImagePullBackOff": "ImageUnavailable",
    "ErrImageNeverPull": "ImageUnavailable",
    "InvalidImageName": "ImageUnavailable",
    "ImageInspectError": "ImageUnavailable",
    "RegistryUnavailable": "ImageUnavailable",
    "CreateContainerConfigError": "ConfigurationMissing",
    "CreateContainerError": "ContainerRefused",
    "RunContainerError": "ContainerRefused",
}
_STARTING = (None, "ContainerCreating", "PodInitializing")
_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")


def pod_trouble(pod: Mapping[str, Any], router: Mapping[str, Any], ready: bool) -> Trouble:
    """Return the trouble that the pod reports. `router` is the status of its router container."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return _trouble(str(status.get("reason") or "PodFailed"), status.get("message"))
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _trouble(str(scheduled.get("reason") or "Unschedulable"), scheduled.get("message"))
    ended = _ended(router)
    if ended and not ready:
        return ended
    others = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((found for item in others if (found := _waits(item))), NO_TROUBLE)


def event_trouble(events: Iterable[Mapping[str, Any]]) -> Trouble:
    """Return the trouble in the newest Event about a pod or a StatefulSet; None if that Event is not a warning."""
    newest = max(events, key=_moment, default={})
    reason, message = str(newest.get("reason") or ""), newest.get("message")
    if newest.get("type") != "Warning" or not reason.startswith("Failed"):
        return NO_TROUBLE
    if reason in _MOUNTS:
        return _trouble("VolumeUnavailable", message)
    if reason == "FailedCreate":
        return _trouble("QuotaExceeded" if "exceeded quota" in str(message) else "PodRefused", message)
    return _trouble(reason, message, lasting=False)


def _ended(router: Mapping[str, Any]) -> Trouble:
    """Describe a router that ended, or ended before and is not ready yet: its last log line, else its exit code."""
    state = router.get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason")
    last = state.get("terminated") or (router.get("lastState") or {}).get("terminated")
    if not last or waiting not in (None, "CrashLoopBackOff"):
        return NO_TROUBLE
    lines = str(last.get("message") or "").strip().splitlines()
    reason = last.get("reason") if last.get("reason") not in (None, "Error", "Completed") else None
    words = [f"exit code {last.get('exitCode', '?')}", *([str(reason)] if reason else [])]
    text = ", ".join(words) + (f": {lines[-1].strip()}" if lines else "")
    lasting = int(router.get("restartCount") or 0) >= LASTING_RESTARTS
    return _trouble("CrashLoop" if lasting else "Exited", text, lasting=lasting)


def _waits(container: Mapping[str, Any]) -> Trouble:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason")
    if reason in _STARTING:
        return NO_TROUBLE
    return _trouble(_WAITING.get(reason, str(reason)), waiting.get("message") or reason)


def _trouble(word: str, message: Any, *, lasting: bool = True) -> Trouble:
    text = " ".join(str(message or "").split())
    return Trouble(word, text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…", lasting)


def _moment(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


@dataclass(frozen=True, slots=True)
class PodView:
    """One router's pod. `address` is empty until it has one; `trouble`: why it does not run; `waits`: the
    kubelet has not started the router yet; `life` identifies one start of the router."""

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
        """Whether the router can be queried."""
        return self.running and bool(self.address) and not self.leaving


def pod_view(pod: Mapping[str, Any], mesh: Ref) -> PodView | None:
    """Return the view of a pod; None if it is not a router of this mesh (a pod of a job or helm test)."""
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
