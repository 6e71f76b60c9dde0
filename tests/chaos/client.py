"""One client of a run, and its links: what they do, whatever carries their frames."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.chaos.events import Answered, Attached, Credit, Event, Gone, Outcome, Received, Sent
from tests.chaos.library import Connected, Elsewhere, ReceivingLink, SendingLink, Surroundings
from tests.chaos.through import Through
from tests.chaos.workload import (
    ANSWERS,
    CONSUMER_CREDIT,
    FALLBACK,
    LARGE,
    LARGE_SHARE,
    LATE_S,
    PRIORITIES,
    Plan,
    Receives,
    Sends,
)

RETRY_S = (0.2, 1.0)
Kinds = dict[type, Callable[["Client", Any, int], "Task"]]
"""By the class of a link in a plan."""


class Group:
    """All clients of a run. `events`: what they wrote."""

    def __init__(
        self, plans: dict[str, Plan], seed: int, around: Surroundings, kinds: Kinds | None = None
    ) -> None:
        """`kinds`: what carries out kinds of links that not all libraries of clients have. Plans with a program are for
        clients elsewhere, which whoever starts them adds."""
        self.around = around
        self.kinds: Kinds = {Sends: Producer, Receives: Consumer, **(kinds or {})}
        self.events: list[Event] = []
        self.problems: list[str] = []
        """Links that a router ended, and why: no violation, but good to know."""
        self.sending = True
        self.through = Through(plans)
        self.clients = [Client(self, name, plan, seed) for name, plan in plans.items() if not plan.program]
        self.elsewhere: list[Elsewhere] = []

    def connect(self) -> None:
        """Connect all of them for the first time."""
        for client in self.clients:
            client.connect()

    def tick(self) -> None:
        """What is due, for all of them; to be called often."""
        now = self.around.now()
        for client in self.clients:
            client.tick(now)

    def finish(self) -> None:
        """Send nothing new."""
        self.sending = False
        for client in self._everyone():
            client.finish()

    def _everyone(self) -> list[Client | Elsewhere]:
        return [*self.clients, *self.elsewhere]

    def are_attached(self) -> bool:
        """Whether all clients have all their links."""
        return all(client.is_attached() for client in self._everyone())

    def are_done(self) -> bool:
        """Whether producers know all outcomes, and consumers have answered all; after `finish`."""
        return not self.sending and all(client.is_done() for client in self._everyone())

    def collect(self) -> None:
        """Wait until what clients elsewhere have written down so far is among the events."""
        for client in self.elsewhere:
            client.collect()


class Client:
    """A connection that is opened again whenever it ends."""

    def __init__(self, group: Group, name: str, plan: Plan, seed: int) -> None:
        self.group = group
        self.around = group.around
        self.name = name
        self.router = plan.router
        self.rng = random.Random(f"{seed}/{name}")
        self.connection: Connected | None = None
        self._attempt = 0
        self.tenant = plan.tenant
        self.tasks: list[Task] = [group.kinds[type(link)](self, link, number) for number, link in enumerate(plan.links)]

    def connect(self) -> None:
        """Connect, and attach all links."""
        self._attempt += 1
        self.connection = self.around.dial(self, f"{self.name}/{self._attempt}")
        for task in self.tasks:
            task.attach()

    def on_lost(self) -> None:
        """The connection has ended; no client ends one itself during a run."""
        self.connection = None
        for task in self.tasks:
            task.end(lost=True)
        self.around.after(self.rng.uniform(*RETRY_S), self.connect)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for task in self.tasks:
            if task.attached:
                task.tick(now)

    def finish(self) -> None:
        for task in self.tasks:
            task.finish()

    def is_attached(self) -> bool:
        return all(task.attached or task.comes_back for task in self.tasks)

    def is_done(self) -> bool:
        return all(task.is_done() for task in self.tasks)


class Task:
    """A link that is attached again with each connection: each time under another name."""

    sender = False
    capability = ""

    def __init__(self, client: Client, address: str, number: int) -> None:
        self.client = client
        self.group = client.group
        self.around = client.around
        self.address = address
        self.name = ""
        self.attached = False
        self.comes_back = False
        """It has detached by itself, and will attach again."""
        self._number = number
        self._attaches = 0

    def attach(self) -> None:
        """A new link on the client's connection."""
        self._attaches += 1
        self.name = f"{self.client.name}.{self._number}.{self._attaches}"
        self.comes_back = False
        assert self.client.connection is not None
        self.create(self.client.connection)

    def create(self, connection: Connected) -> None:
        """Make `link`."""
        raise NotImplementedError

    def on_attached(self) -> None:
        """The router has accepted the link."""
        if not self.attached:
            self.attached = True
            now, tenant, is_fallback = self.around.now(), self.client.tenant, self.capability == FALLBACK
            self.group.events.append(Attached(now, self.name, self.address, self.sender, tenant, is_fallback))
            self.begin()

    def begin(self) -> None:
        """The link is there."""

    def on_detached(self, error: str) -> None:
        """By the router, on its own: the client begins anew."""
        self.group.problems.append(f"{self.around.now():.3f} {self.name} of {self.address} was detached: {error}")
        self.end(lost=True)
        if self.client.connection is not None:
            self.client.connection.close()

    def end(self, *, lost: bool) -> None:
        """The link is gone."""
        if self.attached:
            self.attached = False
            self.group.events.append(Gone(self.around.now(), self.name, lost))
        self.forget()

    def forget(self) -> None:
        """Drop what belonged to the link."""

    def tick(self, now: float) -> None:
        """Do what is due."""

    def finish(self) -> None:
        """Begin nothing new."""

    def is_done(self) -> bool:
        raise NotImplementedError


