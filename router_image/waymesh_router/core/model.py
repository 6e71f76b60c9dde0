"""The records of the forwarding state: connections, links, addresses, remote routers, deliveries on their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.connection import Connection
from waymesh_amqp.link import Link
from waymesh_router.core.kinds import DEFAULT_PRIORITY, ENDPOINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.handler import Handler
    from waymesh_amqp.session import Session
    from waymesh_amqp.settings import ConnectionSettings
    from waymesh_router.core.forwarding.annotations import Annotations


class RouterConnection(Connection):
    """A connection with its role in the mesh. `origin`: name of the listener or connector it came from.

    `route_address`: the address by which the attaches of a client are routed that name none; "" for none.
    `management`: the peer may send management requests; `management_files`: these may name files of our machine.
    `kept`: bytes of deliveries that came by it and wait; `full`: more of them than may, see budget.py.
    """

    def __init__(self, settings: ConnectionSettings, handler: Handler, now: cython.double) -> None:
        self.id = 0
        self.role = "normal"
        self.origin = ""
        self.route_address = ""
        self.management = False
        self.management_files = False
        self.peer: Any = None
        self.cost = 1
        self.strip_in = True
        self.strip_out = True
        self.link_capacity = 250
        self.node: Node | None = None
        self.control_in: RouterLink | None = None
        self.control_out: RouterLink | None = None
        self.data_out: list[RouterLink] = []
        self.data_in: list[RouterLink] = []
        self.waiting: dict[Address, None] = {}
        self.opened_at = now
        self.deliveries_in = 0
        self.kept = 0
        self.full = False
        self.last_delivery_at = 0.0
        self.no_local = False
        Connection.__init__(self, settings, handler, now)

    def data_link(self, priority: cython.int) -> RouterLink | None:
        """The outgoing data link for a priority; a peer with fewer links gets everything on its last one."""
        n: cython.Py_ssize_t = len(self.data_out)
        if n == 0:
            return None
        return self.data_out[priority if priority < n else n - 1]


class RouterLink(Link):
    """A link with its place in the forwarding state.

    `strip`: the router's annotations do not pass (in either direction this link has). Incoming: `address` (None for an
    anonymous sender), `annotations` for messages without any of their own, and while a delivery of several frames
    arrives, where it goes: `stream` (one link), `queued` (the slow way) or nowhere (`discard`). Outgoing: `address`,
    `queue` of copies that wait for credit (multicast), `feeder`: the link whose delivery is under way.
    Of a link route: `partner`: the link on the other side; `route`: what is known of the one that leads on to the
    container; `held`: bytes of deliveries in `queue`, which wait for credit or for the session window.
    `client`: container-id to look for where a client does not want what it sends itself, see link_routing/no_local.py.
    `stored`: it brings back what went to a fallback destination. `retiring`: it is to take no further message.
    `container`: on the other side is a route-container. `no_management`: an anonymous sender that may not send to the
    management of routers.
    Incoming: `kept`: bytes of its deliveries that wait; `full`: more than may; `braked`: its session is held because
    too much waits here, see budget.py.
    """

    def __init__(self, session: Session) -> None:
        Link.__init__(self, session)
        self.id = 0
        self.kind = ENDPOINT
        self.priority = DEFAULT_PRIORITY
        self.address: Address | None = None
        self.anonymous = False
        self.no_management = False
        self.strip = True
        self.annotations: Annotations | None = None
        self.seen_section = b""
        self.seen_annotations: Annotations | None = None
        self.seen_to = b""
        self.seen_address: Address | None = None
        self.head: Any = None  # bytearray or None; like `stream` and `queued` used where it is known to be there
        self.head_due = 0
        self.stream: Any = None  # RouterLink or None
        self.queued: Any = None  # Queued or None
        self.stream_delivery: Delivery | None = None
        self.discard = False
        self.feeder: RouterLink | None = None
        self.queue: deque[Any] | None = None  # of Branch; of Queued on a link route
        self.partner: Any = None  # RouterLink or None
        self.route: Any = None
        self.held = 0
        self.kept = 0
        self.full = False
        self.braked = False
        self.client: Any = None  # str or None
        self.stored = False
        self.retiring = False
        self.container = False
        self.unsettled = 0
        self.presettled = 0
        self.dropped_presettled = 0
        self.accepted = 0
        self.rejected = 0
        self.released = 0
        self.modified = 0
        self.zero_credit_since = 0.0

    def undelivered(self) -> cython.Py_ssize_t:
        """Deliveries that wait for credit of this link alone."""
        return len(self.queue) if self.queue is not None else 0


class Node:
    """A remote router. `connection` is set for a neighbour; any other is reached through `next_hop`."""

    def __init__(self, router_id: str) -> None:
        self.id = router_id
        self.cost = 1
        self.connection: Any = None  # RouterConnection or None; there where `neighbour` returns the node
        self.next_hop: Node | None = None
        self.valid_origins: Container[str] = frozenset()
        self.address: Address | None = None

    def neighbour(self) -> Node | None:
        """The neighbour that takes deliveries for this router: a way round that costs less than its own link wins."""
        if self.next_hop is not None and self.next_hop.connection is not None:
            return self.next_hop
        return self if self.connection is not None else None


class Target:
    """A remote router on which an address has consumers, and the deliveries that are out to it for that address."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.outstanding = 0


