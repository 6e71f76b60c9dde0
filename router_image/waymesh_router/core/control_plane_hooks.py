"""Interface from the core to the control plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, RouterConnection


class ControlPlaneHooks:
    """Receives the changes that concern the mesh. This base class ignores them (standalone router)."""

    def local_added(self, key: str, treatment: int) -> None:
        """A mobile address got its first local consumer, or its treatment changed."""

    def offered(self, key: str, offer: Mapping[str, object] | None) -> None:
        """Capabilities of the containers of a link route's address; announced with it."""

    def offer_of(self, router_id: str, key: str) -> Mapping[str, object] | None:
        """The capabilities that another router announced for the address."""
        return None

    def local_removed(self, key: str) -> None:
        """A mobile address lost its last local consumer."""

    def producer_added(self, address: Address) -> None:
        """A mobile address got its first local producer."""

    def producer_removed(self, address: Address) -> None:
        """A mobile address lost its last local producer."""

    def control_up(self, connection: RouterConnection) -> None:
        """Both control links of an inter-router connection are attached."""

    def control_lost(self, connection: RouterConnection) -> None:
        """An inter-router connection is gone."""

    def tell(self, router_id: str, body: Mapping[str, object]) -> None:
        """Send another router a message about demand."""

    def control_message(self, connection: RouterConnection, message: bytes) -> None:
        """A message arrived on a control link."""
