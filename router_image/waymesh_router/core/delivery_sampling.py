"""Deliveries that are recorded one by one: which ones, and what became of them.

A sample is taken where a delivery comes into the mesh (head-based): its number travels in an annotation, so that every
router records the same deliveries. Link-routed deliveries are not sampled: they pass untouched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.delivery import Delivery
from waymesh_router.core.annotations import Annotations, sampled
from waymesh_router.core.model import Address, RouterLink
from waymesh_router.core.sections import Sections

if TYPE_CHECKING:
    from waymesh_router.core.core import Core

NEVER = 1 << 62
"""A gap that no router outlives."""
ADAPT_S = 1.0
SID_BITS = 62
ACCEPTED_CODE = 0x24
OUTCOMES = {ACCEPTED_CODE: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}
"""By the code of a delivery state. Spec: 3.4."""
PRESETTLED, DROPPED, LOST, SETTLED = "presettled", "dropped", "lost", "settled"
"""Without an outcome: the sender wanted none; it went nowhere and nobody was told; the sender was lost first; the
receiver settled without a word."""


@dataclass(frozen=True, slots=True)
class SamplePace:
    """On the average one delivery of `one_in`; fewer where that would be more than `per_second`."""

    one_in: int
    per_second: float


class Sample:
    """One delivery at one router. Times in microseconds of a clock that nobody sets.

    `here`: it came into the mesh at this router. `outs`: links that it went out on. `waits`: the record of the slow way
    has it.
    """

    def __init__(self, link: RouterLink, address: Address, annotations: Annotations) -> None:
        self.link = link
        self.address = address
        self.annotations = annotations
        self.began_us = 0
        self.sent_us = 0
        self.here = False
        self.presettled = bool(link.transfer_settled)
        self.priority = 0
        self.size = 0
        self.streaming = False
        self.outs: list[RouterLink] = []
        self.waits = False
        self.outcome = ""


class DeliverySampling:
    """Chooses deliveries and hands over what becomes of them.

    `clock()`: nanoseconds. `ended(sample, outcome, now_us)` is called once for each sample.
    """

    def __init__(
        self, core: Core, pace: SamplePace, clock: Callable[[], int], ended: Callable[[Sample, str, int], None]
    ) -> None:
        self._core = core
        self._pace = pace
        self._clock = clock
        self._ended: Callable[[Sample, str, int], None] | None = ended
        self._probability = 1.0 / pace.one_in
        self._taken = 0
        self._last_sid = core.rng.getrandbits(SID_BITS)
        self._seen = core.ingress
        self._seen_at = core.now
        self._draw()

    def stop(self) -> None:
        """Choose no more, and hand over nothing of what is under way."""
        self._core.until_sample = NEVER
        self._ended = None

    # ---- which ones
    def _draw(self) -> None:
        """How many deliveries on the next one to sample is: 1 for the very next."""
        gap = 1
        if self._probability < 1.0:
            gap += int(math.log(1.0 - self._core.rng.random()) / math.log1p(-self._probability))
        self._core.until_sample = gap

    def tick(self, now: float) -> None:
        """Keep to the pace. Of a gap that is cut short by another probability nothing is lost: chance has no memory.

        A time without deliveries says nothing of those that come next, so it changes nothing.
        """
        if self._ended is None or now - self._seen_at < ADAPT_S:
            return
        before, ingress = self._probability, self._core.ingress
        rate = (ingress - self._seen) / (now - self._seen_at)
        self._seen, self._seen_at, self._taken = ingress, now, 0
        if rate > 0.0:
            self._probability = min(1.0 / self._pace.one_in, 2.0 * before, self._pace.per_second / rate)
        if self._probability != before:
            self._draw()

    def _hold_back(self) -> None:
        """A sample was taken: when a burst has brought what a second may bring, the next ones are half as many."""
        self._taken += 1
        if self._taken >= self._pace.per_second * ADAPT_S:
            self._taken = 0
            self._probability /= 2.0

    def take(
        self,
        link: RouterLink,
        address: Address,
        annotations: Annotations,
        more: cython.bint,
        size: cython.Py_ssize_t,
    ) -> Annotations:
        """The delivery that begins is to be recorded; its annotations from here on."""
        if address.subscriber is not None:
            self._core.until_sample = 1  # a management request is none
            return annotations
        self._last_sid += 1  # numbers that follow each other take less room and time to compress
        annotations = sampled(annotations, self._last_sid, 1.0 / self._probability, self._core.router_id)
        self.follow(link, address, annotations, more, size)
        sample: Sample = self._core.sample
        sample.here = True
        self._hold_back()
        self._draw()
        return annotations

    def follow(
        self,
        link: RouterLink,
        address: Address,
        annotations: Annotations,
        more: cython.bint,
        size: cython.Py_ssize_t,
    ) -> None:
        """The delivery that begins is recorded since another router."""
        if self._ended is None:
            return
        sections: Sections = self._core.sections
        sample: Sample = Sample(link, address, annotations)
        sample.began_us = self._now_us()
        sample.streaming = bool(more)
        sample.size = size - (sections.rest - sections.head)  # routers add to the annotations
        sample.priority = self._core.priority
        self._core.sample = sample

    # ---- what becomes of them
    def went(self, sample: Sample, out: RouterLink) -> None:
        """It goes out on a link."""
        sample.outs.append(out)
        if not sample.sent_us:
            sample.sent_us = self._now_us() if sample.waits else sample.began_us

    def begun(self, link: RouterLink) -> None:
        """The first frame of a sampled delivery was dealt with: wait for its outcome, if it has none yet."""
        sample: Sample = self._core.sample
        self._core.sample = None
        if sample.waits:
            return
        delivery: Delivery | None = None if link.transfer_settled else link.session.unsettled_in.find(link.transfer_id)
        if sample.outcome:
            self.end(sample, sample.outcome)
        elif delivery is not None:
            delivery.sample = sample
        else:  # settled on its way out: by the sender, or because the consumer wants it so
            self.end(sample, PRESETTLED if link.transfer_settled else OUTCOMES[ACCEPTED_CODE])

    def end_of(self, delivery: Delivery, outcome: str) -> None:
        """A delivery that is recorded has its outcome."""
        sample: Sample = delivery.sample
        delivery.sample = None
        self.end(sample, outcome)

    def end(self, sample: Sample, outcome: str) -> None:
        """A sample has its outcome."""
        if self._ended is not None:
            self._ended(sample, outcome, self._now_us())

    def _now_us(self) -> cython.longlong:
        ns: cython.longlong = self._clock()
        return ns // 1000
