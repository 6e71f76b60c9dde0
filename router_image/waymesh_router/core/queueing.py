"""The slow ways of a delivery: waiting for credit, multicast, and messages to and from the router itself."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import cython

from waymesh_router.core.annotations import Annotations, redirected, transit_section
from waymesh_router.core.delivery_sampling import LOST, PRESETTLED
from waymesh_router.core.forwarding import ACCEPTED, RELEASED, Forwarding
from waymesh_router.core.model import (
    Address,
    Branch,
    Group,
    Node,
    Queued,
    RouterConnection,
    RouterLink,
    Target,
)

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.outgoing import abort, send_first, send_more
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.outgoing import abort, send_first, send_more

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.link import Link

SETTLED_MODE = cython.declare(cython.int, 1)
ENDPOINT = cython.declare(cython.int, 0)
DATA = cython.declare(cython.int, 2)
MULTICAST = cython.declare(cython.int, 1)

MAX_OWN_MESSAGE_BYTES = 1 << 24
"""Largest message that the router itself takes (management requests)."""
PART_LIMIT = cython.declare(cython.Py_ssize_t, 1 << 18)
"""Bytes of an incomplete delivery that may wait before its session is held."""


class Queueing(Forwarding):
    """Forwarding for deliveries that cannot go straight from one frame to one consumer."""

    # ---- coming in
    def new_queued(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> Queued:
        """The scanned first frame as a record that can wait."""
        q: Queued = Queued(lk, annotations)
        q.address = address
        q.did = lk.transfer_id
        q.settled = lk.transfer_settled
        q.format = lk.transfer_format
        q.priority = self.priority
        q.head = bytes(b[start : self.sections.head])
        q.chunks.append(bytes(b[self.sections.rest : end]))
        q.size = end - start
        q.complete = not more
        if more:
            lk.queued = q
        if self.sample is not None:
            q.sample = self.sample
            self.sample.waits = True
        return q

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
        q: Queued = self.new_queued(lk, address, annotations, more, b, start, end)
        if not q.settled:
            d: Delivery = new_delivery()
            d.link = lk
            d.did = q.did
            d.sent = False
            d.sample = q.sample
            if not self.track(lk, d):
                return
            q.delivery = d
        q.unstarted = 1
        self.budget.take(q, q.size)
        self.wait(address, q)

    def wait(self, address: Address, q: Queued) -> None:
        """Put a delivery behind the others that wait at the address."""
        if address.pending is None:
            address.pending = deque()
        address.pending.append(q)
        self.await_credit(address)

    def await_credit(self, address: Address) -> None:
        """Look at what waits at an address whenever a neighbour that leads to consumers gives credit."""
        for t in address.targets.values():
            neighbour = t.node.neighbour()
            if neighbour is not None:
                neighbour.connection.waiting[address] = None

    def feed(
        self,
        lk: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        q: Queued = lk.queued
        answered: cython.bint = q.delivery is not None and q.delivery.link is None
        q.complete = not more
        q.size += end - start
        branch: Branch
        held: cython.bint = False
        if q.branches is not None:
            for e in q.branches:
                branch = e
                if branch.started and branch.out.feeder is lk:
                    send_more(branch.out, more, b, start, end)
                    if more and (branch.out.backlog is not None or branch.out.connection.backed_up()):
                        lk.session.hold(branch.out)
                    if not more:
                        self.branch_sent(branch)
        if q.unstarted:
            q.chunks.append(bytes(b[start:end]))
            if q.address.subscriber is None:
                self.budget.take(q, end - start)
            held = more and q.size > PART_LIMIT
        if not more:
            lk.queued = None
            self.all_in(lk, q, answered)
        elif held:
            self.hold_or_refuse(lk, q)

    def hold_or_refuse(self, lk: RouterLink, q: Queued) -> None:
        """Let the sender's session window run out until a consumer comes; the router itself needs the whole message."""
        if q.address.subscriber is None:
            lk.session.hold(lk)
        elif q.size > MAX_OWN_MESSAGE_BYTES:
            lk.queued = None
            self.refuse_delivery(lk, True, RELEASED)

    def all_in(self, lk: RouterLink, q: Queued, answered: cython.bint) -> None:
        """The last frame of a slow delivery has come. `answered`: its sender had the outcome before that."""
        if q.address is not None and q.address.subscriber is not None:
            self.to_subscriber(lk, q)
            return
        if q.delivery is not None:
            if answered and lk.kind == ENDPOINT:
                lk.give_back()
            elif lk.transfer_settled:
                self.sender_settled(q.delivery, b"")
        self.settled_copies_out(q)

    def settled_copies_out(self, q: Queued) -> None:
        """Give the credit of a pre-settled delivery back when its last byte has left."""
        lk: RouterLink | None = q.link
        if lk is None or not q.complete or q.unstarted:
            return
        if q.settled:
            q.link = None
            lk.presettled += 1
            self.presettled += 1
            lk.give_back()
            self.queued_sample_ends(q, PRESETTLED)
        elif lk.kind == DATA:
            q.link = None
            lk.give_back()

    def queued_sample_ends(self, q: Queued, outcome: str) -> None:
        """A pre-settled slow delivery has come to its end; of others their `Delivery` tells."""
        if q.sample is not None:
            self.sampling.end(q.sample, outcome)
            q.sample = None

    # ---- going out
    def on_credit(self, link: Link) -> None:
        out: RouterLink = link  # type: ignore[assignment]
        if out.partner is not None:
            self.pass_credit(out)
            return
        if out.queue is not None:
            self.drain_queue(out)
        if out.kind == DATA:
            conn: RouterConnection = out.connection  # type: ignore[assignment]
            if conn.waiting:
                for address in list(conn.waiting):
                    self.drain(address)
                    if address.pending is None:
                        conn.waiting.pop(address, None)
        elif out.address is not None and out.address.pending is not None:
            self.drain(out.address)
        out.finish_drain()

    def pass_credit(self, out: RouterLink) -> None:
        """Credit on a link of a link route; see linked.py."""

    def on_writable(self, connection: Connection) -> None:
        for session in list(connection.sessions.values()):
            for link in list(session.links):
                if link is not None and link.is_sender and link.attached and link.credit > 0:
                    self.on_credit(link)

    def drain(self, address: Address) -> None:
        """Hand out what waits, in order, as far as consumers are ready. What has no way any more goes back."""
        q: Queued
        while address.pending is not None:
            q = address.pending[0]
            self.priority = q.priority
            out = self.pick(address, q.annotations, q.link)
            if out is None and self.has_way(address, q.annotations):
                return
            address.pending.popleft()
            if not address.pending:
                address.pending = None
            if out is not None:
                self.start(q, out, None)
            elif address.fallback is not None and address.fallback.direct() and (q.link is None or not q.link.stored):
                self.redirect(q, address.fallback)
            else:
                self.release_queued(q)

    def redirect(self, q: Queued, address: Address) -> None:
        """Let what waited for a consumer go to a fallback destination."""
        self.redirected += 1
        q.address = address
        q.annotations = redirected(q.annotations, address.key, self.router_id)
        self.wait(address, q)
        self.drain(address)

    def start(self, q: Queued, out: RouterLink, branch: Branch | None) -> None:
        """Send what has come of a waiting delivery to a link that is ready; `branch` for one of several ways."""
        settled: cython.bint = q.settled or out.snd_settle_mode == SETTLED_MODE
        annotations: Annotations = q.annotations
        ann: bytes = self.outgoing_annotations(out, annotations)
        parts: cython.Py_ssize_t = len(q.chunks)
        data: bytes = q.head + ann + q.chunks[0]
        view: cython.const[cython.uchar][::1] = data if cython.compiled else memoryview(data)
        oid: cython.uint = send_first(
            out, settled, parts > 1 or not q.complete, view, 0, 0, b"", 0, len(data), q.format
        )
        if parts > 1:
            self.send_parts(q, out, parts)
        self.count_out(q.link, q.address, out)
        if q.sample is not None:
            self.sampling.went(q.sample, out)
        q.unstarted -= 1
        if not settled:
            self.track_out(q, out, oid, branch)
        if not q.complete:
            out.feeder = q.link
            if branch is None:
                branch = Branch(q, out)
                branch.delivery = None if settled else q.delivery
                q.branches = [branch]
            branch.started = True
        if q.unstarted == 0:
            q.chunks.clear()
            self.let_go(q)
        if settled and not q.settled and branch is None and q.complete:
            self.taken_settled(q)
        if q.unstarted == 0:
            self.settled_copies_out(q)

    def send_parts(self, q: Queued, out: RouterLink, parts: cython.Py_ssize_t) -> None:
        """Send the further pieces of a waiting delivery one by one: joined, a large one would be in memory twice."""
        i: cython.Py_ssize_t
        for i in range(1, parts):
            piece: bytes = q.chunks[i]
            if q.unstarted == 1:
                q.chunks[i] = b""  # no other branch needs it
            view: cython.const[cython.uchar][::1] = piece if cython.compiled else memoryview(piece)
            send_more(out, i + 1 < parts or not q.complete, view, 0, len(piece))

    def let_go(self, q: Queued) -> None:
        """No branch waits any more: the sender's session may go on."""
        lk: RouterLink | None = q.link
        self.budget.give(q)
        if lk is not None:
            self.budget.release(lk)
            if not q.complete and lk.session.holds:
                lk.session.window_soon()  # consumers wait for the rest

    def taken_settled(self, q: Queued) -> None:
        """An unsettled delivery went to a consumer that wants none: accepted by that."""
        d: Delivery | None = q.delivery
        if d is not None:
            self.settle_incoming(d, ACCEPTED)

    def track_out(self, q: Queued, out: RouterLink, oid: cython.uint, branch: Branch | None) -> None:
        """The outgoing half of an unsettled slow delivery."""
        d: Delivery
        if branch is None:
            d = q.delivery
        else:
            d = new_delivery()
            d.group = q.group
            branch.delivery = d
        d.out = out
        d.oid = oid
        d.sent = q.complete
        out.session.unsettled_out.put(d)
        out.unsettled += 1
        if branch is None and self.picked is not None:
            d.target = self.picked
            self.picked.outstanding += 1

    def branch_sent(self, branch: Branch) -> None:
        """The last frame of a streamed branch went out."""
        branch.out.feeder = None
        if branch.delivery is not None:
            branch.delivery.sent = True
        elif branch.queued.group is None and not branch.queued.settled:
            self.taken_settled(branch.queued)
        if not branch.out.busy:
            self.on_credit(branch.out)

    def drain_queue(self, out: RouterLink) -> None:
        """Copies that wait for this link alone."""
        branch: Branch
        while out.queue is not None and out.ready():
            branch = out.queue.popleft()
            if not out.queue:
                out.queue = None
            self.start(branch.queued, out, branch)

    # ---- several consumers
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
        if address.subscriber is not None:
            q: Queued = self.new_queued(lk, address, annotations, more, b, start, end)
            q.unstarted = 1
            if q.complete:
                self.to_subscriber(lk, q)
            return
        outs = self.multicast_links(address, annotations, lk.connection if lk.kind == DATA else None)
        if not outs:
            self.refuse_delivery(lk, more, RELEASED)
            return
        if not more and lk.transfer_settled and self.all_ready(outs):
            self.copy_to_all(lk, address, annotations, outs, b, start, end)
            return
        self.branch_out(self.new_queued(lk, address, annotations, more, b, start, end), outs)

    def multicast_links(self, address: Address, annotations: Annotations, came_by: object) -> list[Any]:
        """Local consumers, and each neighbour that leads to remote ones on the tree of the ingress router, once.

        Source: inter-router.md Paths.
        """
        target: Target
        neighbour: Node | None
        if not address.targets:
            return address.consumers
        outs: list[Any] = list(address.consumers)
        seen: list[Any] = []
        for t in address.targets.values():
            target = t
            neighbour = target.node.neighbour()
            if neighbour is None or neighbour.connection is came_by or neighbour.connection in seen:
                continue
            found = self.remote_link(target, annotations)
            if found is not None:
                seen.append(neighbour.connection)
                outs.append(found)
        return outs

    def all_ready(self, outs: list[Any]) -> cython.bint:
        """Whether a copy can go out on each of the links now."""
        out: RouterLink
        for e in outs:
            out = e
            if out.queue is not None or not out.ready() or out.session.remote_window < len(outs):
                return False  # several of them may share a session, and so its window
        return True

    def copy_to_all(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        outs: list[Any],
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """A whole pre-settled message for consumers that are all ready: no record is needed."""
        head: cython.Py_ssize_t = self.sections.head
        rest: cython.Py_ssize_t = self.sections.rest
        out: RouterLink
        for e in outs:
            out = e
            ann: bytes = self.outgoing_annotations(out, annotations)
            if head == rest and not ann:
                send_first(out, True, False, b, start, start, b"", start, end, lk.transfer_format)
            else:
                send_first(out, True, False, b, start, head, ann, rest, end, lk.transfer_format)
            self.count_out(lk, address, out)
            if self.sample is not None:
                self.sampling.went(self.sample, out)
        self.passed_settled(lk)

    def branch_out(self, q: Queued, outs: list[Any]) -> None:
        """One branch a consumer: those that are ready start now, the others queue."""
        lk: RouterLink | None = q.link
        out: RouterLink
        branch: Branch
        if not q.settled and lk is not None:
            d: Delivery = new_delivery()
            d.link = lk
            d.did = q.did
            d.sample = q.sample
            if not self.track(lk, d):
                return
            q.delivery = d
            q.group = Group(lk, q.did)
            q.group.delivery = d
            d.group = q.group
        q.branches = []
        q.unstarted = len(outs)
        for e in list(outs):
            out = e
            branch = Branch(q, out)
            q.branches.append(branch)
            if q.group is not None and out.snd_settle_mode != SETTLED_MODE:
                q.group.waiting += 1
            if out.queue is None and out.ready():
                self.start(q, out, branch)
            else:
                if out.queue is None:
                    out.queue = deque()
                out.queue.append(branch)
        if q.unstarted:
            self.budget.take(q, q.size)
        if q.complete:
            q.branches = None
        if q.group is not None:
            q.group.sealed = True
            if q.group.waiting == 0:
                self.group_done(q.group, q.group.state or ACCEPTED)

    def branch_to(self, q: Queued, out: RouterLink) -> None:
        """Send a record of the router itself on one given link."""
        self.branch_out(q, [out])

    def group_done(self, group: Group, state: bytes) -> None:
        """Every branch has its outcome; see settlement.py."""

    def settle_incoming(self, d: Delivery, state: bytes) -> None:
        """Report the final outcome to the sender; see settlement.py."""

    def release_queued(self, q: Queued) -> None:
        """Give a waiting delivery back; see settlement.py."""

    # ---- the router itself
    def to_subscriber(self, lk: RouterLink, q: Queued) -> None:
        """A whole message for the router: accepted at once, then handed over."""
        message = q.head + transit_section(q.annotations) + q.payload()
        subscriber = q.address.subscriber
        if lk.transfer_settled:
            lk.presettled += 1
            self.presettled += 1
        else:
            self.count_outcome(lk, ACCEPTED)
            lk.session.settle(q.did, ACCEPTED)
        lk.give_back()
        if subscriber is not None:
            subscriber(message, lk)

    def send_own(self, address: Address, annotations: Annotations, message: bytes, priority: cython.int) -> cython.bint:
        """Send a whole pre-settled message of the router itself. False where nobody can take it now or later."""
        self.priority = priority
        view: cython.const[cython.uchar][::1] = message if cython.compiled else memoryview(message)
        self.sections.scan(view, 0, len(message))
        q: Queued = Queued(None, annotations)
        q.address = address
        q.priority = priority
        q.head = message[: self.sections.head]
        q.chunks.append(message[self.sections.rest :])
        q.size = len(message)
        if address.treatment <= MULTICAST:
            outs = self.multicast_links(address, annotations, None)
            if outs:
                self.branch_out(q, outs)
            return bool(outs)
        if not address.reachable():
            return False
        q.unstarted = 1
        self.wait(address, q)
        self.drain(address)
        return True

    def on_abort(self, link: Link) -> None:
        """The sender gave the delivery up: so do its consumers. An aborted delivery is settled. Spec: 2.7.5."""
        lk: RouterLink = link  # type: ignore[assignment]
        if lk.stream is not None:
            self.drop_stream(lk)
        elif lk.queued is not None:
            self.drop_queued(lk)
        lk.head = None
        lk.discard = False
        if lk.partner is None:
            lk.give_back()

    def drop_stream(self, lk: RouterLink) -> None:
        """Abort the delivery that streams from lk to one consumer."""
        out: RouterLink = lk.stream
        d: Delivery | None = lk.stream_delivery
        lk.stream = None
        lk.stream_delivery = None
        out.feeder = None
        abort(out)
        if d is not None:
            self.forget(d)
        self.on_credit(out)

    def cut_short(self, lk: RouterLink, d: Delivery) -> None:
        """The consumer is done with a delivery that is still arriving, and has not accepted it: spare it the rest."""
        if lk.stream_delivery is d:
            out: RouterLink = lk.stream
            lk.stream = None
            lk.stream_delivery = None
            out.feeder = None
            if out.attached:
                abort(out)
                self.on_credit(out)
        elif lk.queued is not None and lk.queued.delivery is d:
            self.drop_queued(lk)
        else:
            return
        lk.discard = True

    def drop_queued(self, lk: RouterLink) -> None:
        """Take back the incomplete slow delivery of lk from where it waits or goes."""
        q: Queued = lk.queued
        if lk.partner is not None:
            self.drop_held(lk, q)
            return
        lk.queued = None
        self.queued_sample_ends(q, LOST)
        address: Address = q.address
        if address.pending is not None and q in address.pending:
            address.pending.remove(q)
            if not address.pending:
                address.pending = None
        for branch in q.branches or ():
            out = branch.out
            if branch.started and out.feeder is lk:
                out.feeder = None
                abort(out)
                if branch.delivery is not None:
                    self.forget(branch.delivery)
                self.on_credit(out)
            elif out.queue is not None and branch in out.queue:
                out.queue.remove(branch)
                if not out.queue:
                    out.queue = None
        if q.delivery is not None:
            self.forget(q.delivery)
        self.let_go(q)

    def drop_held(self, lk: RouterLink, q: Queued) -> None:
        """The same on a link route; see linked.py."""

    def forget(self, d: Delivery) -> None:
        """Remove a delivery from both rings without an outcome."""
        lk: RouterLink | None = d.link
        out: RouterLink | None = d.out
        if lk is not None:
            lk.session.unsettled_in.drop(d)
            lk.unsettled -= 1
            d.link = None
        if out is not None:
            out.session.unsettled_out.drop(d)
            out.unsettled -= 1
            d.out = None
        if d.target is not None:
            d.target.outstanding -= 1
            d.target = None
