"""Receives management requests, lets the agent answer them and sends the replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, encode_message
from waymesh_router.core.forwarding.annotations import TO
from waymesh_router.core.link_kinds import ENDPOINT, READ_MANAGEMENT
from waymesh_router.core.portions import COST_A_TURN
from waymesh_router.core.tenants import reply_in_space
from waymesh_router.events.event import Event, ModuleLog, about
from waymesh_router.management.agent import Agent
from waymesh_router.management.errors import (
    BAD_REQUEST,
    INTERNAL_ERROR,
    OK,
    ManagementError,
    bad_request,
    unavailable,
)
from waymesh_router.management.long_queries import LongQueries
from waymesh_router.management.look_ups import LookUps, Task
from waymesh_router.management.reader_view import FOR_READER
from waymesh_router.management.replies import failed
from waymesh_router.management.request import MAX_VALUES, decode_request, read_request
from waymesh_router.management.rights import Rights, needs_check, reencoded
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterLink

REQUEST_WORK = 256
"""Cost of a request in its connection's budget: the whole budget of a turn of the event loop, so that each turn serves
one request per connection."""


class ManagementService:
    """Answers the requests of each client in the order of arrival. Long queries are answered in slices; other requests
    overtake them. A request that needs a look-up of host names delays only requests of the same client."""

    def __init__(
        self,
        agent: Agent,
        now: Callable[[], float],
        send: Callable[[str, bytes], bool],
        log: ModuleLog,
        rights: Rights,
        look_ups: LookUps,
    ) -> None:
        """`send(address, message)` returns whether the address has a receiver."""
        self._rights = rights
        self._agent = agent
        self._now = now
        self._send = send
        self._log = log
        self._look_ups = look_ups
        self._long = LongQueries()
        self.long_queries = self._long.waiting

    def on_request(self, data: bytes, link: RouterLink | None) -> None:
        """Handle a message to $management. `link`: the link that it arrived on, None for a message of this router."""
        if link is not None:
            link.connection.budget -= REQUEST_WORK
        try:
            request, whole = decode_request(data)
        except DecodeError as e:
            self._log("warning", f"request cannot be decoded: {e.description}", _failed_of(link))
            return
        conn: Any = None if link is None else link.connection
        if link is not None and not self._rights.allows_reply(request.reply_to, link):
            return
        tenant = conn is not None and conn.multi_tenant
        if tenant:  # a reply must only go to addresses that the tenant may send to
            request.reply_to = reply_in_space(conn.tenant, request.reply_to)
        if not whole:
            error = bad_request(f"the request has more than {MAX_VALUES} values")
            self._reply(failed(request, error.status, error.description), link)
            return
        if link is not None and needs_check(link) and self._refuse_or_forward(request, link):
            return
        agent = self._agent.for_tenant(conn.tenant) if tenant else self._agent_for(request, link)
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

    def _agent_for(self, request: Message, link: RouterLink | None) -> Agent:
        """The agent for a request of a client that is no tenant, or of another router."""
        if link is not None and link.kind == ENDPOINT and link.connection.management == READ_MANAGEMENT:
            return self._agent.for_reader(str(link.connection.id))
        passed_on = (request.application_properties or {}).get(FOR_READER)
        if passed_on:
            return self._agent.for_reader("")
        return self._agent if link is None else self._agent.for_client(str(link.connection.id))

    def _refuse_or_forward(self, message: Message, link: RouterLink) -> bool:
        """Refuse a request that the client may not send, or forward it to another router. False: answer it here."""
        try:
            request = replace(read_request(message), to=_address_of(message))
            self._rights.check(request, link)
            other = self._rights.other_router(link, request)
            if other is None:
                return False
            if message.reply_to and not self._send(other, reencoded(message, request, other, link)):
                raise unavailable(f"{other} cannot be reached")
        except ManagementError as error:
            self._reply(failed(message, error.status, error.description), link)
        return True

    @property
    def busy(self) -> bool:
        """Whether there are long queries: this object must then be among the walks of the event loop, see `step`."""
        return bool(self._long)

    def step(self) -> int:
        """Answer a slice of a long query; see core/portions.py."""
        if not self._long:
            return 0
        self._reply(self._long.step())
        return COST_A_TURN

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
            self._log("info", f"no receiver for the reply at {reply.to}", _failed_of(link))


def _address_of(message: Message) -> str | None:
    """The address of a message, as routers read it: from the annotation of another router, else from its properties."""
    to = (message.message_annotations or {}).get(TO)
    return to if isinstance(to, str) else message.to


def _failed_of(link: RouterLink | None, **detail: int) -> Event | None:
    """The event of a failed request that came on a link; None for requests of this router."""
    return None if link is None else about(LogEvent.MANAGEMENT_FAILED, link.connection, **detail)
