"""Deliveries that telemetry records one by one: which ones are chosen, and how they end.

A delivery is chosen where it enters the mesh (head-based sampling). The number of the sample travels in an annotation,
so that every router records the same deliveries. Link-routed deliveries are not sampled: they pass unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.delivery import Delivery
from waymesh_router.core.context import Context
from waymesh_router.core.counters import Counters
from waymesh_router.core.forwarding.annotations import Annotations, sampled
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Address, RouterLink
from waymesh_router.core.settlement.outcomes import ACCEPTED_CODE, OUTCOME_NAMES

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

NEVER = 1 << 62
"""Deliveries until the next sample while nothing is sampled: more than a router ever sees."""
ADAPT_S = 1.0
SID_BITS = 62
PRESETTLED, DROPPED, LOST, SETTLED = "presettled", "dropped", "lost", "settled"
"""How a delivery without an outcome ends: its sender had settled it; it was dropped pre-settled; its sender was lost
first; its receiver settled it without a state."""


@dataclass(frozen=True, slots=True)
class SamplePace:
    """One delivery of `one_in` on average; fewer where that would be more than `per_second`."""

    one_in: int
    per_second: float


class Sample:
    """One sampled delivery at this router. Times are microseconds of a monotonic clock."""

    def __init__(self, link: RouterLink, address: Address, annotations: Annotations) -> None:
        self.link = link
        self.address = address
        self.annotations = annotations
        self.began_us = 0
        self.sent_us = 0
        self.here = False  # whether it entered the mesh at this router
        self.presettled = bool(link.transfer_settled)
        self.priority = 0
        self.size = 0
        self.streaming = False
        self.outs: list[RouterLink] = []  # links that it went out on
        self.waits = False  # whether a `Queued` holds the sample
        self.outcome = ""


class DeliverySampling:
    """Chooses deliveries and reports how they end. The forwarder counts `until_next` down and asks when it is 0."""

    def __init__(self, context: Context, counters: Counters, sections: Sections) -> None:
        self.until_next = NEVER  # deliveries of clients until the next one to sample
        self.current: Sample | None = None  # of the frame that is being handled
        self._context = context
        self._counters = counters
        self._sections = sections
        self._pace = SamplePace(1, 0.0)
        self._clock: Callable[[], int] | None = None
        self._ended: Callable[[Sample, str, int], None] | None = None
        self._probability = 0.0
        self._taken = 0
        self._last_sid = 0
        self._seen = 0
        self._seen_at = 0.0

    def start(
        self, pace: SamplePace, clock: Callable[[], int], ended: Callable[[Sample, str, int], None]
    ) -> None:
        """Sample from now on. `clock()`: nanoseconds.

        `ended(sample, outcome, now_us)` is called once for each sample.
        """
        self._pace = pace
        self._clock = clock
        self._ended = ended
        self._probability = 1.0 / pace.one_in
        self._taken = 0
        self._last_sid = self._context.rng.getrandbits(SID_BITS)
        self._seen = self._counters.ingress
        self._seen_at = self._context.now
        self._draw()

    def stop(self) -> None:
        """Choose no more deliveries, and report nothing of those under way."""
        self.until_next = NEVER
        self._ended = None

    # ---- choosing
    def _draw(self) -> None:
        """Draw how many deliveries it is to the next sample: 1 for the very next one."""
        gap = 1
        if self._probability < 1.0:
            gap += int(math.log(1.0 - self._context.rng.random()) / math.log1p(-self._probability))
        self.until_next = gap

    def tick(self, now: float) -> None:
        """Adapt the probability to the rate of deliveries, to keep to the pace.

        Drawing the gap anew loses nothing: the distribution has no memory. A second without deliveries says nothing
        about those that come next, so it changes nothing.
        """
        if self._ended is None or now - self._seen_at < ADAPT_S:
            return
        before, ingress = self._probability, self._counters.ingress
        rate = (ingress - self._seen) / (now - self._seen_at)
        self._seen, self._seen_at, self._taken = ingress, now, 0
        if rate > 0.0:
            self._probability = min(1.0 / self._pace.one_in, 2.0 * before, self._pace.per_second / rate)
        if self._probability != before:
            self._draw()

    def _limit_burst(self) -> None:
        """Halve the probability when a burst has used up the samples of a second."""
        self._taken += 1
        if self._taken >= self._pace.per_second * ADAPT_S:
            self._taken = 0
            self._probability /= 2.0

    def take(
        self, link: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> Annotations:
        """Sample the delivery that begins; returns its annotations, with the sample's number."""
        if address.subscriber is not None:
            self.until_next = 1  # management requests are not sampled
            return annotations
        self._last_sid += 1  # consecutive numbers compress better than random ones
        annotations = sampled(annotations, self._last_sid, 1.0 / self._probability, self._context.router_id)
        self.follow(link, address, annotations, transfer)
        sample: Sample = self.current  # type: ignore[assignment]
        sample.here = True
        self._limit_burst()
        self._draw()
        return annotations

    def follow(
        self, link: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """Record the delivery that begins: it is sampled, here or by another router."""
        if self._ended is None:
            return
        sections: Sections = self._sections
        sample: Sample = Sample(link, address, annotations)
        sample.began_us = self._now_us()
        sample.streaming = bool(transfer.more)
        # Without the annotations: routers add to them.
        sample.size = transfer.end - transfer.start - (sections.rest - sections.head)
        sample.priority = address.priority if address.priority >= 0 else sections.priority(transfer)
        self.current = sample

    # ---- how they end
    def went_out(self, sample: Sample, out: RouterLink) -> None:
        """The delivery goes out on a link."""
        sample.outs.append(out)
        if not sample.sent_us:
            sample.sent_us = self._now_us() if sample.waits else sample.began_us

    def frame_handled(self, link: RouterLink) -> None:
        """The first frame of a sampled delivery was handled: end the sample, or wait for the delivery's outcome."""
        sample: Sample = self.current  # type: ignore[assignment]
        self.current = None
        if sample.waits:
            return
        delivery: Delivery | None = None if link.transfer_settled else link.session.unsettled_in.find(link.transfer_id)
        if sample.outcome:
            self.end(sample, sample.outcome)
        elif delivery is not None:
            delivery.sample = sample
        else:  # it left settled: the sender settled it, or the consumer asked for that
            self.end(sample, PRESETTLED if link.transfer_settled else OUTCOME_NAMES[ACCEPTED_CODE])

    def end_of(self, delivery: Delivery, outcome: str) -> None:
        """A sampled delivery has its outcome."""
        sample: Sample = delivery.sample
        delivery.sample = None
        self.end(sample, outcome)

    def end(self, sample: Sample, outcome: str) -> None:
        """A sample has its outcome."""
        if self._ended is not None:
            self._ended(sample, outcome, self._now_us())

    def _now_us(self) -> cython.longlong:
        assert self._clock is not None
        ns: cython.longlong = self._clock()
        return ns // 1000
