"""Records of the forwarding state: connections, links, addresses, remote routers, deliveries in progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.connection import Connection
from waymesh_amqp.link import Link
from waymesh_router.core.link_kinds import DEFAULT_PRIORITY, ENDPOINT, NO_MANAGEMENT

if cython.compiled:
    from cython.cimports.waymesh_router.core.link_kinds import DATA
else:
    from waymesh_router.core.link_kinds import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.handler import Handler
    from waymesh_amqp.session import Session
    from waymesh_amqp.settings import ConnectionSettings
    from waymesh_router.core.access import Access, Permit
    from waymesh_router.core.delivery_sampling import Sample
    from waymesh_router.core.edge.edges import Edge
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.forwarding.pending_queue import PendingQueue
    from waymesh_router.core.forwarding.section_order import SectionOrder
    from waymesh_router.core.link_routing.route_candidates import UpstreamLink
    from waymesh_router.peers.peer import Peer

UNSET: Any = None
"""Initial value of attributes that the creator sets at once, or that are only read if another attribute says so."""

JOINED_BYTES = cython.declare(cython.Py_ssize_t, 512)
"""Frames of a waiting delivery are joined up to this size."""


class RouterConnection(Connection):
    """A connection with its role in the mesh."""

    def __init__(self, settings: ConnectionSettings, handler: Handler, now: cython.double) -> None:
        self.id = 0
        self.role = "normal"
        self.origin = ""  # name of its listener or connector
        self.route_address = ""  # routing address for a client's attaches without an address; "" for none
        self.durable_names = ""  # of a container: how durable links are named there, user or container; "": not set
        self.management = NO_MANAGEMENT  # the peer's right to management
        self.creates_link_routes = False  # to itself, although it may only read
        self.multi_tenant = False  # its addresses are those of a tenant
        self.tenant = ""  # the name of the tenant, known since the open
        self.management_files = False  # its management requests may refer to files on the router's machine
        self.peer: Peer = UNSET
        self.cost = 1
        self.strip_in = self.strip_out = True
        self.link_capacity = 250
        self.handle_max = 0  # of the last session that the peer answered: others are assumed to take as many links
        self.node: Node | None = None
        self.control_in: RouterLink | None = None
        self.control_out: RouterLink | None = None
        self.data_out: list[RouterLink] = []
        self.data_in: list[RouterLink] = []
        self.waiting: dict[Address, None] = {}
        self.opened_at = now
        self.kept = 0  # what waiting deliveries that arrived on it count in the budgets
        self.full = False  # `kept` is over its limit, see buffer_budget.py
        self.opened = 0  # bytes of its session windows beyond their usual size
        self.heads = 0  # bytes of `RouterLink.head` of all its links
        self.last_delivery_at, self.no_local = 0.0, False
        self.policy_vhost = ""  # policyVhost of its listener
        self.for_managers = False  # its listener has management: write
        self.access: Access | None = None  # what policy allows this client
        self.uplink = False  # connects this edge router to an interior router
        self.edge_router: Edge | None = None  # the peer is an edge router
        self.streams = False  # the peer, a router, takes links for single senders, see forwarding/streams.py
        self.stream_count = 0  # such links of its own senders
        self.shared_streams: dict[RouterConnection, RouterLink] | None = None  # for all of its further senders
        Connection.__init__(self, settings, handler, now)

    def is_router(self) -> cython.bint:
        """Whether the peer is an interior router, or an edge router of this one."""
        return self.role == "inter-router" or self.uplink or self.edge_router is not None

    def data_link(self, priority: cython.int) -> RouterLink | None:
        """The outgoing data link for a priority; if the peer has fewer links, the last one takes the rest."""
        n: cython.Py_ssize_t = len(self.data_out)
        if n == 0:
            return None
        link: RouterLink = self.data_out[priority if priority < n else n - 1]
        return link


class RouterLink(Link):
    """A link with its place in the forwarding state."""

    if TYPE_CHECKING:
        connection: RouterConnection  # all connections of a router are

    def __init__(self, session: Session) -> None:
        Link.__init__(self, session)
        self.id = 0
        self.kind = ENDPOINT
        self.priority = DEFAULT_PRIORITY
        self.address: Address | None = None  # None for an anonymous sender
        self.anonymous = False
        self.checks_management = False  # anonymous sender that may not send to some management agents
        self.checks_targets = False  # anonymous sender that policy allows to send to some addresses only
        self.checks_user = False  # policy only allows messages with the client's own user-id
        self.checks_messages = False  # policy checks each message: one of these checks, or a dry run
        self.section_order: SectionOrder | None = None  # of the incoming message, if it is checked
        self.permit: Permit = UNSET  # what policy allowed a client's link; None: policy does not apply to it
        self.of_tenant = False  # anonymous sender in the address space of a tenant
        self.spaced: tuple[Annotations, bytes, Annotations] | None = None  # see MessageAddress.annotations_in_space
        self.strip = True  # remove router annotations, in the direction of the link
        self.annotations: Annotations | None = None  # incoming: for messages without annotations
        self.seen_section = self.seen_to = b""
        self.seen_annotations: Annotations | None = None
        self.seen_address: Address | None = None
        self.head: bytearray | None = None  # incomplete sections of the message that arrives
        self.head_due = self.place = 0  # `place`: where it was in the consumers of its address
        self.queued: Queued | None = None  # record of the delivery that arrives, if it has several frames
        self.discard = False  # ignore the remaining frames of the delivery that arrives
        self.feeder: RouterLink | None = None  # outgoing: source of the delivery in progress
        self.queue: deque[Any] | None = None  # waiting for credit: Branch; on a link route Queued
        self.awaited: dict[Address, int] | None = None  # deliveries wait for this link alone: see `Streams.wait_for`
        self.partner: RouterLink | None = None  # the other side of a routed link
        self.route: UpstreamLink | None = None  # of a routed link toward the container
        self.held = self.kept = 0  # bytes in the budgets: of `queue` on a link route; of what waits, if incoming
        self.full = self.braked = False  # `kept` is over its limit, see buffer_budget.py; its session is held for that
        self.client: str | None = None  # container-id for the no-local filter, see link_routing/no_local.py
        self.stored = self.retiring = False  # returns messages from a fallback destination; takes no more messages
        self.container = False  # the peer is a route-container
        self.edge = False  # the peer is an edge router or, at an edge router, its interior router
        self.streaming = False  # between routers, for the messages of one sender, see forwarding/streams.py
        self.streamed = False  # incoming: its messages to other routers go on links of their own
        self.stream_links: dict[tuple[RouterConnection, Address], RouterLink] | None = None  # incoming: these links
        self.known_elsewhere = False  # incoming, of an edge router that knows of consumers elsewhere
        self.consumer_priority = self.concurrency = 0  # link properties of a client's receiver, see attaching.py
        self.exclusive = False  # of a client's receiver: it asks that one consumer of the address gets all
        self.speed: Any = None  # outgoing: a Speed, see Spread; None: not measured
        self.window: Any = None  # of an edge router: a Window
        self.pace: Any = None  # incoming, of a container: a Pace, see Pacing; None: all credit at once
        self.waiting = 0  # incoming: its unsettled deliveries in queues of addresses
        self.unsettled = self.presettled = self.dropped_presettled = 0
        self.accepted = self.rejected = self.released = self.modified = 0
        self.zero_credit_since = 0.0

    def shared(self) -> cython.bint:
        """Whether messages to all addresses arrive on it, from several clients of another router: its credit is
        returned when a message was forwarded or waits here, as no consumer may stop the others."""
        return self.kind == DATA or (self.edge and self.anonymous)

    def drop_head(self) -> None:
        """Drop the stored incomplete sections."""
        conn: RouterConnection = self.connection
        if self.head is not None:
            conn.heads -= len(self.head)
            self.head = None

    def undelivered(self) -> cython.Py_ssize_t:
        """Number of deliveries that wait for this link's credit and no other's."""
        return len(self.queue) if self.queue is not None else 0


class Node:
    """A remote router. `connection` is set for neighbours; others are reached through `next_hop`."""

    def __init__(self, router_id: str) -> None:
        self.id = router_id
        self.cost = 1
        self.connection: RouterConnection | None = None
        self.next_hop: Node | None = None
        self.valid_origins: Container[str] = frozenset()
        self.demand = False  # it tells what its consumers are ready for, see Demand
        self.since = 0  # changes when all its consumers are lost at once, see `Target.stale`
        self.address: Address | None = None

    def neighbour(self) -> Node | None:
        """The neighbour for deliveries to this router: over others if such a path costs less than the direct one."""
        if self.next_hop is not None and self.next_hop.connection is not None:
            return self.next_hop
        return self if self.connection is not None else None


class Target:
    """A remote router with consumers for an address, and the number of its outstanding deliveries."""

    def __init__(self, node: Node, address: Address) -> None:
        self.node = node
        self.address = address
        self.since = node.since
        self.link: RouterLink | None = None  # at an edge router, the uplink's sender for the address
        self.outstanding = 0
        self.speed: Any = None  # a Speed, see Spread; None: not measured
        self.window: Any = None  # a Window, see Spread
        self.ranks: tuple[tuple[int, int], ...] | None = None  # what it tells of priorities, see ranks.py
        self.exclusive = 0  # whether `ranks` are the order of consumers one of which gets all, see exclusive.py
        self.groups: Any = None  # a Told: what it tells of message groups, see groups.py

    def stale(self) -> cython.bint:
        """Whether the router has lost these consumers, but the target is not removed from its address yet."""
        return self.since != self.node.since

    def neighbour(self) -> Node | None:
        """The neighbour for deliveries to these consumers."""
        return self.node.neighbour() if self.since == self.node.since else None


class Address:
    """An address that this router knows, under its key."""

    def __init__(self, key: str, treatment: cython.int) -> None:
        self.key = key
        self.treatment = treatment
        self.priority = -1
        self.config: Mapping[str, Any] | None = None
        self.version = 0  # of the configuration that it has, see `AddressTable.version`
        self.consumers: list[RouterLink] = []  # local outgoing links
        self.lone: RouterLink | None = None  # no other consumer has credit, while deliveries wait; None: unknown
        self.producers: list[RouterLink] = []  # local incoming links
        self.tracked: dict[RouterLink, None] | None = None  # producers of edge routers that track it
        self.asking = self.preferred = 0  # consumers that ask to be exclusive; those that have a priority
        self.prioritized = False  # a consumer has a priority other than 0, here or at another router that tells it
        self.ranked = False  # another router tells the priorities of its consumers, see `Target.ranks`
        self.exclusive: Any = None  # an Exclusive if the first consumer in the mesh gets all deliveries
        self.groups: Any = None  # a Groups if all messages of a group go to one consumer
        self.targets: dict[str, Target] = {}  # remote routers with consumers, by id
        self.nearest: list[Target] | None = None  # targets of least cost; None: must be computed
        self.ways: list[Target] | None = None  # one target for each neighbour toward any; None: must be computed
        self.ways_from: dict[str, list[Target]] | None = None  # the same by ingress router, see target_lists.py
        self.order: list[Target] | None = None  # those to try first come first; None: must be computed
        self.nearest_by = self.ordered = 0  # `ConsumerChoice.paths` when they were computed; see `target_lists.BY_LOAD`
        self.subscriber: Callable[[Any, RouterLink], object] | None = None  # of the router itself, see own_messages.py
        self.exchange = self.dead = False  # the subscriber is an exchange; the address was removed
        self.turn = self.run = 0  # a consumer by its place, and how many more it gets: see `choice.pick_soonest`
        self.usual = 0.0  # seconds in which its consumers settle a delivery, see Spread; 0: unknown
        self.concurrency = 0  # deliveries that each consumer works on at a time, as configured; 0: unknown
        self.watched, self.held_since = False, 0.0  # Spread looks at its windows; deliveries wait since then
        self.paced: dict[RouterLink, None] | None = None  # the links to it that have a Pace
        self.hungry = False  # deliveries wait for its consumers somewhere in the mesh, see Demand
        self.pending: PendingQueue | None = None
        self.fallback: Address | None = None  # for messages without a reachable consumer
        self.primary: Address | None = None  # the address whose fallback this is
        self.ingress = self.egress = self.transit = 0
        self.to_container = self.from_container = self.to_process = self.from_process = 0  # process: the router itself
        self.redirected = self.expired = 0  # deliveries to the fallback destination; those that expired while waiting
        self.drops_expired = False  # instead of rejecting them

    def serves_router(self) -> bool:
        """Whether it is the address of the router's own management."""
        return self.subscriber is not None and not self.exchange

    def served_here(self) -> bool:
        """Whether this router has a consumer or an exchange to announce to other routers."""
        return bool(self.consumers) or self.exchange

    def reachable(self) -> bool:
        """Whether a message to the address can be delivered."""
        return self.direct() or (self.fallback is not None and self.fallback.direct())

    def direct(self) -> bool:
        """Whether a message can be delivered to a consumer of the address itself, without the fallback."""
        return bool(self.consumers) or self.subscriber is not None or self.directed()

    def directed(self) -> bool:
        """Whether a path leads to a remote router with consumers."""
        target: Target
        for t in self.targets.values():
            target = t
            if target.neighbour() is not None:
                return True
        return False

    def unused(self) -> bool:
        """Whether nothing refers to the address."""
        kept = self.primary is not None and not self.primary.dead
        return not (kept or self.consumers or self.producers or self.targets or self.pending or self.subscriber)


