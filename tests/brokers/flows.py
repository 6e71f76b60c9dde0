"""Clients that continue after losses: a producer and a consumer that record the outcome of each message."""

from __future__ import annotations

import threading
from collections.abc import Callable

import proton

from tests.kit.clients import Client, Received, Receiver, Sender
from tests.kit.outcomes import STATES, Sent
from tests.kit.waiting import wait_until

FLOW_S = 120.0
"""A broker that is started again meanwhile has a good part of it to start."""
WINDOW = 50


class Flow:
    """One client in a thread of its own: `finish` waits for its end and gives its failure, if any."""

    def __init__(self, url: str, address: str, count: int) -> None:
        self.url = url
        self.address = address
        self.count = count
        self.stop = threading.Event()
        """The test is over: give up."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=f"flow {address}")
        self._thread.start()

    def run(self) -> None:
        """What it does."""
        raise NotImplementedError

    def under_way(self) -> bool:
        """Whether it has done a good part of its work, or failed."""
        return self._failure is not None or 3 * self.done() > self.count

    def done(self) -> int:
        """How many messages are done with."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for its end."""
        self._thread.join(FLOW_S)
        self.stop.set()
        self._thread.join()
        if self._failure is not None:
            raise AssertionError(f"{type(self).__name__} {self.address}") from self._failure

    def wait(self, predicate: Callable[[], object], what: str) -> None:
        """Wait for long; at once over when the test is."""
        wait_until(lambda: self.stop.is_set() or predicate(), FLOW_S, lambda: f"{self.address}: {what}")
        assert not self.stop.is_set(), f"{self.address}: given up while it waited for {what}"

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as e:  # noqa: BLE001 - handed to the test
            self._failure = e


class Producer(Flow):
    """Sends durable messages 0, 1, 2 …; sends again whatever was not accepted, over a new link if it must."""

    def __init__(self, url: str, address: str, count: int) -> None:
        self.accepted: set[int] = set()
        self.repeated: set[int] = set()
        """Released, modified, or lost with the link: these may be there twice."""
        super().__init__(url, address, count)

    def run(self) -> None:
        """Until all are accepted."""
        missing = list(range(self.count))
        with Client(self.url) as client:
            while missing:
                sender = client.sender(self.address)
                self._send_over(sender, missing)
                missing = [number for number in range(self.count) if number not in self.accepted]
                self.repeated.update(missing)

    def done(self) -> int:
        """How many were accepted."""
        return len(self.accepted)

    def _send_over(self, sender: Sender, numbers: list[int]) -> None:
        """Send these until the link is lost."""
        waiting: dict[int, Sent] = {}
        at = 0
        while at < len(numbers) and not sender.detached.is_set():
            self.wait(lambda: sender.detached.is_set() or self._may_send(sender, waiting), "credit")
            chosen = numbers[at : at + WINDOW - len(waiting)]
            sent = sender.send_some([proton.Message(body=number, durable=True) for number in chosen])
            waiting.update(zip(chosen, sent))
            at += len(sent)
            self._note(waiting)
        self.wait(lambda: self._note(waiting) or sender.detached.is_set(), "outcomes")
        self._note(waiting)
        if not sender.detached.is_set():
            sender.close()

    def _may_send(self, sender: Sender, waiting: dict[int, Sent]) -> bool:
        self._note(waiting)
        return len(waiting) < WINDOW and sender.credit > 0

    def _note(self, waiting: dict[int, Sent]) -> bool:
        """Take what has an outcome out of `waiting`; whether nothing is left there."""
        for number in [number for number, sent in waiting.items() if sent.settled.is_set()]:
            if waiting.pop(number).state == "accepted":
                self.accepted.add(number)
        return not waiting


class Consumer(Flow):
    """Receives until it had each of `count` messages; accepts, and notes which acceptances the peer confirmed."""

    def __init__(self, url: str, address: str, count: int) -> None:
        self.received: set[int] = set()
        self.wrong: list[int] = []
        """Came again although the acceptance was confirmed."""
        self._confirmed: set[int] = set()
        super().__init__(url, address, count)

    def run(self) -> None:
        """Until all were received."""
        with Client(self.url) as client:
            while len(self.received) < self.count:
                self._receive_over(client.receiver(self.address, credit=WINDOW))

    def done(self) -> int:
        """How many were received."""
        return len(self.received)

    def _receive_over(self, receiver: Receiver) -> None:
        """Receive until all are there or the link is lost."""
        waiting: list[Received] = []
        while len(self.received) < self.count and not receiver.detached.is_set():
            self.wait(lambda: receiver.arrived.qsize() or receiver.detached.is_set(), "messages")
            arrived = [receiver.arrived.get() for _ in range(receiver.arrived.qsize())]
            for number in map(_number, arrived):
                if number in self._confirmed:
                    self.wrong.append(number)
                self.received.add(number)
            _accept_unsettled(receiver, arrived)
            waiting.extend(arrived)
            self._note(receiver, waiting)
        self.wait(lambda: self._note(receiver, waiting) or receiver.detached.is_set(), "confirmation")

    def _note(self, receiver: Receiver, waiting: list[Received]) -> bool:
        """Take what the peer has settled out of `waiting`; whether nothing is left there."""
        settled = _settled_by_peer(receiver, waiting)
        self._confirmed.update(_number(waiting[place]) for place, state in settled.items() if state == "accepted")
        waiting[:] = [received for place, received in enumerate(waiting) if place not in settled]
        return not waiting


def _number(received: Received) -> int:
    return int(received.message.body)  # type: ignore[arg-type]


def _accept_unsettled(receiver: Receiver, deliveries: list[Received]) -> None:
    """Say accepted, leave it to the peer to settle first, and give credit for as many more."""

    def run() -> None:
        for received in deliveries:
            received.delivery.update(proton.Delivery.ACCEPTED)
        receiver.link.flow(len(deliveries))

    receiver.client.call(run)


def _settled_by_peer(receiver: Receiver, deliveries: list[Received]) -> dict[int, str | None]:
    """Those of the deliveries that the peer has settled, by their places in the list, and its own state of each."""
    return receiver.client.call(
        lambda: {
            place: STATES.get(received.delivery.remote_state)
            for place, received in enumerate(deliveries)
            if received.delivery.settled
        }
    )
