"""Why the router in a pod does not run: what the scheduler, the kubelet or the StatefulSet controller says, in one word
that stays the same while the trouble does, and in their own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_operator.cluster.observed import NO_TROUBLE, Trouble

LASTING_RESTARTS = 3
"""A router that has ended so often without becoming ready will not become it by itself."""
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
    """What the pod itself says. `router` is the status of its router container."""
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
    """What the newest Event about a pod or a StatefulSet says; nothing when that is good news."""
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
    """A router that has ended, or ended before and is not ready yet: its last words, else its exit code."""
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
