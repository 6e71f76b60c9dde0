"""Whether messages get through from each producer again, seen from the outside; requests, when their replies come."""

from __future__ import annotations

import math

from tests.chaos.workload import TERMS, Plan, Receives, Replies, Sends, Transacts

ORIGINS = {bound: address for address, copied in TERMS.exchanges.items() for bound in copied}
"""The exchanges that send to these addresses."""


class Through:
    """For each producer's link, and with multicast for each consumer, when its last message that came was sent."""

    def __init__(self, plans: dict[str, Plan]) -> None:
        self._latest: dict[tuple[str, str, str], float] = {}
        """By producer, address, and consumer ("" where any one of them will do)."""
        for name, plan in plans.items():
            for link in plan.links:
                if isinstance(link, Sends | Transacts) and not isinstance(link, Replies):
                    for consumer in self._wanted(plans, link.address):
                        self._latest[name, link.address, consumer] = -math.inf

    @staticmethod
    def _wanted(plans: dict[str, Plan], address: str) -> list[str]:
        if address not in TERMS.multicast:
            return [""]
        return [
            name
            for name, plan in plans.items()
            if any(isinstance(link, Receives) and link.address == address for link in plan.links)
        ]

    def note(self, producer: str, address: str, consumer: str, sent_at: float) -> None:
        """A message has come; one that was not sent to this address is the checker's business."""
        address = ORIGINS.get(address, address)
        key = (producer, address, consumer if address in TERMS.multicast else "")
        if key in self._latest:
            self._latest[key] = max(self._latest[key], sent_at)

    def missing(self, since: float) -> list[str]:
        """Ways on which nothing has come that was sent since then."""
        return [" ".join(key) for key, at in self._latest.items() if at < since]
