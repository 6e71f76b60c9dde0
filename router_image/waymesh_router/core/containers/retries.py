"""Autolinks for which something is due: those that failed are tried again, those that were refused are ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_router.core.portions import Rounds

if TYPE_CHECKING:
    from waymesh_router.core.containers.autolink import AutoLinkEnd
    from waymesh_router.core.core_context import CoreContext

REFUSED_S = 2.0
"""Time for a container that refuses a link to detach it with an error."""
LOOK_COST, ATTACH_COST = 1, 10
"""Of an autolink that needs nothing, and of one whose link is attached or ended, see `Portions`."""


class Retries:
    """Failed ends of autolinks, which `attach` attaches again, and refused ones, each as long as it is not forgotten.

    A container may refuse thousands of them: they are looked at in portions, when the first one is due.
    """

    def __init__(self, context: CoreContext, attach: Callable[[AutoLinkEnd], object]) -> None:
        self._context = context
        self._attach = attach
        self._failed: dict[AutoLinkEnd, None] = {}
        self._refused: set[AutoLinkEnd] = set()
        self._deadlines: dict[AutoLinkEnd, float] = {}  # of refused ones, for the container's detach; oldest first
        self._next = math.inf  # no failed end is due before
        self._retries = Rounds(context.portions, "failed autolinks", self._failed, self._retry_if_due)
        self._ends = Rounds(context.portions, "refused autolinks", self._deadlines, self._end_if_due)

    def failed(self, end: AutoLinkEnd) -> None:
        """Attach the link again at `retry_at`."""
        self._failed[end] = None
        self._next = min(self._next, end.retry_at)

    def refused(self, end: AutoLinkEnd) -> None:
        """The container has refused the link: a detach with its reason should follow."""
        self._refused.add(end)
        self._deadlines[end] = self._context.now + REFUSED_S

    def was_refused(self, end: AutoLinkEnd) -> bool:
        """Whether the container refused the link that is now detached."""
        found = end in self._refused
        self._end_refusal(end)
        return found

    def forget(self, end: AutoLinkEnd) -> None:
        """Cancel the retry and the expected detach of this end."""
        self._failed.pop(end, None)
        self._end_refusal(end)

    def _end_refusal(self, end: AutoLinkEnd) -> None:
        self._refused.discard(end)
        self._deadlines.pop(end, None)

    def tick(self, now: float) -> None:
        """Do what is due; to be called several times a second."""
        if now >= next(iter(self._deadlines.values()), math.inf):
            self._ends.begin()
        if now >= self._next:
            self._next = math.inf
            self._retries.begin()

    def _retry_if_due(self, end: AutoLinkEnd) -> int:
        if end not in self._failed:
            return LOOK_COST
        if self._context.now < end.retry_at:
            self._next = min(self._next, end.retry_at)
            return LOOK_COST
        self._attach(end)
        return ATTACH_COST

    def _end_if_due(self, end: AutoLinkEnd) -> int:
        if self._context.now < self._deadlines.get(end, math.inf):
            return LOOK_COST
        del self._deadlines[end]
        if end.link is not None:
            end.link.detach()
        return ATTACH_COST
