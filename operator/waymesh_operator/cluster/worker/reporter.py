"""Events: what a person wants to know, shown by `kubectl describe`. The same one said again counts up."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube.api import KubeClient
from waymesh_operator.kube.kinds import EVENT

log = logging.getLogger(__name__)
NORMAL, WARNING = "Normal", "Warning"
AGAIN_S = 300.0
"""How long the same thing is not told again."""
REMEMBERED = 4096
_LONGEST = 1000


@dataclass(slots=True)
class _Told:
    count: int
    first: str
    at: datetime


@dataclass(slots=True)
class Reporter:
    """Writes Events. That one cannot be written stops nothing."""

    kube: KubeClient
    now: Callable[[], datetime]
    _told: dict[str, _Told] = field(default_factory=dict)

    async def tell(self, about: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Say something about an object. `kind` is NORMAL or WARNING, `reason` one word."""
        metadata, now = about["metadata"], self.now()
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        identity = "/".join((metadata.get("uid", ""), kind, reason, message))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        told = self._told.pop(digest, None) or _Told(0, stamp, datetime.min.replace(tzinfo=now.tzinfo))
        self._told[digest] = told
        if (now - told.at).total_seconds() < AGAIN_S:
            return
        told.count, told.at = told.count + 1, now
        while len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        log.log(logging.WARNING if kind == WARNING else logging.INFO, message, extra=_fields(about, reason))
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{metadata['name'][:200]}.{digest}", "namespace": metadata["namespace"]},
            "involvedObject": _reference(about),
            "type": kind,
            "reason": reason,
            "message": message[:_LONGEST],
            "count": told.count,
            "firstTimestamp": told.first,
            "lastTimestamp": stamp,
            "source": {"component": "waymesh-operator"},
            "reportingComponent": "waymesh-operator",
        }
        try:
            await self.kube.apply(event)
        except KubeError as error:
            log.warning("an Event could not be written: %s", error)


def _reference(about: Mapping[str, Any]) -> dict[str, Any]:
    metadata = about["metadata"]
    return {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }


def _fields(about: Mapping[str, Any], reason: str) -> dict[str, Any]:
    metadata = about["metadata"]
    return {"kind": about["kind"], "namespace": metadata["namespace"], "object": metadata["name"], "reason": reason}