class Address:
    """An address that this router knows, under its key.

    `consumers`: local outgoing links; `producers`: local incoming ones; `targets`: remote routers with consumers by id;
    `subscriber`: called with a whole message when the router itself consumes the address. `pending`: deliveries for
    which no consumer was ready, None for none. `nearest`: the targets of least cost, None when it has to be worked out
    again. `fallback`: the address for messages that no consumer of this one can be found for; `primary`: the other way
    round. `from_container`, `to_container`: deliveries that came from or went to route-containers.
    """

    def __init__(self, key: str, treatment: cython.int) -> None:
        self.key = key
        self.treatment = treatment
        self.priority = -1
        self.config: Any = None
        self.consumers: list[RouterLink] = []
        self.producers: list[RouterLink] = []
        self.targets: dict[str, Target] = {}
        self.nearest: Any = None  # list[Target] or None
        self.subscriber: Callable[[bytes, RouterLink | None], None] | None = None
        self.turn = 0
        self.pending: deque[Queued] | None = None
        self.local_key = ""
        self.fallback: Any = None  # Address or None
        self.primary: Any = None  # Address or None
        self.dead = False
        self.ingress = 0
        self.egress = 0
        self.transit = 0
        self.to_container = 0
        self.from_container = 0

    def reachable(self) -> bool:
        """Whether a message can get anywhere."""
        return self.direct() or (self.fallback is not None and self.fallback.direct())

    def direct(self) -> bool:
        """Whether it can get to a consumer of the address itself."""
        if self.consumers or self.subscriber is not None:
            return True
        for target in self.targets.values():  # noqa: SIM110 (a generator costs more than this loop)
            if target.node.neighbour() is not None:
                return True
        return False

    def unused(self) -> bool:
        """Whether nothing refers to the address any more."""
        kept = self.primary is not None and not self.primary.dead
        return not (kept or self.consumers or self.producers or self.targets or self.pending or self.subscriber)


class Queued:
    """A delivery on the slow way: it waits for a consumer, goes to several, or to the router itself.

    `head`: header and delivery-annotations; `chunks`: what follows the message-annotations section, as far as it has
    come and is still needed; `complete`: all has come. On a link route: `tag` is the delivery-tag, `head` the encoded
    fields of the first transfer from rcv-settle-mode on. `branches`: where it goes; `unstarted`: how many of them wait
    for credit. `kept`: its bytes that count as waiting. `sample`: what is recorded of it, if anything.
    """

    def __init__(self, link: RouterLink | None, annotations: Any) -> None:
        self.link = link
        self.annotations = annotations
        self.address: Any = None  # Address, set by who makes the record
        self.delivery: Any = None  # Delivery, None for a settled one
        self.group: Group | None = None
        self.did = 0
        self.settled = True
        self.format = 0
        self.priority = DEFAULT_PRIORITY
        self.head = b""
        self.tag = b""
        self.chunks: list[bytes] = []
        self.size = 0
        self.kept = 0
        self.complete = True
        self.branches: list[Branch] | None = None
        self.unstarted = 0
        self.sample: Any = None

    def payload(self) -> bytes:
        """All bytes behind the message-annotations that have arrived."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)


class Branch:
    """One way of a multicast delivery: its outgoing link, and its own delivery if it is unsettled."""

    def __init__(self, queued: Queued, out: RouterLink) -> None:
        self.queued = queued
        self.out = out
        self.started = False
        self.delivery: Delivery | None = None


class Group:
    """Joins the outcomes of a multicast delivery's branches. Routing chapter "Message Settlement and Reliability".

    `waiting`: branches without an outcome; `sealed`: no further branch will be added.
    """

    def __init__(self, link: RouterLink | None, did: cython.uint) -> None:
        self.link = link
        self.delivery: Delivery | None = None
        self.did = did
        self.waiting = 0
        self.rank = 0
        self.state = b""
        self.sealed = False
