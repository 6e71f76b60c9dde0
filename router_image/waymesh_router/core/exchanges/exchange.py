"""An exchange: the next hops of its bindings, and the handling of messages to its address.

A message goes to the ordinary consumers of the address first, then one copy to each next hop of the bindings that match
its subject. If nothing was sent, it goes to the alternate address. Copies are pre-settled; the message is accepted if
any was sent, and released otherwise.

Copies have the ids of the routers whose exchanges made them, to prevent loops between exchanges of several routers: an
exchange drops copies from its own router, and copies that passed MAX_EXCHANGES exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.core.addresses.keys import MOBILE, bare_address
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.exchanges.binding_keys import BindingKeys
from waymesh_router.core.exchanges.subject import subject_of
from waymesh_router.core.forwarding.annotations import Annotations, copied
from waymesh_router.core.forwarding.own_messages import OwnMessages
from waymesh_router.core.model import Address, Queued, RouterLink

MAX_EXCHANGES = 4
"""Maximum number of exchanges that a message passes. If n exchanges lead to each other, each copy is copied n times."""


class NextHop:
    """An address to which an exchange sends copies."""

    def __init__(self, address: str, phase: int, context: CoreContext) -> None:
        self.to = bare_address(address)
        self.phase = str(phase)
        self.key = MOBILE + self.phase + self.to
        self._context = context
        self._plain = self._copied(Annotations(context.router_id))

    def annotations(self, before: Annotations) -> Annotations:
        """The annotations of a copy of a message with the annotations `before`."""
        if not (before.client or before.exchanges):
            return self._plain
        return self._copied(before)

    def _copied(self, before: Annotations) -> Annotations:
        return copied(before, self.to, self.phase, self._context.router_id, self._context.stamp)


class Binding:
    """A binding of an exchange. `matched`: messages that matched its key."""

    def __init__(self, key: str, hop: NextHop) -> None:
        self.key = key
        self.hop = hop
        self.matched = 0


class Exchange:
    """One exchange, with its counters: received = forwarded + diverted + dropped."""

    def __init__(
        self, attrs: Mapping[str, Any], context: CoreContext, addresses: AddressTable, messages: OwnMessages
    ) -> None:
        self.name: str = attrs["name"]
        self.own = NextHop(attrs["address"], attrs["phase"], context)
        alternate = attrs["alternateAddress"]
        self.alternate = NextHop(alternate, attrs["alternatePhase"], context) if alternate else None
        self.keys: BindingKeys[Binding] = BindingKeys(attrs["matchMethod"])
        self.bindings: dict[str, Binding] = {}  # by identity
        self.received = self.forwarded = self.diverted = self.dropped = 0
        self._context = context
        self._addresses = addresses
        self._messages = messages
        self._circle_reported = False

    def leads_to(self) -> set[str]:
        """The keys of all addresses that copies are sent to."""
        hops = [binding.hop for binding in self.bindings.values()]
        return {hop.key for hop in (*hops, *([self.alternate] if self.alternate else []))}

    def take(self, q: Queued, lk: RouterLink) -> bool:
        """Send copies of a complete message. False if no consumer takes one."""
        self.received += 1
        passed = q.annotations.exchanges
        if self._context.router_id in passed or len(passed) >= MAX_EXCHANGES:
            self._report_circle(passed)
            self.dropped += 1
            return False
        message = q.payload()
        address: Address = q.address
        sent = self._messages.copy(q, lk, message, address, q.annotations)
        subject = subject_of(message, q.head_size)
        hops: dict[str, NextHop] = {}
        for binding in self.keys.match(subject) if subject is not None else ():
            binding.matched += 1
            hops[binding.hop.key] = binding.hop
        for hop in hops.values():
            sent = self._send(q, lk, message, hop) or sent
        if sent:
            self.forwarded += 1
        elif self.alternate is not None and self._send(q, lk, message, self.alternate):
            self.diverted += 1
            sent = True
        else:
            self.dropped += 1
        return sent

    def _send(self, q: Queued, lk: RouterLink, message: bytes, hop: NextHop) -> bool:
        address = self._addresses.by_key.get(hop.key)
        return address is not None and self._messages.copy(q, lk, message, address, hop.annotations(q.annotations))

    def _report_circle(self, passed: tuple[str, ...]) -> None:
        """Log a loop once, not for each message in it."""
        if not self._circle_reported:
            self._circle_reported = True
            text = f"exchange {self.name}: dropped a message that has passed exchanges of {', '.join(passed)}"
            self._context.log("ROUTER_CORE", "warning", f"{text}; further ones are counted only")
