"""Attaches of an edge router's clients that wait for the interior router's answer whether a link route matches.

Source: protocol/edge.md "Address lookup".
"""

from __future__ import annotations

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

Answer = Callable[["RouterLink", "Attach", LookupReply | None], None]
Refuse = Callable[["RouterLink", Refusal], None]


class UplinkLookups:
    """The waiting attaches by correlation-id, oldest first.

    `answer(link, attach, reply)` is called with an answer; `reply` is None if no link route matches. `refuse` is called
    without an answer.
    """

    def __init__(
        self, context: CoreContext, links: UplinkLinks, messages: OwnMessages, answer: Answer, refuse: Refuse
    ) -> None:
        self._context = context
        self._answer = answer
        self._refuse = refuse
        self._waiting: dict[str, tuple[float, RouterLink, Attach]] = {}
        self._service = UplinkService(links, messages, LOOKUP_ADDRESS, REPLY_CREDIT, lambda: None, self._replied)

    def start(self) -> None:
        """The uplink is active. Raises AmqpError."""
        self._service.start()

    def stop(self) -> None:
        """The uplink is lost: refuse the waiting attaches."""
        self._service.stop()
        self._give_up(list(self._waiting))

    def look_up(self, link: RouterLink, attach: Attach) -> bool:
        """Send a lookup for a client's attach. False if none is needed, or if there is no uplink."""
        terminus = attach.remote_terminus
        if not self._service.ready or terminus is None or terminus.dynamic or not isinstance(terminus.address, str):
            return False
        text = bare_address(terminus.address)
        if not text or of_routers(text):
            return False
        number = f"client-{self._context.rng.getrandbits(96):024x}"
        self._waiting[number] = (self._context.now + ANSWER_S, link, attach)
        request = LookupRequest(self._service.reply_to, number, text, not attach.role)
        self._service.send(encode_lookup(request, self._context.router_id))
        return True

    def tick(self) -> None:
        """Stop waiting for overdue answers. Raises AmqpError if the interior router has no room."""
        self._service.tick()
        if self._waiting and not self._service.ready:
            self._give_up(list(self._waiting))
        self._give_up([number for number, (until, _, _) in self._waiting.items() if until <= self._context.now])

    def _give_up(self, numbers: list[str]) -> None:
        for number in numbers:
            _, link, _ = self._waiting.pop(number)
            self._refuse(link, Refusal(RESOURCE_LIMIT_EXCEEDED, UNKNOWN_TEXT))

    def _replied(self, message: bytes) -> None:
        try:
            reply = decode_lookup_reply(message)
        except DecodeError as e:
            self._context.log("ROUTER_CORE", "warning", f"uplink: reply to an address lookup: {e.description}")
            return
        if reply.correlation_id in self._waiting:
            _, link, attach = self._waiting.pop(reply.correlation_id)
            self._answer(link, attach, reply if reply.status == OK and reply.link_route else None)
