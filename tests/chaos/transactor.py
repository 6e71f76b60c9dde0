"""A client's link whose messages are sent in transactions, which the client commits or aborts."""

from __future__ import annotations

from typing import Any, Protocol

from tests.chaos.client import Client, Task
from tests.chaos.events import ABORTED, COMMITTED, Concluded, Sent
from tests.chaos.library import Connected, SendingLink
from tests.chaos.workload import Transacts


class TransactingLink(SendingLink, Protocol):
    """A link with a controller beside it. It calls `on_declared` and `on_concluded` of its task."""

    def declare(self) -> None:
        """Begin a transaction; `send` is then within it."""

    def conclude(self, commit: bool) -> None:
        """End it."""


class TransactingConnection(Connected, Protocol):
    """A connection whose library has transactions."""

    def transacting_sender(self, task: Transactor) -> TransactingLink:
        """Attach to the address of the task."""


class Transactor(Task):
    """One transaction after the other."""

    sender = True

    def __init__(self, client: Client, plan: Transacts, number: int) -> None:
        super().__init__(client, plan.address, number)
        self._plan = plan
        self._count = 0
        self._transactions = 0
        self._open = ""
        """The transaction that has no end yet."""

    def create(self, connection: Any) -> None:
        self.link: TransactingLink = connection.transacting_sender(self)

    def begin(self) -> None:
        self._count = 0

    def tick(self, now: float) -> None:
        """Begin one when there is none, and all its messages can be sent."""
        if not self._open and self.group.sending and self.link.credit >= self._plan.messages:
            self._transactions += 1
            self._open = f"{self.name}/{self._transactions}"
            self.link.declare()

    def on_flow(self) -> None:
        """The router told its credit."""

    def on_declared(self) -> None:
        """Send its messages, and end it."""
        if not self.attached:
            return
        now = self.around.now()
        for _ in range(self._plan.messages):
            message = f"{self.name}:{self._count}"
            words = {"message": message, "from": self.client.name, "at": now, "size": self.client.rng.randrange(100)}
            self.group.events.append(Sent(now, self.name, message, self._count, transaction=self._open))
            self._count += 1
            self.link.send(words, 4)
        self.link.conclude(self.client.rng.randrange(self._plan.aborted) > 0)

    def on_concluded(self, committed: bool) -> None:
        """Its end is known."""
        if self.attached:
            state = COMMITTED if committed else ABORTED
            self.group.events.append(Concluded(self.around.now(), self.name, self._open, state))
        self._open = ""

    def forget(self) -> None:
        self._open = ""

    def is_done(self) -> bool:
        return not self._open