@cython.freelist(4096)  # has no effect in the .pxd
@cython.cclass
class Queued:
    """The record of a delivery that waits for a consumer, has several consumers, or is for the router itself."""

    # Interpreted, a record of more than 30 attributes has a dict of its own instead, and takes twice the time to make.
    __slots__ = (
        "address", "alone", "anew", "annotations", "arrival", "branches", "complete", "credited", "data", "delivery",
        "did", "expires", "format", "gathers", "group", "head_size", "kept", "later", "link", "own", "place",
        "priority", "rest", "rest_fields", "sample", "settled", "since", "size", "slot", "state", "tag", "target",
        "to_routers", "ttl_at", "unstarted",
    )

    def __init__(self, link: RouterLink | None, annotations: Annotations | None) -> None:
        self.link = link
        self.annotations: Annotations = annotations  # type: ignore[assignment]  # None on a link route: not read there
        self.address: Address = UNSET
        self.delivery: Delivery | None = None  # None: settled
        self.group: Group | None = None
        self.did = self.format = 0
        self.settled = True
        self.priority = DEFAULT_PRIORITY
        self.slot = 0  # of its message group, see groups.py; 0: none
        self.state = b""  # delivery state in the first transfer
        self.own = False  # for the router itself, since its first frame
        self.gathers = False  # incomplete, and waits for more frames before it goes to another router
        self.alone = False  # waits for one link: that of its sender's stream, or of a consumer for large messages
        self.target: Target | None = None  # its remote router then
        self.anew = False  # a copy for another address, which enters the mesh here
        self.credited = False  # the sender's credit was returned although it still waits
        self.head_size = 0  # position of the message-annotations section in `data`
        # Link route: encoded fields of the first transfer from rcv-settle-mode on, their number; delivery-tag.
        self.rest, self.rest_fields, self.tag = b"", 0, b""
        self.data = b""  # bytes that arrived and are still needed, without message-annotations
        self.later: list[bytes] | None = None  # bytes of further frames
        self.size = self.kept = 0  # `kept`: what it counts in the budgets while it waits
        self.since = self.expires = 0.0  # when it began to wait, 0: it did not; when it expires, 0: never
        self.ttl_at = 0  # position of its ttl in `data`; 0: it needs no change
        self.complete = True  # all frames have arrived
        self.branches: list[Branch] | None = None  # its consumers, if several
        self.unstarted = 0  # consumers that wait for credit
        self.to_routers = 0  # of several consumers: links to other routers that wait for credit
        self.place = self.arrival = 0  # its place in its PendingGroup; its number, see QueuedSender.next_arrival
        self.sample: Sample | None = None

    def payload(self) -> bytes:
        """All bytes that have arrived, without message-annotations."""
        return self.data if self.later is None else self.data + b"".join(self.later)

    def add(self, piece: bytes) -> None:
        """Append the bytes of a further frame. Short ones are joined: each object takes more than its bytes."""
        if self.later is None:
            self.later = [piece]
            return
        last: cython.Py_ssize_t = len(self.later) - 1
        if len(self.later[last]) < JOINED_BYTES:
            self.later[last] += piece
        else:
            self.later.append(piece)

    def came_from(self, connection: RouterConnection | None, until: cython.longlong) -> cython.bint:
        """Whether it arrived on this connection, not after number `until` (`arrival`); None: on any that has ended."""
        lk: RouterLink | None = self.link
        if lk is None or self.arrival > until:
            return False
        conn: RouterConnection = lk.connection
        return conn.over if connection is None else conn is connection

    def barring(self) -> RouterLink | None:
        """The link on which it came from an edge router, to which it must not return; None if it may go anywhere.

        An edge router sends a message to its own consumers itself, but does not know of copies for other addresses.
        """
        lk: RouterLink | None = self.link
        return lk if lk is not None and lk.edge and not self.anew else None

    def drop_data(self) -> None:
        """The bytes that have arrived are no longer needed."""
        self.data = b""
        self.later = None


