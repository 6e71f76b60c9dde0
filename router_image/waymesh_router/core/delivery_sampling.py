"""Samples of single deliveries for telemetry: their selection and their outcomes.

A delivery is selected where it enters the mesh (head-based sampling). The id of the sample travels in an annotation,
so that every router records the same deliveries. Link-routed deliveries are not sampled: they pass unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.delivery import Delivery
from waymesh_amqp.outcomes import ACCEPTED_CODE
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.counters import Counters
from waymesh_router.core.forwarding.annotations import Annotations, sampled
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Address, RouterLink
from waymesh_router.core.settlement.outcomes import OUTCOME_NAMES

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

NEVER = 1 << 62
"""Value of the countdown without sampling: larger than any number of deliveries."""
ADAPT_S = 1.0
SID_BITS = 62
PRESETTLED, DROPPED, LOST, SETTLED = "presettled", "dropped", "lost", "settled"
"""Outcomes of deliveries without an AMQP outcome: sent settled; dropped although sent settled; sender lost before the
outcome; settled by the receiver without a state."""


@dataclass(frozen=True, slots=True)
class SamplePace:
    """One delivery of `one_in` on average, but at most `per_second`."""

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
        self.here = False  # it entered the mesh at this router
        self.presettled = bool(link.transfer_settled)
        self.priority = 0
        self.size = 0
        self.streaming = False
        self.outs: list[RouterLink] = []  # its outgoing links
        self.waits = False  # a `Queued` holds the sample
        self.outcome = ""


class DeliverySampling:
    """Selects deliveries and reports their outcomes. The forwarder counts `until_next` down and calls `take` at 0."""

    def __init__(self, context: CoreContext, counters: Counters, sections: Sections) -> None:
        self.until_next = NEVER  # deliveries from clients until the next sample
        self.current: Sample | None = None  # sample of the current frame
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
        """Start sampling. `clock()`: monotonic time in nanoseconds.

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
        """Sample no more deliveries, and report no outcomes of those in progress."""
        self.until_next = NEVER
        self._ended = None

    # ---- selection
    def _draw(self) -> None:
        """Draw the number of deliveries until the next sample; 1: the very next delivery."""
        gap = 1
        if self._probability < 1.0:
            gap += int(math.log(1.0 - self._context.rng.random()) / math.log1p(-self._probability))
        self.until_next = gap

    def tick(self, now: float) -> None:
        """Adapt the probability to the rate of deliveries, to reach the requested pace.

        Drawing the gap again is correct, because the distribution is memoryless. After a second without deliveries the
        probability stays, because it says nothing about the rate of the next ones.
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
        """Halve the probability after a burst has used up the samples of a second."""
        self._taken += 1
        if self._taken >= self._pace.per_second * ADAPT_S:
            self._taken = 0
            self._probability /= 2.0

    def take(
        self, link: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> Annotations:
        """Sample the current delivery; returns its annotations with the id of the sample."""
        if address.subscriber is not None:
            self.until_next = 1  # management requests are not sampled
            return annotations
        self._last_sid += 1  # consecutive numbers compress better than random ones
        annotations = sampled(annotations, self._last_sid, 1.0 / self._probability, self._context.stamp)
        self.follow(link, address, annotations, transfer)
        sample: Sample = self.current  # type: ignore[assignment]
        sample.here = True
        self._limit_burst()
        self._draw()
        return annotations

    def follow(
        self, link: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """Record the current delivery, which is sampled here or by another router."""
        if self._ended is None:
            return
        sections: Sections = self._sections
        sample: Sample = Sample(link, address, annotations)
        sample.began_us = self._now_us()
        sample.streaming = bool(transfer.more)
        # without the annotations, because routers add to them
        sample.size = transfer.end - transfer.start - (sections.rest - sections.head)
        sample.priority = address.priority if address.priority >= 0 else sections.priority(transfer)
        self.current = sample

    # ---- outcomes
    def went_out(self, sample: Sample, out: RouterLink) -> None:
        """Record an outgoing link of the delivery."""
        sample.outs.append(out)
        if not sample.sent_us:
            sample.sent_us = self._now_us() if sample.waits else sample.began_us

    def frame_handled(self, link: RouterLink) -> None:
        """The first frame of a sampled delivery was handled: end the sample, or wait for the outcome."""
        sample: Sample = self.current  # type: ignore[assignment]
        self.current = None
        if sample.waits:
            return
        delivery: Delivery | None = None if link.transfer_settled else link.session.unsettled_in.find(link.transfer_id)
        if sample.outcome:
            self.end(sample, sample.outcome)
        elif delivery is not None:
            delivery.sample = sample
        else:  # sent settled: by the sender, or because the consumer requested it
            self.end(sample, PRESETTLED if link.transfer_settled else OUTCOME_NAMES[ACCEPTED_CODE])

    def end_of(self, delivery: Delivery, outcome: str) -> None:
        """Report the outcome of a sampled delivery."""
        sample: Sample = delivery.sample
        delivery.sample = None
        self.end(sample, outcome)

    def end(self, sample: Sample, outcome: str) -> None:
        """Report the outcome of a sample."""
        if self._ended is not None:
            self._ended(sample, outcome, self._now_us())

    def _now_us(self) -> cython.longlong:
        assert self._clock is not None
        ns: cython.longlong = self._clock()
        return ns // 1000
