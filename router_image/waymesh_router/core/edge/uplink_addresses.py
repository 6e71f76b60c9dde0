"""Addresses on an edge router's uplink: messages from the mesh for its consumers, and from its producers to the mesh.

Each mobile address with local consumers has a receiver on the uplink, each one with local producers a sender. With
address tracking, the interior router reports whether the address has destinations elsewhere; if so, the interior router
counts as a remote router with consumers. Source: protocol/edge.md "Addresses".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from waymesh_amqp.errors import AmqpError, DecodeError
from waymesh_router.core.addresses.keys import MANAGEMENT, MOBILE
from waymesh_router.core.attaching import FALLBACK_CAPABILITY, phase_of
from waymesh_router.core.edge.messages import TRACKING_ADDRESS, decode_tracking
from waymesh_router.core.edge.uplink_links import RETRY_S, UplinkLinks, source, target
from waymesh_router.core.forwarding.annotations import FALLBACK, arrived
from waymesh_router.core.link_kinds import CLOSEST
from waymesh_router.core.model import Address, Node, Target
from waymesh_router.core.portions import Rounds, RoundsOfEach
from waymesh_router.core.unsettled import no_delivery_in_progress

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.credit import CreditEvents
    from waymesh_router.core.model import RouterLink

TRACKING_CREDIT = 32
LINK_COST = 10
"""Cost of a link that is attached or detached, in the portion of a turn."""
A_STEP = 64
"""Number of copies that a step drops."""
DROP_COST = 10

Place = tuple["Address", "RouterLink"]
"""An address, and the link where copies of its messages wait."""


class UplinkAddresses:
    """The links of addresses on the uplink, by key. `node`: represents all routers beyond the uplink."""

    def __init__(
        self, context: CoreContext, addresses: AddressTable, links: UplinkLinks, credit: CreditEvents
    ) -> None:
        self.node: Node | None = None
        self._context = context
        self._addresses = addresses
        self._links = links
        self._pending = credit.pending
        self._multicast = credit.multicast
        self._receivers: dict[str, RouterLink] = {}
        self._senders: dict[str, RouterLink] = {}
        self._withdrawn = False
        self._additions = Rounds(context.portions, "addresses of the uplink", addresses.by_key, self._add)
        self._removals = Rounds(context.portions, "withdrawn addresses", self._receivers, self._remove)
        self._drops: RoundsOfEach[Place, RouterLink] = RoundsOfEach(
            context.portions, "copies for the uplink", _link_only, self._drop_some
        )
        self._key_of: dict[int, str] = {}  # by id of the link
        self._reachable: set[str] = set()  # keys with destinations beyond the uplink
        self._unused: set[str] = set()  # keys whose sender has no producers left
        self._retired: dict[RouterLink, None] = {}  # receivers without consumers, with unsettled deliveries
        self._endings = Rounds(context.portions, "unused senders of the uplink", self._unused, self._end_unused)
        self._rests = Rounds(context.portions, "retired receivers of the uplink", self._retired, self._end_retired)
        self._retry_at = math.inf
        self._tracking = Address("Ledge_addr_tracking", CLOSEST)
        self._tracking.subscriber = self._tracked

    # ---- the uplink
    def start(self, node: Node) -> None:
        """The uplink is active: request address tracking from the interior router. Raises AmqpError."""
        self.node = node
        session = self._links.core_session()
        link = self._links.receiver(self, session, source(TRACKING_ADDRESS), target(), TRACKING_CREDIT)
        link.address = self._tracking

    def add_all(self) -> None:
        """Attach a receiver for each address with local consumers, unless they are withdrawn, and a sender for each
        address with local producers."""
        self._additions.begin()

    def _add(self, key: str) -> int:
        """A step of `add_all`; returns its cost."""
        address = self._addresses.by_key.get(key)
        if address is None:
            return 1
        served = not self._withdrawn and key.startswith(MOBILE) and address.served_here()
        if served:
            self.consumer_added(key)
        if address.producers:
            self.producer_added(address)
        return LINK_COST if served or address.producers else 1

    def withdraw_all(self) -> None:
        """Detach all receivers of addresses, and attach no others."""
        self._withdrawn = True
        self._removals.begin()

    def rejoin(self) -> None:
        """Receivers may be attached again."""
        self._withdrawn = False
        self.add_all()

    def _remove(self, key: str) -> int:
        """A step of `withdraw_all`; returns its cost."""
        if self._withdrawn:
            self.consumer_removed(key)
        return LINK_COST

    def stop(self) -> None:
        """The uplink is lost, with its links."""
        self.node = None
        self._retry_at = math.inf
        for those in (self._receivers, self._senders, self._key_of, self._reachable, self._unused, self._retired):
            those.clear()

    def tick(self) -> None:
        """Detach unneeded links once they have no deliveries in progress."""
        if self._unused:
            self._endings.begin()
        if self._retired:
            self._rests.begin()

    def _end_unused(self, key: str) -> int:
        """Detach the sender for a key if nobody needs it; returns the cost."""
        if key not in self._unused:
            return 1
        link, address = self._senders.get(key), self._addresses.by_key.get(key)
        if link is None or (address is not None and _has_producers(address)):
            self._unused.discard(key)
        elif (address is None or address.pending is None) and no_delivery_in_progress(link):
            self._unused.discard(key)
            link.detach()
            return LINK_COST
        return 1

    def _end_retired(self, link: RouterLink) -> int:
        """Detach a receiver without consumers if it is at rest; returns the cost."""
        if link not in self._retired or link.unsettled or link.mid_delivery:
            return 1
        del self._retired[link]
        link.detach()
        return LINK_COST

    def incomplete(self) -> bool:
        """Whether it is time to attach links again that the interior router refused or ended; true once."""
        due = self._context.now >= self._retry_at
        if due:
            self._retry_at = math.inf
        return due

    # ---- consumers
    def consumer_added(self, key: str) -> None:
        """A mobile address has local consumers: attach a receiver for messages of producers elsewhere."""
        if not self._links.usable or key in self._receivers or key[2:] == MANAGEMENT:
            return
        capability = self._capability(key, "egressPhase")
        try:
            link = self._links.receiver(
                self,
                self._links.session(True),
                source(key[2:], capability),
                target(),
                self._links.capacity,
                arrived(key[2:], key[1]),
            )
        except AmqpError as e:
            self._warn(key, e)
            return
        link.address = self._addresses.get(key)
        self._receivers[key] = link
        self._key_of[link.id] = key

    def consumer_removed(self, key: str) -> None:
        """A mobile address has no more local consumers."""
        link = self._receivers.pop(key, None)
        if link is None:
            return
        if link.unsettled or link.mid_delivery:
            link.withdraw()
            self._retired[link] = None
        else:
            link.detach()

    # ---- producers
    def producer_added(self, address: Address) -> None:
        """A mobile address has local producers: attach a sender, so that the interior router tells of consumers."""
        for one in (address, address.fallback):
            if one is not None and one.subscriber is None and one.key.startswith(MOBILE):
                self._add_sender(one)

    def producer_removed(self, address: Address) -> None:
        """A mobile address has no more local producers. Its sender stays until all waiting deliveries were sent."""
        self._unused.update(one.key for one in (address, address.fallback) if one is not None)

    def _add_sender(self, address: Address) -> None:
        key = address.key
        self._unused.discard(key)
        if not self._links.usable or key in self._senders:
            return
        capability = self._capability(key, "ingressPhase")
        try:
            link = self._links.sender(self, self._links.session(False), source(), target(key[2:], capability))
        except AmqpError as e:
            self._warn(key, e)
            return
        self._senders[key] = link
        self._key_of[link.id] = key

    def _capability(self, key: str, attribute: str) -> str:
        """The capability of the terminus: it represents the phase in the key, if that is not the default.

        Source: protocol/edge.md "Phases".
        """
        if key[1] == FALLBACK:
            return FALLBACK_CAPABILITY
        config = self._addresses.patterns.match(key[2:])
        usual = "0" if config is None else phase_of(config, attribute)
        if key[1] == usual:
            return ""
        number = int(key[1]) + (attribute == "egressPhase")
        return f"qd.waypoint.{number}" if 1 <= number <= 9 else ""

    # ---- tracking
    def _tracked(self, message: bytes, _link: RouterLink | None) -> None:
        """The interior router reports whether an address has destinations beyond the uplink."""
        try:
            key, there = decode_tracking(message)
        except DecodeError as e:
            self._context.log("ROUTER_CORE", "warning", f"uplink: address tracking: {e.description}")
            return
        if key not in self._senders:
            return
        if there:
            self._reachable.add(key)
        else:
            self._reachable.discard(key)
        self._apply(key)

    def _apply(self, key: str) -> None:
        """Use the sender for a key or not, depending on what the interior router reported."""
        address, link = self._addresses.by_key.get(key), self._senders.get(key)
        if address is None or link is None or self.node is None:
            return
        if key in self._reachable and link.usable():
            link.address = address
            self.use(address, link)
        else:
            self.leave(address)

    def use(self, address: Address, link: RouterLink) -> None:
        """Make the interior router a destination of the address, over this link."""
        assert self.node is not None
        there = address.targets.get(self.node.id)
        if there is not None and there.link is link:
            return
        target_ = address.targets[self.node.id] = Target(self.node, address)
        target_.link = link
        if address.pending is not None:
            self._pending.await_credit(address)
        self._addresses.refresh(address)

    def leave(self, address: Address) -> None:
        """The interior router is no longer a destination of the address: no copy waits for credit from there."""
        there = None if self.node is None else address.targets.pop(self.node.id, None)
        if there is None:
            return
        if there.link is not None and there.link.queue is not None:
            self._drops.begin((address, there.link))
        self._addresses.refresh(address)

    def _drop_some(self, place: Place, left: list[RouterLink]) -> int:
        """Drop some copies that wait for the interior router, a step of `leave`; returns its cost.

        It ends if the link has ended, as deliveries may go elsewhere, and if the address is used again: they wait.
        """
        address, link = place
        there = None if self.node is None else (link.address or address).targets.get(self.node.id)
        if link.over or (there is not None and there.link is link):
            left.clear()
            return 1
        self._multicast.drop_waiting(link, A_STEP)
        if link.queue is None:
            left.clear()
        return DROP_COST

    # ---- links
    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The interior router accepted a link. Its tracking message may have arrived before."""
        if link.is_sender:
            self._apply(self._key_of[link.id])

    def lost(self, link: RouterLink) -> None:
        """A link has ended: stop using the interior router for its address."""
        key = self._key_of.pop(link.id, "")
        if self._senders.get(key) is link:
            del self._senders[key]
            self._reachable.discard(key)
            address = self._addresses.by_key.get(key)
            if address is not None:
                self.leave(address)
                if _has_producers(address):
                    self._retry_at = min(self._retry_at, self._context.now + RETRY_S)
        elif self._receivers.get(key) is link:
            del self._receivers[key]
            self._retry_at = min(self._retry_at, self._context.now + RETRY_S)
        elif link in self._retired:
            del self._retired[link]

    def _warn(self, key: str, error: AmqpError) -> None:
        self._context.log("ROUTER_CORE", "warning", f"uplink: no link for {key[2:]}: {error.description}")


def _link_only(place: Place) -> tuple[RouterLink]:
    """The only part: the link, until no copy waits for it."""
    return (place[1],)


def _has_producers(address: Address) -> bool:
    primary = address.primary
    return bool(address.producers) or (primary is not None and bool(primary.producers))
