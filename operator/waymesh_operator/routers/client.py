"""The seam between the operator and a management client, so that tests can put a faulty one in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class LiveClient(Protocol):
    """What is asked of a management client. Every method raises `waymesh_client.errors.ClientError`."""

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[dict[str, Any]]:
        """All entities of a type, with the named attributes (all for none)."""

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """Make an entity."""

    def update(
        self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        """Change attributes of an entity."""

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        """Remove an entity."""

    def close(self) -> None:
        """End the connection; it is made again when it is needed."""


def connect(url: str, timeout_s: float = 2.0) -> LiveClient:
    """A client of the router at this URL. The connection is made at the first request."""
    from waymesh_client.management import ManagementClient  # proton is slow to import: only when it is needed

    return ManagementClient(url, timeout_s=timeout_s)
