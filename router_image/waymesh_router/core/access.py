"""Interface by which the core asks the policy what a client may do."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Final, Protocol

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_router.core.attaching import Refusal

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.model import RouterLink


class Access(Protocol):
    """The policy for one client connection."""

    def attach(self, lk: RouterLink, attach: Attach) -> None:
        """Set the permit and the limits of a link that the client attaches. Raises Refusal."""

    def closed(self) -> None:
        """The connection is closed."""

    def may_update_admin_status(self) -> bool:
        """Whether the client may change adminStatus of connections and links."""

    def in_group(self) -> bool:
        """Whether a user group or a SASL service determines the client's rights, so that each of its management
        requests must be checked. The right of a group to management may change at any time."""

    def limits_management(self) -> bool:
        """Whether policy limits the client's right to management below that of its listener."""

    def may_create_link_route(self, pattern: str) -> bool:
        """Whether the client may create a link route with this pattern to itself."""

    def may_route_all(self) -> bool:
        """Whether the client has an explicit right to a link route for all addresses (`#`)."""

    def may_receive_reserved(self, text: str) -> bool:
        """Whether the client has an explicit right to receive from an address that is reserved for routers."""

    def may_have_replies_at(self, text: str) -> bool:
        """Whether the router may send replies to management requests of the client to an address."""

    def only_would_deny(self, what: str) -> bool:
        """Whether a request that the client may not make is only counted and logged, not refused (dry run)."""


class ClosedAccess:
    """The policy for a closed client connection: it refuses requests that are still waiting.

    It replaces the `Access` with a reference to the connection, so that no reference cycle remains for the garbage
    collector.
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

    def may_create_link_route(self, pattern: str) -> bool:
        return False

    def may_route_all(self) -> bool:
        return False

    def may_receive_reserved(self, text: str) -> bool:
        return False

    def may_have_replies_at(self, text: str) -> bool:
        return False

    def only_would_deny(self, what: str) -> bool:
        return False


CLOSED: Final = ClosedAccess()


class Permit(Protocol):
    """The policy for one link that a client attached."""

    @property
    def user_ids(self) -> Set[bytes]:
        """The encoded values of user-id that the link's messages may have."""

    def may_send_to(self, text: str) -> bool:
        """Whether a message of an anonymous sender may have this address."""

    def denies(self, lk: RouterLink, payload: bytes, more: bool) -> bool:
        """Whether a delivery on a routed link is not allowed. `payload`: of its first frame."""

    def message_denied(self) -> None:
        """A message was refused."""

    def message_too_large(self) -> None:
        """A message exceeded the maximum size."""

    def ended(self, lk: RouterLink) -> None:
        """The link has ended."""
