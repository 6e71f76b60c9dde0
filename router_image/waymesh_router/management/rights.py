"""Checks management requests of clients against the management right of their connection.

This includes requests to other routers. A checked request is encoded again from the checked fields before it is
forwarded, so that the other router cannot parse another operation from the client's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_amqp.message import Message, encode_message
from waymesh_router.core.addresses.keys import own_management
from waymesh_router.core.link_kinds import ENDPOINT, MANAGEMENT_RIGHTS, READ_MANAGEMENT, WRITE_MANAGEMENT
from waymesh_router.events import event as events
from waymesh_router.events.event import Event, ModuleLog
from waymesh_router.management.errors import bad_request, forbidden
from waymesh_router.management.reader_view import FOR_READER, LINK_ROUTE
from waymesh_router.management.request import READ_OPERATIONS, TENANT_OPERATIONS, Request
from waymesh_schema.entities import is_type
from waymesh_schema.events import LogEvent
from waymesh_schema.model import camel_case

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection, RouterLink

MAX_FORWARDED_BYTES = 1 << 16
"""Maximum size in bytes of a request that is forwarded to another router."""
_MAX_CHARACTERS = 100
ADMIN_STATUS = "adminStatus"
_NAMES = {number: name for name, number in MANAGEMENT_RIGHTS.items()}

Report = Callable[[str, str, str, "RouterConnection"], None]
"""Called with the operation, an error condition, a text and the connection."""


class Rights:
    """Checks the requests of the links for which `needs_check` is true."""

    def __init__(self, router_id: str, report: Report, log: ModuleLog) -> None:
        """`report` counts and records a refused request."""
        self._router_id = router_id
        self._report = report
        self._log = log

    def check(self, request: Request, link: RouterLink) -> None:
        """Raise ManagementError 403 if the client of the link may not send the request."""
        conn: RouterConnection = link.connection
        if conn.management == WRITE_MANAGEMENT and not conn.multi_tenant:
            self._check_admin_status(request, conn)
            self._log_forwarding(request, link)
            return
        if conn.management == READ_MANAGEMENT and request.operation in self._readable(request, link):
            return
        if self._is_for_own_link_route(request, link):
            return
        operation = request.operation[:_MAX_CHARACTERS]
        where = "connector" if conn.settings.client else "listener"
        text = f"{operation} is not allowed: {_limit(conn, where)}"
        about = f"type={request.type!r} {request.ids or ''} of {self.other_router(link, request) or 'this router'}"
        self._log(
            "warning",
            f"request refused: user={conn.user} host={conn.peer.host} {where}={conn.origin} operation={operation!r} "
            + about[: 3 * _MAX_CHARACTERS]
            + (f" management={_NAMES[conn.management]} of its user group" if _limited_by_policy(conn) else ""),
            _denied(conn, operation, text),
        )
        self._report(operation, UNAUTHORIZED_ACCESS, text, conn)
        raise forbidden(text)

    def allows_reply(self, reply_to: object, link: RouterLink) -> bool:
        """Whether policy allows the client of the link to have replies sent to an address. Otherwise, the client
        could make the router send messages to addresses to which the client may not send."""
        conn: RouterConnection = link.connection
        if link.kind != ENDPOINT or conn.access is None or not isinstance(reply_to, str):
            return True
        if conn.access.may_have_replies_at(reply_to) or conn.access.only_would_deny("management: reply-to"):
            return True
        text = "policy does not allow this client to send to or receive from the reply-to address of its request"
        about = f"user={conn.user} host={conn.peer.host} reply-to={reply_to[:_MAX_CHARACTERS]!r}"
        self._log("warning", f"request dropped: {about}: {text}", _denied(conn, "reply-to", text))
        self._report("reply-to", UNAUTHORIZED_ACCESS, text, conn)
        return False

    def _readable(self, request: Request, link: RouterLink) -> Set[str]:
        """Operations of read-only clients. Tenants cannot read the log or send requests to other routers."""
        if not link.connection.multi_tenant:
            return READ_OPERATIONS
        return TENANT_OPERATIONS if self.other_router(link, request) is None else frozenset()

    def _is_for_own_link_route(self, request: Request, link: RouterLink) -> bool:
        """Whether an edge router or a container creates or deletes a link route to itself.

        The agent for readers deletes no others.
        """
        conn: RouterConnection = link.connection
        if not conn.creates_link_routes or conn.management != READ_MANAGEMENT:
            return False
        if request.operation not in ("CREATE", "DELETE") or self.other_router(link, request) is not None:
            return False
        return request.type is not None and is_type(request.type, LINK_ROUTE)

    def _log_forwarding(self, request: Request, link: RouterLink) -> None:
        """Log a change requested from another router, which only knows the router that the request came from."""
        to = self.other_router(link, request)
        if to is None or request.operation in READ_OPERATIONS:
            return
        conn: RouterConnection = link.connection
        about = f"operation={request.operation!r} type={request.type!r} {request.ids or ''} to {to}"
        who = f"user={conn.user} host={conn.peer.host} listener={conn.origin}"
        event = events.about(LogEvent.MANAGEMENT_PASSED_ON, conn, operation=request.operation, to=to)
        self._log("info", f"request passed on: {who} {about[: 3 * _MAX_CHARACTERS]}", event)

    def _check_admin_status(self, request: Request, conn: RouterConnection) -> None:
        """Raise ManagementError 403 if the request updates adminStatus and policy does not allow it."""
        access = conn.access
        if request.operation != "UPDATE" or ADMIN_STATUS not in map(camel_case, request.body) or access is None:
            return
        if access.may_update_admin_status() or access.only_would_deny("adminStatus: allowAdminStatusUpdate is no"):
            return
        text = "adminStatus: policy does not allow this client to change it"
        about = f"user={conn.user} host={conn.peer.host}: {text}"
        self._log("warning", f"request refused: {about}", _denied(conn, request.operation, text))
        self._report(request.operation, UNAUTHORIZED_ACCESS, text, conn)
        raise forbidden(text)

    def other_router(self, link: RouterLink, request: Request) -> str | None:
        """Address of the other router that a request of a link is for; None if it is for this router.

        Only the address of the attach counts, never annotations of a message, except for the requests of an edge
        router: all of them come on one link without an address.
        """
        asked = None if link.annotations is None else link.annotations.to
        if link.connection.edge_router is not None and asked is None:
            asked = request.to
        return None if asked is None or own_management(asked, self._router_id) else str(asked)


def needs_check(link: RouterLink | None) -> bool:
    """Whether requests of the link must be checked: those of clients without the write right or in a user group.

    Their requests to other routers are checked here too. Requests from other routers were checked there.
    """
    if link is None or link.kind != ENDPOINT:
        return False
    conn: RouterConnection = link.connection
    if conn.multi_tenant or conn.management != WRITE_MANAGEMENT:
        return True
    return conn.access is not None and bool(conn.access.in_group())


def _denied(conn: RouterConnection, operation: str, text: str) -> Event:
    detail = {"kind": "management", "operation": operation[:_MAX_CHARACTERS], "reason": text}
    return events.about(LogEvent.POLICY_DENIED, conn, **detail)


def _limited_by_policy(conn: RouterConnection) -> bool:
    return conn.access is not None and bool(conn.access.limits_management())


def _limit(conn: RouterConnection, where: str) -> str:
    """Why the client has no more rights, for the reply. `where`: listener or connector."""
    if conn.multi_tenant and conn.management == READ_MANAGEMENT:
        return "tenants may only read their own entities"
    if _limited_by_policy(conn):
        return f"policy gives this client management: {_NAMES[conn.management]}"
    return f"{where} {conn.origin} has no management: write"


def reencoded(message: Message, request: Request, to: str, link: RouterLink) -> bytes:
    """The checked request of a link as a new message to the router at an address. Raises ManagementError 400."""
    properties = {**request.properties, "operation": request.operation}
    if link.connection.management == READ_MANAGEMENT:
        properties[FOR_READER] = True
    copy = Message(
        to=to,
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        application_properties=properties,
        body=dict(request.body),
    )
    try:
        data = encode_message(copy)
    except (TypeError, ValueError) as error:
        raise bad_request(f"the request cannot be forwarded: {error}") from None
    if len(data) > MAX_FORWARDED_BYTES:
        raise bad_request(f"the request has more than {MAX_FORWARDED_BYTES} bytes, the maximum for another router")
    return data