class Producer(Task):
    """Sends, as often as its plan says and credit allows."""

    sender = True

    def __init__(self, client: Client, plan: Sends, number: int) -> None:
        super().__init__(client, plan.address, number)
        self._plan = plan
        self._waiting = 0
        self._count = 0
        self._due = 0.0
        self._dry = False
        """The last event of its credit says 0."""

    def create(self, connection: Connected) -> None:
        self.link: SendingLink = connection.sender(self, self._plan.settled)

    def begin(self) -> None:
        self._count, self._due = 0, self.around.now()

    def tick(self, now: float) -> None:
        """Messages that could not be sent in time are not sent later, all at once."""
        self._due = max(self._due, now - 5 / self._plan.rate)
        while self._due <= now and self.group.sending and self._waiting < self._plan.window:
            if self.link.credit <= 0:
                self._note_credit(0)
                return
            self._due += 1 / self._plan.rate
            self._send(now)

    def on_flow(self) -> None:
        """The router told its credit."""
        if self.link.credit > 0:
            self._note_credit(self.link.credit)

    def finish(self) -> None:
        """From here on it needs no credit."""
        self._note_credit(1)

    def forget(self) -> None:
        self._waiting, self._dry = 0, False

    def is_done(self) -> bool:
        return not self._waiting

    def on_outcome(self, message: str, state: str) -> None:
        """The router settled a message."""
        if self.attached:
            self.group.events.append(Outcome(self.around.now(), self.name, message, state))
            self._waiting -= 1

    def _note_credit(self, credit: int) -> None:
        if self.attached and self._dry != (credit == 0):
            self._dry = credit == 0
            self.group.events.append(Credit(self.around.now(), self.name, credit))

    def _send(self, now: float, more: dict[str, str | float] | None = None) -> None:
        """`more`: what the message has beside what all have."""
        rng = self.client.rng
        size = rng.choice(LARGE) if rng.random() < LARGE_SHARE else rng.randrange(100)
        size = self._plan.size or size
        priority = rng.choice(PRIORITIES)
        message = f"{self.name}:{self._count}"
        words: dict[str, Any] = {"message": message, "from": self.client.name, "at": now, "size": size, **(more or {})}
        way = {name: words[name] for name in ("to", "reply_to", "answers") if name in words}
        self.group.events.append(Sent(now, self.name, message, self._count, self._plan.settled, priority, **way))
        self._count += 1
        if not self._plan.settled:
            self._waiting += 1
        self.link.send(words, priority)


class Consumer(Task):
    """Receives, and answers at random, at once or a little later."""

    def __init__(self, client: Client, plan: Receives, number: int) -> None:
        super().__init__(client, plan.address, number)
        self.capability = plan.capability
        self._stays_s = plan.stays_s
        self._until = 0.0
        self._leaving = False
        self._kept: list[tuple[float, Any, str]] = []
        """Deliveries without an answer, and when they get one."""

    def create(self, connection: Connected) -> None:
        self.link: ReceivingLink = connection.receiver(self)
        self.link.flow(CONSUMER_CREDIT)

    def begin(self) -> None:
        self._until = self.around.now() + self._stays_s * self.client.rng.uniform(0.5, 1.5)
        self._leaving = False

    def tick(self, now: float) -> None:
        due = [kept for kept in self._kept if kept[0] <= now]
        if due:
            self._kept = [kept for kept in self._kept if kept[0] > now]
            for _, delivery, message in due:
                self._answer(delivery, message)
        if self._stays_s and now > self._until and self.group.sending and not self._leaving:
            self._leaving = True
            self.link.drain()
        if self._leaving and self.link.is_drained():
            self._leave()

    def _leave(self) -> None:
        """Detach. Its credit was drained, so that nothing is on its way to it; what it keeps gets no answer."""
        self.comes_back = True
        self.end(lost=False)
        self.link.close()
        self.around.after(0.5, self._again)

    def forget(self) -> None:
        self._kept = []

    def is_done(self) -> bool:
        return not self._kept

    def on_abort(self) -> None:
        """A delivery was aborted."""
        if self.attached:
            self._renew()

    def on_message(self, words: dict[str, Any], length: int, delivery: Any) -> None:
        """A message has come whole. `length`: of its body; `delivery`: None of a settled one."""
        if not self.attached:
            return
        now = self.around.now()
        message = words["message"] if length == words["size"] else f"{words['message']} damaged"
        self.group.events.append(Received(now, self.name, message, delivery is None))
        self.note(words)
        if delivery is None:
            self._renew()
        elif self.client.rng.random() < 0.8:
            self._answer(delivery, message)
        else:
            self._kept.append((now + self.client.rng.uniform(0.0, LATE_S), delivery, message))

    def note(self, words: dict[str, Any]) -> None:
        """A message gets through from its producer."""
        self.group.through.note(words["from"], self.address, self.client.name, words["at"])

    def on_damage(self, delivery: Any) -> None:
        """What has come is no message: no one has sent that."""
        if self.attached:
            self.group.events.append(Received(self.around.now(), self.name, "damaged", delivery is None))
            if delivery is None:
                self._renew()
            else:
                self._answer(delivery, "damaged")

    def _answer(self, delivery: Any, message: str) -> None:
        state = self.decide(message, self.client.rng.choices(list(ANSWERS), list(ANSWERS.values()))[0])
        self.group.events.append(Answered(self.around.now(), self.name, message, state))
        self.link.answer(delivery, state)
        self._renew()

    def decide(self, message: str, state: str) -> str:
        """The answer to a message, for which `state` was chosen."""
        return state

    def _renew(self) -> None:
        if not self._leaving:
            self.link.flow(1)

    def _again(self) -> None:
        if self.comes_back and self.client.connection is not None:
            self.attach()
