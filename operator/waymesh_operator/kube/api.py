"""The seam. Five verbs are all that the operator asks of the API server, so a test can put a faulty one in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .kinds import Kind

Manifest = Mapping[str, Any]
FIELD_MANAGER = "waymesh-operator"
"""Under this name all that the operator sets is noted as its own, whichever version or replica of it writes."""


class KubeClient(Protocol):
    """What is asked of the API server. Every method raises KubeError."""

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """One object."""

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = ""
    ) -> list[dict[str, Any]]:
        """The objects of a kind, as they are now (not from a cache that may be behind); all namespaces for None.

        `selector` chooses by labels, `fields` by fields.
        """

    async def apply(self, manifest: Manifest, *, manager: str = FIELD_MANAGER, force: bool = True) -> dict[str, Any]:
        """Server-side apply: make the object, or set the fields that the manifest names.

        With `force` fields of other managers are taken over, else they are a conflict. A `resourceVersion` in the
        manifest makes it a conflict that somebody changed the object meanwhile.
        """

    async def patch_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        """Make this the status of an object that exists."""

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Remove an object; what is gone already is fine."""