def make_queued(link: RouterLink | None, annotations: Annotations | None) -> Queued:
    """Like `Queued(link, annotations)`; compiled code takes it from a free list without a call of `__init__`."""
    if cython.compiled:
        q: Queued = Queued.__new__(Queued)
        q.link = link
        q.annotations = annotations  # type: ignore[assignment]  # as in `Queued`
        q.settled = True
        q.priority = DEFAULT_PRIORITY
        q.state = q.rest = q.tag = q.data = b""
        q.complete = True
        return q
    return Queued(link, annotations)


@cython.freelist(4096)  # has no effect in the .pxd
@cython.cclass
class Branch:
    """One consumer of a multicast delivery: its outgoing link, and its own delivery if it is unsettled."""

    def __init__(self, queued: Queued, out: RouterLink) -> None:
        self.queued = queued
        self.out = out
        self.started = False
        self.delivery: Delivery | None = None


class Group:
    """Combines the outcomes of the branches of a multicast. Routing chapter "Message Settlement and Reliability"."""

    def __init__(self, link: RouterLink | None, did: cython.uint) -> None:
        self.link, self.did = link, did
        self.delivery: Delivery | None = None
        self.waiting = self.rank = 0  # branches without an outcome; see `Settlement.branch_done`
        self.state = b""
        self.sealed = False  # no more branches will be added
