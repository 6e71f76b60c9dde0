"""Which operator looks after a Router: the one whose namespace its status names.

Two operators that watch the same Router would undo each other's work. The first one writes its namespace, more exactly
that of its Lease, into `status.operator`; others leave the Router alone until that Lease is gone or not renewed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import EVENT, LEASE, KubeClient
from waymesh_operator.places.kubernetes.lease import NAME
from waymesh_operator.resources.router import Ref

log = logging.getLogger(__name__)
STALE_S = 60.0
"""An operator whose Lease has not changed for this time is not there any more. It renews it every few seconds."""
OTHER_OPERATOR = "OtherOperator"
"""Reason of the Event by which an operator tells that it leaves a Router alone, every five minutes while it does."""
LOOK_S, LATELY = 60.0, timedelta(minutes=10)
"""How often these Events are listed, and for how long one counts: one that is late, or clocks that differ, must not
make the condition come and go."""
LONGEST_NAME = 63
"""Characters of the name of a namespace."""


def operator_of(router: Mapping[str, Any]) -> str:
    """The namespace of the operator that a Router names; empty if none has looked after it yet."""
    return str((router.get("status") or {}).get("operator") or "")


@dataclass(slots=True)
class OtherOperators:
    """What is known about operators in other namespaces, and the meshes that are left to them."""

    kube: KubeClient
    clock: Callable[[], float]
    now: Callable[[], datetime]
    # The namespace of the operator, by mesh.
    left: dict[Ref, str] = field(default_factory=dict)
    # By namespace: the resourceVersion of the Lease, and when it was first seen.
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    # By namespace of Routers: when the Events were listed, and what they say: uid of the Router, operator, time.
    _told: dict[str, tuple[float, tuple[tuple[str, str, str], ...]]] = field(default_factory=dict)

    async def is_gone(self, namespace: str) -> bool:
        """Whether the operator there has ended. One whose Lease cannot be read counts as present."""
        try:
            lease = await self.kube.get(LEASE, namespace, NAME)
        except KubeError as error:
            log.log(logging.DEBUG if error.missing else logging.WARNING, "Lease in %s: %s", namespace, error)
            return error.missing
        version = str(lease["metadata"].get("resourceVersion", ""))
        known = self._seen.get(namespace)
        if known is None or known[0] != version:
            self._seen[namespace] = (version, self.clock())
            return False
        return self.clock() - known[1] > STALE_S

    async def beside(self, router: Mapping[str, Any], home: str) -> tuple[str, ...]:
        """Return the namespaces of the operators that watch a Router of this one, too, and left it alone lately. Only
        their Events tell of them, and anyone who may write Events could: it is a hint, nothing else depends on it."""
        if not home:
            return ()
        namespace, uid = router["metadata"]["namespace"], router["metadata"].get("uid", "")
        listed, told = self._told.get(namespace, (float("-inf"), ()))
        if self.clock() - listed >= LOOK_S:
            try:
                told = tuple(_told(await self.kube.list(EVENT, namespace, fields=f"reason={OTHER_OPERATOR}")))
            except KubeError as error:
                log.debug("Events in %s: %s", namespace, error)
            self._told[namespace] = self.clock(), told
        since = (self.now() - LATELY).strftime("%Y-%m-%dT%H:%M:%SZ")
        return tuple(sorted({who for about, who, at in told if about == uid and who not in ("", home) and at >= since}))


def _told(events: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str, str]]:
    for event in events:
        about = str((event.get("involvedObject") or {}).get("uid") or "")
        yield about, str(event.get("reportingInstance") or "")[:LONGEST_NAME], str(event.get("lastTimestamp") or "")
