"""Which operator looks after a Router: the one whose namespace its status names.

Two operators that watch the same Router would undo each other's work. The first one writes its namespace, more exactly
that of its Lease, into `status.operator`; others leave the Router alone until that Lease is gone or not renewed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.cluster.lease import NAME
from waymesh_operator.errors import KubeError
from waymesh_operator.kube import LEASE, KubeClient
from waymesh_operator.resources.router import Ref

log = logging.getLogger(__name__)
STALE_S = 60.0
"""An operator whose Lease has not changed for this time is not there any more. It renews it every few seconds."""


def operator_of(router: Mapping[str, Any]) -> str:
    """The namespace of the operator that a Router names; empty if none has looked after it yet."""
    return str((router.get("status") or {}).get("operator") or "")


@dataclass(slots=True)
class OtherOperators:
    """What is known about operators in other namespaces, and the meshes that are left to them."""

    kube: KubeClient
    clock: Callable[[], float]
    # The namespace of the operator, by mesh.
    left: dict[Ref, str] = field(default_factory=dict)
    # By namespace: the resourceVersion of the Lease, and when it was first seen.
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)

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
