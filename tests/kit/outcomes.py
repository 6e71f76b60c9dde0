"""Outcomes of messages that a client sends."""

from __future__ import annotations

import threading
from typing import Any

import proton

from tests.kit.waiting import wait_until

DEADLINE_S = 60.0
STATES: dict[Any, str] = {
    proton.Delivery.ACCEPTED: "accepted",
    proton.Delivery.REJECTED: "rejected",
    proton.Delivery.RELEASED: "released",
    proton.Delivery.MODIFIED: "modified",
    proton.Delivery.RECEIVED: "received",
}


class Sent:
    """A message that was sent."""

    def __init__(self, presettled: bool) -> None:
        self.presettled = presettled
        self.state: str | None = None
        self.condition: str | None = None
        self.failed = self.undeliverable = False
        self.annotations: dict[Any, Any] | None = None
        self.settled = threading.Event()

    def outcome(self, deadline_s: float = DEADLINE_S) -> str | None:
        """Wait until the peer settled; the state it gave."""
        wait_until(self.settled.is_set, deadline_s, "settlement")
        return self.state
