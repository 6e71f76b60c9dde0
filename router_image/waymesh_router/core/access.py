"""What policy allows a client: calls from the core to the one who decides."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Final, Protocol

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.core.attaching import Refusal

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.model import RouterLink


class Access(Protocol):
    """Of one client connection."""

    def attach(self, lk: RouterLink, attach: Attach) -> None:
        """Set the permit and the limits of a link that the client attaches. Raises Refusal."""

    def closed(self) -> None:
        """The connection is gone."""

    def may_update_admin_status(self) -> bool:
        """Whether the client may change adminStatus of connections and links."""

    def in_group(self) -> bool:
        """Whether a user group decides what the client may do: its right to management may change at any time."""

    def limits_management(self) -> bool:
        """Whether policy gives the client a smaller right to management than its listener does."""

    def may_create_link_routes(self) -> bool:
        """Whether the client may create link routes to itself."""

    def only_would_deny(self, what: str) -> bool:
        """Whether a request that the client may not make is carried out nevertheless; it is counted and logged then."""


class ClosedAccess:
    """Of a closed client connection: what it asked for and still waits is not allowed any more.

    It takes the place of the `Access` that has a reference to the connection: no cycle is left that only the collector
    frees.
    """

    def attach(self, lk: RouterLink, attach: Attach) -> None:
        raise Refusal(UNAUTHORIZED_ACCESS, "the connection is closed")

    def closed(self) -> None:
        pass

    def may_update_admin_status(self) -> bool:
        return False

    def in_group(self) -> bool:
        return True

    def limits_management(self) -> bool:
        return False

    def may_create_link_routes(self) -> bool:
        return False

    def only_would_deny(self, what: str) -> bool:
        return False


CLOSED: Final = ClosedAccess()


class Permit(Protocol):
    """Of one link that a client attached."""

    user_ids: Set[bytes]
    """The encoded values of user-id that the link's messages may have."""

    def may_send_to(self, text: str) -> bool:
        """Whether a message of an anonymous sender may have this address."""

    def denies(self, lk: RouterLink, payload: bytes, more: bool) -> bool:
        """Whether a delivery on a routed link is not allowed. `payload`: of its first frame."""

    def message_denied(self) -> None:
        """A message was refused."""

    def ended(self, lk: RouterLink) -> None:
        """The link is gone."""
