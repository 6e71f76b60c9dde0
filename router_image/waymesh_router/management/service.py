"""The addresses of management: requests come in, the agent answers them, replies go to where the requests ask."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.management.agent import Agent, LongQuery

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterLink

REQUEST_WORK = 1000
"""What a request costs of its connection's budget, all that it has in a turn of the loop: one request a turn is served
for each connection, and those of others in between."""


class ManagementService:
    """Answers requests in the order in which they come; a long query is answered in slices, others overtake it."""

    def __init__(
        self,
        agent: Agent,
        now: Callable[[], float],
        send: Callable[[str, bytes], bool],
        log: Callable[[str, str], None],
    ) -> None:
        """`send(address, message)` tells whether somebody has the address. `log(level, text)` writes a line."""
        self._agent = agent
        self._now = now
        self._send = send
        self._log = log
        self._long: deque[LongQuery] = deque()

    def on_request(self, data: bytes, link: RouterLink | None) -> None:
        """A message for $management; `link` is None where it came from another router or from this one."""
        if link is not None:
            link.connection.budget -= REQUEST_WORK
        try:
            request = decode_message(data)
        except DecodeError as e:
            self._log("warning", f"request cannot be decoded: {e.description}")
            return
        conn: Any = None if link is None else link.connection
        host_values = conn is not None and conn.management_files
        self._reply(self._agent.handle(request, self._now(), host_values, self._long.append))

    @property
    def busy(self) -> bool:
        """A long query is under way: `work` wants to be called in each turn."""
        return bool(self._long)

    def work(self) -> None:
        """Answer a slice of the first long query."""
        reply = self._long[0].step()
        if reply is not None:
            self._long.popleft()
            self._reply(reply)

    def _reply(self, reply: Message | None) -> None:
        if reply is None or not isinstance(reply.to, str):
            return
        if not self._send(reply.to, encode_message(reply)):
            self._log("info", f"nobody receives replies at {reply.to}")
