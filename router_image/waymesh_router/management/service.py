"""Receives requests at the management addresses, has the agent answer them, and sends the replies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.kinds import ENDPOINT
from waymesh_router.core.tenants import reply_in_space
from waymesh_router.events import Event, ModuleLog, about
from waymesh_router.management.agent import Agent, failed
from waymesh_router.management.errors import BAD_REQUEST, INTERNAL_ERROR, OK, ManagementError, unavailable
from waymesh_router.management.long_queries import LongQueries
from waymesh_router.management.look_ups import LookUps, Task
from waymesh_router.management.request import read_request
from waymesh_router.management.rights import Rights, limited, passed_on
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterLink

REQUEST_WORK = 256
"""What a request costs of its connection's budget: the whole budget of a turn of the loop, so that a turn serves one
request of each connection."""


class ManagementService:
    """Answers requests in the order in which they arrive, those of a client at least. Long queries are answered in
    slices; others overtake them. A request that needs host names to be looked up keeps only its own client waiting."""

    def __init__(
        self,
        agent: Agent,
        now: Callable[[], float],
        send: Callable[[str, bytes], bool],
        log: ModuleLog,
        rights: Rights,
        look_ups: LookUps,
    ) -> None:
        """`send(address, message)` tells whether somebody has the address."""
        self._rights = rights
        self._agent = agent
        self._now = now
        self._send = send
        self._log = log
        self._look_ups = look_ups
        self._long = LongQueries()

    def on_request(self, data: bytes, link: RouterLink | None) -> None:
        """A message for $management; `link`: where it arrived, None for one of this router."""
        if link is not None:
            link.connection.budget -= REQUEST_WORK
        try:
            request = decode_message(data)
        except DecodeError as e:
            self._log("warning", f"request cannot be decoded: {e.description}", _failed_of(link))
            return
        conn: Any = None if link is None else link.connection
        tenant = conn is not None and conn.multi_tenant
        if tenant:  # a reply must not go where the tenant could not send itself
            request.reply_to = reply_in_space(conn.tenant, request.reply_to)
        if link is not None and limited(link) and self._kept_back(request, link):
            return
        agent = self._agent.for_tenant(conn.tenant) if tenant else self._agent
        host_values = link is not None and link.kind == ENDPOINT and conn.management_files
        connection = None if conn is None else str(conn.id)
        later = partial(self._long.add, conn)

        def work() -> None:
            reply = agent.handle(request, self._now(), host_values, later, connection)
            self._log_failure(reply, link)
            self._reply(reply, link)

        def refuse(error: ManagementError) -> None:
            if request.reply_to:
                self._reply(failed(request, error.status, error.description), link)

        self._look_ups.carry_out(Task(conn, work, refuse))

    def _kept_back(self, message: Message, link: RouterLink) -> bool:
        """Whether this router's agent is not to answer: the client may not ask this, or has asked another router."""
        try:
            request = read_request(message)
            self._rights.check(request, link)
            other = self._rights.other(link)
            if other is None:
                return False
            if message.reply_to and not self._send(other, passed_on(message, request, other)):
                raise unavailable(f"{other} cannot be reached")
        except ManagementError as error:
            self._reply(failed(message, error.status, error.description), link)
        return True

    @property
    def busy(self) -> bool:
        """Whether long queries are under way: `work` is then to be called in each turn of the loop."""
        return bool(self._long)

    def work(self) -> None:
        """Answer a slice of a long query."""
        self._reply(self._long.step())

    def _log_failure(self, reply: Message | None, link: RouterLink | None) -> None:
        properties = {} if reply is None else reply.application_properties or {}
        status = int(properties.get("statusCode") or OK)
        if BAD_REQUEST <= status != INTERNAL_ERROR:
            text = f"request failed: {status} {properties['statusDescription']}"
            self._log("info", text, _failed_of(link, status=status))

    def _reply(self, reply: Message | None, link: RouterLink | None = None) -> None:
        if reply is None or not isinstance(reply.to, str):
            return
        if not self._send(reply.to, encode_message(reply)):
            self._log("info", f"nobody receives replies at {reply.to}", _failed_of(link))


def _failed_of(link: RouterLink | None, **detail: int) -> Event | None:
    """The event of a failed request that came on a link; clients can cause as many as they like."""
    return None if link is None else about(LogEvent.MANAGEMENT_FAILED, link.connection, **detail)  # type: ignore[arg-type]
