"""Interface from the core to telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.containers.autolink import AutoLink
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import Address, RouterConnection, RouterLink


class TelemetryHooks:
    """Receives events of the core. This base ignores them (no telemetry)."""

    def connection_opened(self, connection: RouterConnection) -> None:
        """The peer's open has arrived."""

    def connection_closed(self, connection: RouterConnection, error: ErrorInfo | None) -> None:
        """The connection ended."""

    def link_attached(self, link: RouterLink) -> None:
        """Both sides have attached."""

    def link_detached(self, link: RouterLink) -> None:
        """The link ended; its counters are final."""

    def deliveries_stuck(self, link: RouterLink, count: int, oldest_s: float) -> None:
        """This number of deliveries sent on a link has been unsettled for a long time, the oldest for `oldest_s`."""

    def link_blocked(self, link: RouterLink, waiting: int, for_s: float) -> None:
        """Deliveries wait for a link, which has taken none for `for_s` seconds."""

    def address_gone(self, address: Address) -> None:
        """The address is no longer used; its counters are final. A new address with this name counts from 0."""

    def autolink(self, auto: AutoLink, before: str | None, after: str | None) -> None:
        """The state of an autolink changed; None: created or removed."""

    def linkroute(self, route: LinkRoute, before: str | None, after: str | None) -> None:
        """The state of a link route changed; None: created or removed."""

    def event(self, name: str, severity: str, about: str, detail: Mapping[str, str]) -> None:
        """Any other event."""

    def topology_changed(self, change_id: int, since: float) -> None:
        """The control plane has new paths, as a result of changes received from the time `since` on."""
