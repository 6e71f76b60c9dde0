"""What a client may ask of this router's management, and through it of other routers: the right of its connection.

The bytes of a client that may only read never reach another router: what it asks of one is written anew from what was
checked here, so that no other router can read another operation in it.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_amqp.message import Message, encode_message
from waymesh_router import events
from waymesh_router.core.addresses.keys import own_management
from waymesh_router.core.kinds import ENDPOINT, MANAGEMENT_RIGHTS, READ_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.events import Event, ModuleLog
from waymesh_router.management.errors import bad_request, forbidden
from waymesh_router.management.request import READ_OPERATIONS, TENANT_OPERATIONS, Request
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection, RouterLink

MOST_PASSED_ON = 1 << 16
"""Maximum size in bytes of a request that is passed on to another router."""
_MOST_CHARACTERS = 100
ADMIN_STATUS = "adminStatus"
_NAMES = {number: name for name, number in MANAGEMENT_RIGHTS.items()}

Report = Callable[[str, str, str, "RouterConnection"], None]
"""Called with the operation, an error condition, a text and the connection."""


class Rights:
    """Checks the requests of clients that may not write."""

    def __init__(self, router_id: str, report: Report, log: ModuleLog) -> None:
        """`report` counts and records a refused request."""
        self._router_id = router_id
        self._report = report
        self._log = log

    def check(self, request: Request, link: RouterLink) -> None:
        """Refuse what the client of the link may not do. Raises ManagementError 403."""
        conn: RouterConnection = link.connection  # type: ignore[assignment]
        if conn.management == WRITE_MANAGEMENT and not conn.multi_tenant:
            self._check_admin_status(request, conn)
            self._log_passing(request, link)
            return
        if conn.management == READ_MANAGEMENT and request.operation in self._readable(conn, link):
            return
        operation = request.operation[:_MOST_CHARACTERS]
        where = "connector" if conn.settings.client else "listener"
        text = f"{operation} is not allowed: {_limit(conn, where)}"
        about = f"type={request.type!r} {request.ids or ''} of {self.other(link) or 'this router'}"
        self._log(
            "warning",
            f"request refused: user={conn.user} host={conn.peer.host} {where}={conn.origin} operation={operation!r} "
            + about[: 3 * _MOST_CHARACTERS]
            + (f" management={_NAMES[conn.management]} of its user group" if _by_policy(conn) else ""),
            _denied(conn, operation, text),
        )
        self._report(operation, UNAUTHORIZED_ACCESS, text, conn)
        raise forbidden(text)

    def _readable(self, conn: RouterConnection, link: RouterLink) -> Set[str]:
        """Operations for who may read. Tenants may not read the log, nor other routers."""
        if not conn.multi_tenant:
            return READ_OPERATIONS
        return TENANT_OPERATIONS if self.other(link) is None else frozenset()

    def _log_passing(self, request: Request, link: RouterLink) -> None:
        """Log a change that another router is asked for: that one only knows which router the request came from."""
        to = self.other(link)
        if to is None or request.operation in READ_OPERATIONS:
            return
        conn: RouterConnection = link.connection  # type: ignore[assignment]
        about = f"operation={request.operation!r} type={request.type!r} {request.ids or ''} to {to}"
        who = f"user={conn.user} host={conn.peer.host} listener={conn.origin}"
        event = events.about(LogEvent.MANAGEMENT_PASSED_ON, conn, operation=request.operation, to=to)
        self._log("info", f"request passed on: {who} {about[: 3 * _MOST_CHARACTERS]}", event)

    def _check_admin_status(self, request: Request, conn: RouterConnection) -> None:
        """Refuse an update of adminStatus that policy does not allow. Raises ManagementError 403."""
        if request.operation != "UPDATE" or ADMIN_STATUS not in request.body or conn.access.may_update_admin_status():
            return
        if conn.access.only_would_deny("adminStatus: allowAdminStatusUpdate is no"):
            return
        text = "adminStatus: policy does not allow this client to change it"
        about = f"user={conn.user} host={conn.peer.host}: {text}"
        self._log("warning", f"request refused: {about}", _denied(conn, request.operation, text))
        self._report(request.operation, UNAUTHORIZED_ACCESS, text, conn)
        raise forbidden(text)

    def other(self, link: RouterLink) -> str | None:
        """The address of the other router that the requests of a link are for; None if they are for this one.

        Only the address that the link was attached to counts, not annotations of a message.
        """
        asked = None if link.annotations is None else link.annotations.to
        return None if asked is None or own_management(asked, self._router_id) else str(asked)


def limited(link: RouterLink | None) -> bool:
    """Whether requests of the link need a check: those of a client that may not write, or whose user group decides.

    They all come here, those for other routers too. Other routers have checked theirs.
    """
    if link is None or link.kind != ENDPOINT:
        return False
    conn: RouterConnection = link.connection  # type: ignore[assignment]
    if conn.multi_tenant or conn.management != WRITE_MANAGEMENT:
        return True
    return conn.access is not None and bool(conn.access.in_group())


def _denied(conn: RouterConnection, operation: str, text: str) -> Event:
    detail = {"kind": "management", "operation": operation[:_MOST_CHARACTERS], "reason": text}
    return events.about(LogEvent.POLICY_DENIED, conn, **detail)


def _by_policy(conn: RouterConnection) -> bool:
    return conn.access is not None and bool(conn.access.limits_management())


def _limit(conn: RouterConnection, where: str) -> str:
    """What gives the client no more than it has, as it is told. `where`: listener or connector."""
    if conn.multi_tenant and conn.management == READ_MANAGEMENT:
        return "tenants read what is their own"
    if _by_policy(conn):
        return f"policy gives this client management: {_NAMES[conn.management]}"
    return f"{where} {conn.origin} has no management: write"


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
