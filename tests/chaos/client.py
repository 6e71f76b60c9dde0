"""One client of a run, and its links."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import proton
from proton.reactor import AtLeastOnce, AtMostOnce

from tests.chaos.events import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
    Answered,
    Attached,
    Credit,
    Gone,
    Outcome,
    Received,
    Sent,
)
from tests.chaos.workload import (
    ANSWERS,
    CONSUMER_CREDIT,
    LARGE,
    LARGE_SHARE,
    LATE_S,
    PRIORITIES,
    Plan,
    Receives,
    Sends,
)

if TYPE_CHECKING:
    from tests.chaos.clients import Clients

RETRY_S = (0.2, 1.0)
STATES = {
    proton.Delivery.ACCEPTED: ACCEPTED,
    proton.Delivery.REJECTED: REJECTED,
    proton.Delivery.RELEASED: RELEASED,
    proton.Delivery.MODIFIED: MODIFIED,
}
NUMBERS = {name: number for number, name in STATES.items()}


class Client:
    """A connection that is opened again whenever it ends."""

    def __init__(self, all_: Clients, name: str, plan: Plan, port: int, seed: int) -> None:
        self.all = all_
        self.name = name
        self.rng = random.Random(f"{seed}/{name}")
        self.connection: Any = None
        self.attempt = 0
        self._url = f"amqp://127.0.0.1:{port}"
        self.tasks: list[Task] = [
            Producer(self, link, number) if isinstance(link, Sends) else Consumer(self, link, number)
            for number, link in enumerate(plan.links)
        ]

    def connect(self) -> None:
        """Connect, and attach all links."""
        self.attempt += 1
        container = self.all.container
        container.container_id = f"{self.name}/{self.attempt}"
        connection: Any = container.connect(
            self._url, reconnect=False, allowed_mechs="ANONYMOUS", heartbeat=self.all.idle_s
        )
        connection.client = self
        self.connection = connection
        for task in self.tasks:
            task.attach()

    def on_lost(self) -> None:
        """The connection has ended; no client ends one itself during a run."""
        self.connection = None
        for task in self.tasks:
            task.end(lost=True)
        self.all.after(self.rng.uniform(*RETRY_S), self.connect)

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

    def __init__(self, client: Client, address: str, number: int) -> None:
        self.client = client
        self.all = client.all
        self.address = address
        self.name = ""
        self.attached = False
        self.comes_back = False
        """It has detached by itself, and will attach again."""
        self.link: Any = None
        self._number = number
        self._attaches = 0

    def attach(self) -> None:
        """A new link on the client's connection."""
        self._attaches += 1
        self.name = f"{self.client.name}.{self._number}.{self._attaches}"
        self.comes_back = False
        self.link = self.create()
        self.link.task = self

    def create(self) -> Any:
        raise NotImplementedError

    def on_attached(self) -> None:
        """The router has answered; without a terminus it refuses, and a detach follows."""
        terminus = self.link.remote_target if self.sender else self.link.remote_source
        if terminus.address is not None and not self.attached:
            self.attached = True
            self.all.events.append(Attached(time.monotonic(), self.name, self.address, self.sender))
            self.begin()

    def begin(self) -> None:
        """The link is there."""

    def on_detached(self, error: str) -> None:
        """By the router: as an answer, or on its own, after which the client begins anew."""
        if self.link.state & proton.Endpoint.LOCAL_ACTIVE:
            self.all.problems.append(f"{time.monotonic():.3f} {self.name} of {self.address} was detached: {error}")
            self.end(lost=True)
            self.link.close()
            if self.client.connection is not None:
                self.client.connection.close()

    def end(self, *, lost: bool) -> None:
        """The link is gone."""
        if self.attached:
            self.attached = False
            self.all.events.append(Gone(time.monotonic(), self.name, lost))
        self.forget()

    def forget(self) -> None:
        """Drop what belonged to the link."""

    def tick(self, now: float) -> None:
        """Do what is due."""

    def finish(self) -> None:
        """Begin nothing new."""

    def is_done(self) -> bool:
        raise NotImplementedError

    def on_flow(self) -> None:
        """The router told its credit."""

    def on_delivery(self, delivery: Any) -> None:
        """Something about a delivery has changed."""


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

    def create(self) -> Any:
        mode = AtMostOnce() if self._plan.settled else AtLeastOnce()
        return self.all.container.create_sender(self.client.connection, self.address, name=self.name, options=mode)

    def begin(self) -> None:
        self._count, self._due = 0, time.monotonic()

    def tick(self, now: float) -> None:
        """Messages that could not be sent in time are not sent later, all at once."""
        self._due = max(self._due, now - 5 / self._plan.rate)
        while self._due <= now and self.all.sending and self._waiting < self._plan.window:
            if self.link.credit <= 0:
                self._note_credit(0)
                return
            self._due += 1 / self._plan.rate
            self._send(now)

    def on_flow(self) -> None:
        if self.link.credit > 0:
            self._note_credit(self.link.credit)

    def finish(self) -> None:
        """From here on it needs no credit."""
        self._note_credit(1)

    def forget(self) -> None:
        self._waiting, self._dry = 0, False

    def is_done(self) -> bool:
        return not self._waiting

    def on_delivery(self, delivery: Any) -> None:
        if not self.attached or not delivery.updated or not delivery.settled or self._plan.settled:
            return
        state = STATES.get(delivery.remote_state, f"state {delivery.remote_state}")
        self.all.events.append(Outcome(time.monotonic(), self.name, delivery.message, state))
        self._waiting -= 1
        delivery.settle()

    def _note_credit(self, credit: int) -> None:
        if self.attached and self._dry != (credit == 0):
            self._dry = credit == 0
            self.all.events.append(Credit(time.monotonic(), self.name, credit))

    def _send(self, now: float) -> None:
        rng = self.client.rng
        size = LARGE if rng.random() < LARGE_SHARE else rng.randrange(100)
        priority = rng.choice(PRIORITIES)
        message = f"{self.name}:{self._count}"
        words = {"message": message, "from": self.client.name, "at": time.monotonic(), "size": size}
        body = proton.Message(body="x" * size, properties=words, priority=priority)
        self.all.events.append(
            Sent(words["at"], self.name, message, self._count, self._plan.settled, priority)  # type: ignore[arg-type]
        )
        self._count += 1
        delivery: Any = self.link.send(body)
        if not self._plan.settled:
            self._waiting += 1
            delivery.message = message


