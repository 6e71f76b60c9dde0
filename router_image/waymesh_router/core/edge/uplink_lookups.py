"""Attaches of an edge router's clients that wait for the interior router's answer whether a link route matches.

Source: protocol/edge.md "Address lookup".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError
from waymesh_router.core.addresses.keys import bare_address, of_routers
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.edge.messages import (
    LOOKUP_ADDRESS,
    OK,
    LookupReply,
    LookupRequest,
    decode_lookup_reply,
    encode_lookup,
)
from waymesh_router.core.edge.uplink_services import UplinkService

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.edge.uplink_links import UplinkLinks
    from waymesh_router.core.forwarding.own_messages import OwnMessages
    from waymesh_router.core.model import RouterLink

REPLY_CREDIT = 250
UNKNOWN_TEXT = "the link routes of the mesh are not known yet: try again"
ANSWER_S = 3.0
"""After this time without an answer, an attach is refused: as an ordinary link, it would miss a link route for good."""
REFUSE_COST = 12
"""Of refusing an attach, see `Portions`."""

Answer = Callable[["RouterLink", "Attach", LookupReply | None], None]
Refuse = Callable[["RouterLink", Refusal], None]


class UplinkLookups:
    """The waiting attaches by correlation-id.

    `answer(link, attach, reply)` is called with an answer; `reply` is None if no link route matches. `refuse` is called
    without an answer: where many attaches wait, in portions.
    """

    def __init__(
        self, context: CoreContext, links: UplinkLinks, messages: OwnMessages, answer: Answer, refuse: Refuse
    ) -> None:
        self._context = context
        self._answer = answer
        self._refuse = refuse
        self._waiting: dict[str, tuple[RouterLink, Attach]] = {}
        self._order: deque[tuple[float, str]] = deque()  # until when each waits, oldest first; also answered ones
        self._lost = 0  # so many of the oldest ones get no answer any more
        self._service = UplinkService(links, messages, LOOKUP_ADDRESS, REPLY_CREDIT, lambda: None, self._replied)

    def __str__(self) -> str:
        return "attaches that wait for a lookup"

    def start(self) -> None:
        """The uplink is active. Raises AmqpError."""
        self._service.start()

    def stop(self) -> None:
        """The uplink is lost: refuse the waiting attaches."""
        self._service.stop()
        self._give_up()

    def look_up(self, link: RouterLink, attach: Attach) -> bool:
        """Send a lookup for a client's attach. False if none is needed, or if there is no uplink."""
        terminus = attach.remote_terminus
        if not self._service.ready or terminus is None or terminus.dynamic or not isinstance(terminus.address, str):
            return False
        text = bare_address(terminus.address)
        if not text or of_routers(text):
            return False
        number = f"client-{self._context.rng.getrandbits(96):024x}"
        self._waiting[number] = link, attach
        self._order.append((self._context.now + ANSWER_S, number))
        request = LookupRequest(self._service.reply_to, number, text, not attach.role)
        self._service.send(encode_lookup(request, self._context.router_id))
        return True

    def tick(self) -> None:
        """Stop waiting for overdue answers. Raises AmqpError if the interior router has no room."""
        self._service.tick()
        if not self._service.ready:
            self._give_up()
        elif self._is_over():
            self._context.portions.begin(self)

    def _give_up(self) -> None:
        """None of those that wait now gets an answer any more."""
        self._lost = len(self._order)
        if self._lost:
            self._context.portions.begin(self)

    def _is_over(self) -> bool:
        """Whether the oldest one need not wait any longer. It may be answered."""
        return self._lost > 0 or (bool(self._order) and self._order[0][0] <= self._context.now)

    def step(self) -> int:
        """Refuse the oldest attach if it is not answered and its time is over, or the uplink is lost."""
        if not self._is_over():
            return 0
        _, number = self._order.popleft()
        self._lost = max(self._lost - 1, 0)
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return 1
        self._refuse(waiting[0], Refusal(RESOURCE_LIMIT_EXCEEDED, UNKNOWN_TEXT))
        return REFUSE_COST

    def _replied(self, message: bytes) -> None:
        try:
            reply = decode_lookup_reply(message)
        except DecodeError as e:
            self._context.log("ROUTER_CORE", "warning", f"uplink: reply to an address lookup: {e.description}")
            return
        waiting = self._waiting.pop(reply.correlation_id, None)
        if waiting is not None:
            self._drop_answered()
            link, attach = waiting
            self._answer(link, attach, reply if reply.status == OK and reply.link_route else None)

    def _drop_answered(self) -> None:
        """Forget the oldest ones that are answered, at most two for each answer: answers come in any order."""
        for _ in range(2):
            if self._order and self._order[0][1] not in self._waiting:
                self._order.popleft()
                self._lost = max(self._lost - 1, 0)
