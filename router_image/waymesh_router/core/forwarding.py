"""The hot path of the router: a transfer comes in, a consumer is chosen, frames go out, outcomes come back.

Dispatch book 2.4.1, routing chapter "Message Settlement and Reliability".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from waymesh_amqp.errors import INVALID_FIELD, DecodeError
from waymesh_amqp.handler import Handler
from waymesh_router.core.addresses.keys import RELAYED, names_management
from waymesh_router.core.annotations import (
    Annotations,
    local_annotations,
    read_annotations,
    redirected,
    transit_section,
)
from waymesh_router.core.attaching import MANAGEMENT_REJECTED
from waymesh_router.core.budget import Budget
from waymesh_router.core.delivery_sampling import DROPPED, NEVER, OUTCOMES
from waymesh_router.core.model import Address, Node, RouterLink, Target
from waymesh_router.core.sections import Sections

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.outgoing import send_first, send_more
    from cython.cimports.waymesh_amqp.wire import same
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.outgoing import send_first, send_more
    from waymesh_amqp.wire import same

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.link import Link

ACCEPTED = b"\x00\x53\x24\x45"
REJECTED = b"\x00\x53\x25\x45"
RELEASED = b"\x00\x53\x26\x45"
MODIFIED_FAILED = b"\x00\x53\x27\xc0\x02\x01\x41"
"""The outcome of a delivery whose consumer was lost: it may have been seen. Spec: 3.4.5 delivery-failed."""

MAX_HEAD_BYTES = 1 << 20
"""Header and annotations must end within this many bytes."""
CACHE_LIMIT = 4096

SETTLED_MODE = cython.declare(cython.int, 1)
ENDPOINT = cython.declare(cython.int, 0)
CONTROL = cython.declare(cython.int, 1)
DATA = cython.declare(cython.int, 2)
MULTICAST = cython.declare(cython.int, 1)
CLOSEST = cython.declare(cython.int, 2)


class Forwarding(Handler):
    """Message routing of one router. `counters`: what the router entity reports. `Core` adds attach, mesh and time."""

    def __init__(self, router_id: str) -> None:
        Handler.__init__(self)
        self.router_id = router_id
        self.addresses: dict[str, Address] = {}
        self.sections = Sections()
        self.budget = Budget()
        self.annotation_cache: dict[bytes, Annotations] = {}
        self.forbidden = Address("", CLOSEST)  # stands for an address to which the sender may not send
        self.plain_annotations = local_annotations(router_id, None)
        self.picked: Target | None = None
        self.priority = 4
        self.redirected = 0
        self.presettled = 0
        self.dropped_presettled = 0
        self.accepted = 0
        self.rejected = 0
        self.released = 0
        self.modified = 0
        self.ingress = 0
        self.egress = 0
        self.from_containers = 0
        self.to_containers = 0
        self.transit = 0
        self.sampling: Any = None  # DeliverySampling or None; there where `sample` is, or `until_sample` gets to 0
        self.until_sample = NEVER
        self.sample: Any = None  # Sample of the delivery that begins, or None

    # ---- transfers in
    def on_transfer(
        self,
        link: Link,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        if lk.partner is not None:
            self.pass_on(lk, more, b, start, end)
        elif lk.transfer_first:
            lk.discard = False
            self.first_frame(lk, more, b, start, end)
        elif lk.stream is not None:
            out: RouterLink = lk.stream
            send_more(out, more, b, start, end)
            if more:
                if out.backlog is not None or out.connection.backed_up():
                    lk.session.hold(out)
            else:
                self.stream_ends(lk, out)
        elif lk.queued is not None:
            self.feed(lk, more, b, start, end)
        elif lk.discard:
            if not more:
                self.end_discarded(lk)
        else:
            self.more_head(lk, more, bytes(b[start:end]))
        if self.sample is not None:
            self.sampling.begun(lk)

    def first_frame(
        self,
        lk: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """A delivery begins: find its address and hand it on."""
        sections: Sections = self.sections
        found: cython.int = sections.scan(b, start, end)
        annotations: Annotations
        if found != 2 and not (found == 1 and not more):
            self.incomplete_head(lk, more, b, start, end)
            return
        if sections.head == sections.rest and lk.annotations is not None:
            annotations = lk.annotations
        else:
            read = self.annotations_of(lk, b)
            if read is None:
                self.refuse_delivery(lk, more, REJECTED)
                return
            annotations = read
        address: Address | None = lk.address
        if address is None:
            address = self.address_of(lk, annotations, more, b, start, end)
            if address is None:
                return
        if lk.kind == ENDPOINT:
            address.ingress += 1
            self.ingress += 1
            if lk.container:
                address.from_container += 1
                self.from_containers += 1
            self.until_sample -= 1
            if self.until_sample == 0:
                annotations = self.sampling.take(lk, address, annotations, more, end - start)
        elif annotations.sid != 0 and self.sampling is not None:
            self.sampling.follow(lk, address, annotations, more, end - start)
        if address.targets:
            self.priority = address.priority if address.priority >= 0 else sections.priority(b, end)
        if address.treatment <= MULTICAST or address.subscriber is not None:
            self.to_many(lk, address, annotations, more, b, start, end)
            return
        out = self.pick(address, annotations, lk) if address.pending is None else None
        if out is None:
            if self.has_way(address, annotations):
                self.enqueue(lk, address, annotations, more, b, start, end)
            elif address.fallback is not None and not lk.stored and address.fallback.direct():
                address = address.fallback
                self.redirected += 1
                self.enqueue(lk, address, redirected(annotations, address.key, self.router_id), more, b, start, end)
                self.drain(address)
            else:
                self.refuse_delivery(lk, more, RELEASED)
            return
        self.forward(lk, address, annotations, out, more, b, start, end)

    def incomplete_head(
        self,
        lk: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """The frame ends within the sections that have to be seen: keep it and wait for the next one."""
        if not more or end - start > MAX_HEAD_BYTES:
            self.refuse_delivery(lk, more, REJECTED)
        else:
            lk.head = bytearray(b[start:end])
            lk.head_due = (end - start) * 2

    def more_head(self, lk: RouterLink, more: cython.bint, fragment: bytes) -> None:
        """More of an incomplete head. It is scanned again when it has doubled: at each octet would cost its square."""
        head: bytearray = lk.head or bytearray()
        head += fragment
        lk.head = head if more and len(head) < lk.head_due else None
        if lk.head is not None:
            return
        view: cython.const[cython.uchar][::1] = head if cython.compiled else memoryview(head)
        self.first_frame(lk, more, view, 0, len(head))

    def annotations_of(self, lk: RouterLink, b: cython.const[cython.uchar][::1]) -> Annotations | None:
        """The annotations of the scanned message; None if they cannot be read."""
        head: cython.Py_ssize_t = self.sections.head
        rest: cython.Py_ssize_t = self.sections.rest
        if lk.seen_annotations is not None and same(b, head, rest, lk.seen_section):
            return lk.seen_annotations
        data = bytes(b[head:rest])
        trusted: cython.bint = lk.kind != ENDPOINT or not lk.strip
        key = data if trusted and lk.annotations is None else None
        a = self.annotation_cache.get(key) if key is not None else None
        if a is None:
            try:
                a = read_annotations(data, self.router_id, trusted, lk.annotations) if data else self.plain_annotations
            except DecodeError:
                return None
            if key is not None and not a.sid:
                if len(self.annotation_cache) >= CACHE_LIMIT:
                    self.annotation_cache.clear()
                self.annotation_cache[key] = a
        lk.seen_section = data
        lk.seen_annotations = a
        return a

    def address_of(
        self,
        lk: RouterLink,
        annotations: Annotations,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> Address | None:
        """The address of a message on a link that has none. None: the message was dealt with here."""
        if annotations.to is not None:
            known = annotations.address
            if lk.no_management and names_management(annotations.to):
                known = self.forbidden
            elif known is None or known.dead:
                known = self.lookup(annotations.to, annotations.phase)
                annotations.address = known
        else:
            at: cython.Py_ssize_t = self.sections.find_to(b, end)
            if at == -2 and more:
                self.incomplete_head(lk, more, b, start, end)
                return None
            if at < 0:
                self.refuse_delivery(lk, more, REJECTED)
                return None
            known = self.address_by_to(lk, annotations, b, at, end)
        if known is None or known is self.forbidden:
            self.refuse_delivery(lk, more, RELEASED if known is None else MANAGEMENT_REJECTED)
            return None
        return known

    def address_by_to(
        self,
        lk: RouterLink,
        annotations: Annotations,
        b: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> Address | None:
        """Look up properties.to, whose encoded value is at b[at]."""
        size: cython.Py_ssize_t
        body: cython.Py_ssize_t
        if b[at] == 0xA1:
            size = b[at + 1]
            body = at + 2
        elif b[at] == 0xB1:
            size = b[at + 1] << 24 | b[at + 2] << 16 | b[at + 3] << 8 | b[at + 4]
            body = at + 5
        else:
            return None
        if lk.seen_address is not None and not lk.seen_address.dead and same(b, body, body + size, lk.seen_to):
            return lk.seen_address
        raw = bytes(b[body : body + size])
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None
        found = self.forbidden if lk.no_management and names_management(text) else self.lookup(text, annotations.phase)
        if found is None and lk.kind == ENDPOINT:
            found = self.relayed(lk, text)
        lk.seen_to = raw
        lk.seen_address = found
        return found

    def lookup(self, text: str, phase: str) -> Address | None:
        """The address of a text that a message carries; None where nothing of that name is known. See core.py."""
        return None

    def relayed(self, lk: RouterLink, text: str) -> Address | None:
        """Where messages of an anonymous sender go whose address is link-routed; None if it is not. See relays.py."""
        return None

    # ---- choosing
    def pick(self, address: Address, annotations: Annotations, lk: RouterLink | None) -> RouterLink | None:
        """A ready link for the next delivery of an anycast address; its target is left in `picked`."""
        self.picked = None
        if address.treatment == CLOSEST:
            return self.pick_closest(address, annotations)
        return self.pick_balanced(address, annotations)

    def pick_closest(self, address: Address, annotations: Annotations) -> RouterLink | None:
        """In turn among the nearest: local consumers, else the remote routers of least cost."""
        links: list[Any] = address.consumers
        n: cython.Py_ssize_t = len(links)
        i: cython.Py_ssize_t
        _: cython.Py_ssize_t
        out: RouterLink
        if n:
            i = address.turn
            for _ in range(n):
                i += 1
                if i >= n:
                    i = 0
                out = links[i]
                if out.ready():
                    address.turn = i
                    return out
            return None
        if address.nearest is None:
            self.find_nearest(address)
        links = address.nearest
        n = len(links)
        i = address.turn
        target: Target
        for _ in range(n):
            i += 1
            if i >= n:
                i = 0
            target = links[i]
            found = self.remote_link(target, annotations)
            if found is not None and found.ready():
                address.turn = i
                self.picked = target
                return found
        return None

    def pick_balanced(self, address: Address, annotations: Annotations) -> RouterLink | None:
        """The path with the fewest unsettled deliveries, counting the cost of a remote one as that many more."""
        links: list[Any] = address.consumers
        n: cython.Py_ssize_t = len(links)
        i: cython.Py_ssize_t = address.turn
        _: cython.Py_ssize_t
        best: RouterLink | None = None
        least: cython.longlong = 0x7FFFFFFFFFFFFFFF
        load: cython.longlong
        out: RouterLink
        target: Target
        for _ in range(n):
            i += 1
            if i >= n:
                i = 0
            out = links[i]
            if out.unsettled < least and out.ready():
                best = out
                least = out.unsettled
                address.turn = i
                if least == 0:
                    return best
        for t in address.targets.values():
            target = t
            load = target.outstanding + target.node.cost
            if load < least:
                found = self.remote_link(target, annotations)
                if found is not None and found.ready():
                    best = found
                    least = load
                    self.picked = target
        return best

    def remote_link(self, target: Target, annotations: Annotations) -> RouterLink | None:
        """The data link toward a remote router, if a delivery with this ingress may go that way.

        Source: inter-router.md Paths.
        """
        neighbour: Node | None = target.node.neighbour()
        if neighbour is None or neighbour.connection is None:
            return None
        if annotations.trace:
            if neighbour.id in annotations.trace:
                return None
            if annotations.ingress not in target.node.valid_origins:
                return None
        return neighbour.connection.data_link(self.priority)

    def has_way(self, address: Address, annotations: Annotations) -> cython.bint:
        """Whether `pick` can find a link for the delivery, now or when somebody has credit."""
        if address.consumers or address.key.startswith(RELAYED):
            return True
        targets = list(address.targets.values())
        if address.treatment == CLOSEST:
            if address.nearest is None:
                self.find_nearest(address)
            targets = address.nearest
        found: cython.bint = False
        for target in targets:
            found = found or self.remote_link(target, annotations) is not None
        return found

    def find_nearest(self, address: Address) -> None:
        """Work out `nearest`."""
        reachable = [t for t in address.targets.values() if t.node.neighbour() is not None]
        least = min((t.node.cost for t in reachable), default=0)
        address.nearest = [t for t in reachable if t.node.cost == least]

    # ---- forwarding
    def forward(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        out: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """Send the scanned first frame of a delivery to one consumer."""
        settled: cython.bint = lk.transfer_settled or out.snd_settle_mode == SETTLED_MODE
        d: Delivery | None = None
        if not settled:
            d = new_delivery()
            d.link = lk
            d.did = lk.transfer_id
            if not self.track(lk, d):
                return
        oid: cython.uint
        head: cython.Py_ssize_t = self.sections.head
        rest: cython.Py_ssize_t = self.sections.rest
        ann: bytes = self.outgoing_annotations(out, annotations)
        if head == rest and not ann:
            oid = send_first(out, settled, more, b, start, start, b"", start, end, lk.transfer_format)
        else:
            oid = send_first(out, settled, more, b, start, head, ann, rest, end, lk.transfer_format)
        self.count_out(lk, address, out)
        if self.sample is not None:
            self.sampling.went(self.sample, out)
        if d is None:
            if more:
                lk.stream = out
                out.feeder = lk
                if out.backlog is not None:
                    lk.session.hold(out)
            else:
                self.passed_settled(lk)
            return
        d.out = out
        d.oid = oid
        d.sent = not more
        out.session.unsettled_out.put(d)
        out.unsettled += 1
        if self.picked is not None:
            d.target = self.picked
            self.picked.outstanding += 1
        if more:
            lk.stream = out
            lk.stream_delivery = d
            out.feeder = lk
            if out.backlog is not None:
                lk.session.hold(out)
        elif lk.kind == DATA:
            lk.give_back()

    def track(self, lk: RouterLink, d: Delivery) -> cython.bint:
        """Remember an incoming unsettled delivery; False if its id is in use, which ends the session."""
        try:
            lk.session.unsettled_in.put(d)
        except KeyError:
            lk.session.end(INVALID_FIELD, f"delivery-id {d.did} is in use")
            return False
        lk.unsettled += 1
        return True

    def outgoing_annotations(self, out: RouterLink, annotations: Annotations) -> bytes:
        """The annotations section for a message that goes out on a link."""
        if out.strip and out.kind == ENDPOINT:
            return annotations.client
        return annotations.transit if not annotations.unmarked else transit_section(annotations)

    def count_out(self, lk: RouterLink | None, address: Address, out: RouterLink) -> None:
        """Count a delivery that goes out; `lk`: where it came in, None for one of the router itself."""
        if out.kind == ENDPOINT:
            address.egress += 1
            self.egress += 1
            if out.container:
                address.to_container += 1
                self.to_containers += 1
        elif lk is not None and lk.kind == DATA:
            address.transit += 1
            self.transit += 1

    def passed_settled(self, lk: RouterLink) -> None:
        """A delivery that is settled on its way out has left: settle it on the way in too, and give the credit back."""
        if lk.transfer_settled:
            lk.presettled += 1
            self.presettled += 1
        else:
            lk.accepted += 1
            self.accepted += 1
            lk.session.settle(lk.transfer_id, ACCEPTED)
        lk.give_back()

    def stream_ends(self, lk: RouterLink, out: RouterLink) -> None:
        """The last frame of a streamed delivery went out."""
        d: Delivery | None = lk.stream_delivery
        lk.stream = None
        lk.stream_delivery = None
        out.feeder = None
        if d is None:
            self.passed_settled(lk)
        else:
            d.sent = True
            if lk.kind == DATA or d.link is None:
                lk.give_back()
            if lk.transfer_settled:  # settled on a later fragment: the sender wants no outcome. Spec: 2.7.5
                self.sender_settled(d, b"")
        if not out.busy:
            self.on_credit(out)

    def refuse_delivery(self, lk: RouterLink, more: cython.bint, state: bytes) -> None:
        """The delivery that begins goes nowhere: report the outcome now, ignore the rest of it."""
        lk.head = None
        if self.sample is not None:
            self.sample.outcome = DROPPED if lk.transfer_settled else OUTCOMES[outcome_code(state)]
        if lk.transfer_settled:
            lk.dropped_presettled += 1
            self.dropped_presettled += 1
        else:
            self.count_outcome(lk, state)
            lk.session.settle(lk.transfer_id, state)
        if more:
            lk.discard = True
        else:
            lk.give_back()

    def end_discarded(self, lk: RouterLink) -> None:
        """The last frame of a delivery that went nowhere has come."""
        lk.discard = False
        lk.give_back()

    def count_outcome(self, lk: RouterLink, state: bytes) -> None:
        """Count the outcome of a delivery of this incoming link."""
        code: cython.int = outcome_code(state)
        if code == 0x24:
            lk.accepted += 1
            self.accepted += 1
        elif code == 0x25:
            lk.rejected += 1
            self.rejected += 1
        elif code == 0x26:
            lk.released += 1
            self.released += 1
        elif code == 0x27:
            lk.modified += 1
            self.modified += 1

    def sender_settled(self, d: Delivery, state: bytes) -> None:
        """The sender settled an unsettled delivery by itself; see settlement.py."""

    # ---- link routes, see linked.py
    def pass_on(
        self,
        lk: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """A transfer on a link of a link route."""

    # ---- slow ways, see queueing.py
    def enqueue(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """No consumer is ready: keep the delivery with the address."""

    def drain(self, address: Address) -> None:
        """Hand out what waits with the address."""

    def to_many(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """Multicast, and addresses that the router itself consumes."""

    def feed(
        self,
        lk: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """The next frame of a delivery that waits or goes to several consumers."""


def outcome_code(state: bytes) -> cython.int:
    """Descriptor code of an encoded delivery state; 0 for none or one without a small numeric descriptor. Spec: 3.4."""
    n: cython.Py_ssize_t = len(state)
    if n >= 3 and state[1] == 0x53:
        return state[2]
    if n >= 10 and state[1] == 0x80:
        return state[9]
    return 0
