"""Consumers that take messages up to a size only: `max-message-size` in their attach. Spec: 2.7.3

A message that is too large for a consumer goes to another one, or waits for it; without one it is rejected. One that
exceeds the maximum while it arrives is aborted and rejected, see interruptions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.streams import Streams
from waymesh_router.core.model import Queued, RouterLink, Target

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding.sending import outgoing_annotations, size_on
else:
    from waymesh_router.core.forwarding.sending import outgoing_annotations, size_on

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.forwarding.sections import Sections


class SizeLimits:
    """Chooses among the consumers of an address by the size of a delivery."""

    def __init__(self, choice: ConsumerChoice, streams: Streams) -> None:
        self.choice = choice
        self.streams = streams

    def fits(self, q: Queued, out: RouterLink) -> cython.bint:
        """Whether the consumer of a link takes what has arrived of a delivery."""
        return out.max_message_size == 0 or size_on(out, q) <= out.max_message_size

    def send_elsewhere(self, q: Queued) -> cython.bint:
        """Send a delivery, which is in no queue, to a consumer that takes its size, or let it wait for one. False if
        there is none, or only one may get it."""
        if q.address.exclusive is not None:
            return False
        lk: RouterLink | None = q.barring()
        barred: Connection | None = None if lk is None else lk.connection
        self.choice.picked = None
        out: RouterLink | None = self.local_consumer(q, barred, True)
        if out is None:
            out = self.remote_consumer(q)
        if out is None or not out.ready():
            waits: RouterLink | None = self.local_consumer(q, barred, False)
            if waits is not None:
                self.choice.picked = None
                out = waits
        if out is None:
            return False
        if out.ready():
            self.streams.send(q, out)
        else:
            self.streams.wait_for(q, self.streams.instead(q, out))
        return True

    def local_consumer(self, q: Queued, barred: Connection | None, ready: cython.bint) -> RouterLink | None:
        """The local consumer that takes the size of a delivery: of the highest priority, with the fewest unsettled and
        waiting deliveries. `ready`: it can take the delivery now."""
        best: RouterLink | None = None
        least: cython.longlong = 0
        load: cython.longlong
        out: RouterLink
        for e in q.address.consumers:
            out = e
            if out.connection is barred or (ready and not out.ready()) or not self.fits(q, out):
                continue
            load = out.unsettled + out.undelivered()
            if best is None or out.consumer_priority > best.consumer_priority or (
                out.consumer_priority == best.consumer_priority and load < least
            ):
                best = out
                least = load
        return best

    def remote_consumer(self, q: Queued) -> RouterLink | None:
        """The link to another router with consumers, which is perhaps not ready; their maximum is not known here."""
        found: RouterLink | None = None
        target: Target
        for t in q.address.targets.values():
            target = t
            out: RouterLink | None = self.choice.remote_link(target, q.annotations)
            if out is None or not self.fits(q, out):
                continue
            if found is None or out.ready():
                found = out
                self.choice.picked = target
                if out.ready():
                    break
        return found


def begins_too_large(
    out: RouterLink, annotations: Annotations, sections: Sections, transfer: IncomingTransfer
) -> cython.bint:
    """Whether the scanned first frame of a delivery alone is too large for a consumer with a maximum. Sets the size of
    what is sent."""
    size: cython.Py_ssize_t = transfer.end - transfer.start - (sections.rest - sections.head)
    out.transfer_bytes = size + len(outgoing_annotations(out, annotations))
    return out.transfer_bytes > out.max_message_size


def grows_too_large(out: RouterLink, transfer: IncomingTransfer) -> cython.bint:
    """Whether a delivery becomes too large for a consumer with a maximum by this frame."""
    out.transfer_bytes += transfer.end - transfer.start
    return out.transfer_bytes > out.max_message_size
