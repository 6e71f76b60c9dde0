"""What the core tells whoever keeps a record of what happens (telemetry)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.containers.autolinks import AutoLink
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import Address, RouterConnection, RouterLink


class TelemetryHooks:
    """Hears of what happens; this one ignores it (no telemetry)."""

    def connection_opened(self, connection: RouterConnection) -> None:
        """The peer's open is there."""

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        """It ended."""

    def link_attached(self, link: RouterLink) -> None:
        """Both sides have attached."""

    def link_detached(self, link: RouterLink) -> None:
        """It ended; its counters are final."""

    def address_gone(self, address: Address) -> None:
        """Nothing refers to it any more; its counters are final, a later one with its name begins anew."""

    def autolink(self, auto: AutoLink, before: str | None, after: str | None) -> None:
        """It went from one state to another; None: it is new, or was removed."""

    def linkroute(self, route: LinkRoute, before: str | None, after: str | None) -> None:
        """It went from one state to another; None: it is new, or was removed."""

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        """Something else happened."""

    def topology_changed(self, change_id: int, since: float) -> None:
        """The control plane has other paths, which follow from news that came in from the time `since` on."""
