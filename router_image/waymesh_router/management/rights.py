"""What a client may ask of this router's management, and through it of other routers: the right of its connection.

The bytes of a client that may only read never reach another router: what it asks of one is written anew from what was
checked here, so that no other router can read another operation in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_amqp.message import Message, encode_message
from waymesh_router.core.addresses.keys import own_management
from waymesh_router.core.kinds import ENDPOINT, READ_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.management.errors import bad_request, forbidden
from waymesh_router.management.request import READ_OPERATIONS, Request

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection, RouterLink

MOST_PASSED_ON = 1 << 16
"""Maximum size in bytes of a request that is passed on to another router."""
_MOST_CHARACTERS = 100
ADMIN_STATUS = "adminStatus"

Report = Callable[[str, str, str, "RouterConnection"], None]
"""Called with the operation, an error condition, a text and the connection."""


class Rights:
    """Checks the requests of clients that may not write."""

    def __init__(self, router_id: str, report: Report, log: Callable[[str, str], None]) -> None:
        """`report` counts and records a refused request. `log(level, text)` writes a line."""
        self._router_id = router_id
        self._report = report
        self._log = log

    def check(self, request: Request, link: RouterLink) -> None:
        """Refuse what the client of the link may not do. Raises ManagementError 403."""
        conn: RouterConnection = link.connection  # type: ignore[assignment]
        if conn.management == WRITE_MANAGEMENT:
            self._check_admin_status(request, conn)
            return
        if conn.management == READ_MANAGEMENT and request.operation in READ_OPERATIONS:
            return
        operation = request.operation[:_MOST_CHARACTERS]
        where = "connector" if conn.settings.client else "listener"
        text = f"{operation} is not allowed: {where} {conn.origin} has no management: write"
        about = f"type={request.type!r} {request.ids or ''} of {self.other(link) or 'this router'}"
        self._log(
            "warning",
            f"request refused: user={conn.user} host={conn.peer.host} {where}={conn.origin} operation={operation!r} "
            + about[: 3 * _MOST_CHARACTERS],
        )
        self._report(operation, UNAUTHORIZED_ACCESS, text, conn)
        raise forbidden(text)

    def _check_admin_status(self, request: Request, conn: RouterConnection) -> None:
        """Refuse an update of adminStatus that policy does not allow. Raises ManagementError 403."""
        if request.operation != "UPDATE" or ADMIN_STATUS not in request.body or conn.access.may_update_admin_status():
            return
        if conn.access.only_would_deny("adminStatus: allowAdminStatusUpdate is no"):
            return
        text = "adminStatus: policy does not allow this client to change it"
        self._log("warning", f"request refused: user={conn.user} host={conn.peer.host}: {text}")
        self._report(request.operation, UNAUTHORIZED_ACCESS, text, conn)
        raise forbidden(text)

    def other(self, link: RouterLink) -> str | None:
        """The address of the other router that the requests of a link are for; None if they are for this one.

        Only the address that the link was attached to counts, not annotations of a message.
        """
        asked = None if link.annotations is None else link.annotations.to
        return None if asked is None or own_management(asked, self._router_id) else str(asked)


def limited(link: RouterLink | None) -> bool:
    """Whether requests of the link need a check: a client's that may not write, or not everything.

    Other routers have checked theirs.
    """
    if link is None or link.kind != ENDPOINT:
        return False
    conn: RouterConnection = link.connection  # type: ignore[assignment]
    return conn.management != WRITE_MANAGEMENT or not (conn.access is None or conn.access.may_update_admin_status())


def passed_on(message: Message, request: Request, to: str) -> bytes:
    """The same request, written anew for the router at an address. Raises ManagementError 400."""
    anew = Message(
        to=to,
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        application_properties={**request.properties, "operation": request.operation},
        body=dict(request.body),
    )
    try:
        data = encode_message(anew)
    except (TypeError, ValueError) as error:
        raise bad_request(f"the request cannot be passed on: {error}") from None
    if len(data) > MOST_PASSED_ON:
        raise bad_request(f"a request to another router has at most {MOST_PASSED_ON} bytes")
    return data
