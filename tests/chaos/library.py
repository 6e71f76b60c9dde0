"""What a run's clients need of a library for AMQP, and of where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.chaos.client import Client, Consumer, Producer


class SendingLink(Protocol):
    """A producer's link as the library of a client has it. It calls `on_…` of its task."""

    @property
    def credit(self) -> int:
        """What may be sent."""

    def send(self, words: dict[str, Any], priority: int) -> None:
        """A message with this map as its application-properties, and `words["size"]` letters as its body."""


class ReceivingLink(Protocol):
    """A consumer's link, likewise."""

    def flow(self, credit: int) -> None:
        """Give so much more credit."""

    def drain(self) -> None:
        """Ask for what the credit given so far allows, and give none."""

    def is_drained(self) -> bool:
        """Whether nothing more can come."""

    def answer(self, delivery: Any, state: str) -> None:
        """Settle with an outcome; `modified` as failed."""

    def close(self) -> None:
        """Detach."""


class Connected(Protocol):
    """A connection of a client, that begins to open when it is made, and calls `on_lost` of its client at its end."""

    def sender(self, task: Producer, settled: bool) -> SendingLink:
        """Attach to the address of the task."""

    def receiver(self, task: Consumer) -> ReceivingLink:
        """Attach to the address of the task."""

    def close(self) -> None:
        """Close it."""


class Surroundings(Protocol):
    """Where clients run: their clock and library."""

    def now(self) -> float:
        """Seconds of a monotonic clock."""

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call it later."""

    def dial(self, client: Client, container_id: str) -> Connected:
        """A new connection to the client's router."""


class Elsewhere(Protocol):
    """A client that is not in this process, with the plan of one."""

    def finish(self) -> None:
        """Send nothing new."""

    def is_attached(self) -> bool:
        """Whether all its links are there. Raises AssertionError if it never will be."""

    def is_done(self) -> bool:
        """Whether it knows all outcomes and has answered all, as far as it has told."""

    def collect(self) -> None:
        """Wait until what it has written down so far is among the events of its group."""

    def close(self) -> None:
        """End it."""