class Consumer(Task):
    """Receives, and answers at random, at once or a little later."""

    def __init__(self, client: Client, plan: Receives, number: int) -> None:
        super().__init__(client, plan.address, number)
        self._stays_s = plan.stays_s
        self._until = 0.0
        self._leaving = False
        self._kept: list[tuple[float, Any, str]] = []
        """Deliveries without an answer, and when they get one."""

    def create(self) -> Any:
        link = self.all.container.create_receiver(
            self.client.connection, self.address, name=self.name, options=AtLeastOnce()
        )
        link.flow(CONSUMER_CREDIT)
        return link

    def begin(self) -> None:
        self._until = time.monotonic() + self._stays_s * self.client.rng.uniform(0.5, 1.5)
        self._leaving = False

    def tick(self, now: float) -> None:
        due = [kept for kept in self._kept if kept[0] <= now]
        if due:
            self._kept = [kept for kept in self._kept if kept[0] > now]
            for _, delivery, message in due:
                self._answer(delivery, message)
        if self._stays_s and now > self._until and self.all.sending and not self._leaving:
            self._leaving = True
            self.link.drain(0)
        if self._leaving and self.link.credit == 0 and self.link.current is None:
            self._leave()

    def _leave(self) -> None:
        """Detach. Its credit was drained, so that nothing is on its way to it; what it keeps gets no answer."""
        self.comes_back = True
        self.end(lost=False)
        self.link.close()
        self.all.after(0.5, self._again)

    def forget(self) -> None:
        self._kept = []

    def is_done(self) -> bool:
        return not self._kept

    def on_delivery(self, delivery: Any) -> None:
        if not self.attached:
            return
        if delivery.aborted:
            delivery.settle()
            self._renew()
            return
        if delivery.partial or not delivery.readable:
            return
        now = time.monotonic()
        body = proton.Message()
        body.decode(self.link.recv(delivery.pending) or b"")
        self.link.advance()
        words: Any = body.properties
        whole = isinstance(body.body, str) and len(body.body) == words["size"]
        message = words["message"] if whole else f"{words['message']} damaged"
        self.all.events.append(Received(now, self.name, message, bool(delivery.settled)))
        self.all.through.note(words["from"], self.address, self.client.name, words["at"])
        if delivery.settled:
            delivery.settle()
            self._renew()
        elif self.client.rng.random() < 0.8:
            self._answer(delivery, message)
        else:
            self._kept.append((now + self.client.rng.uniform(0.0, LATE_S), delivery, message))

    def _answer(self, delivery: Any, message: str) -> None:
        state = self.client.rng.choices(list(ANSWERS), list(ANSWERS.values()))[0]
        self.all.events.append(Answered(time.monotonic(), self.name, message, state))
        if state == MODIFIED:
            delivery.local.failed = True
        delivery.update(NUMBERS[state])
        delivery.settle()
        self._renew()

    def _renew(self) -> None:
        if not self._leaving:
            self.link.flow(1)

    def _again(self) -> None:
        if self.comes_back and self.client.connection is not None:
            self.attach()
