"""Small byte budgets with random clients: all bytes are counted, and consumers with credit get all messages."""

from __future__ import annotations

import random

import pytest

from tests.model.test_core_state_machine import ADDRESSES, NOWHERE, OUTCOMES, CoreMachine

LIMITS = ((700, 1 << 40, 600), (1 << 40, 600, 500), (1 << 40, 1 << 40, 300), (900, 800, 700))
"""Bytes that may wait in the router, for a connection and for a link."""
STEPS = 120


class Dice:
    """Clients that send much, in pieces, and consumers that give little credit."""

    def __init__(self, seed: int, limits: tuple[int, int, int]) -> None:
        self.rng = random.Random(seed)
        self.machine = CoreMachine()
        self.machine.core.budget.set_limits(*limits)
        self.braked = 0
        for _ in range(3):
            self.machine.connect(self.rng.choice((1, 2, 1000)), None, False)
            for _ in range(2):
                self.machine.attach_producer(self.which(), self.rng.choice((*ADDRESSES, None)))
                self.attach_consumer()

    def which(self) -> int:
        return self.rng.randrange(100)

    def attach_consumer(self) -> None:
        self.machine.attach_consumer(
            self.which(), self.rng.choice(ADDRESSES), self.rng.choice((2, 2, 0, 1)), self.rng.choice((0, 0, 1))
        )

    def send(self) -> None:
        cuts = sorted(self.rng.sample(range(720), self.rng.randrange(6)))
        self.machine.send(
            self.which(), self.rng.random() < 0.3, self.rng.choice((30, 300, 700)), cuts, self.rng.random() < 0.5,
            self.rng.choice((*ADDRESSES, *ADDRESSES, NOWHERE)),
        )  # fmt: skip

    def credit(self, which: int) -> None:
        """More credit, never less: what is taken back may be used before the router knows."""
        links = self.machine.receivers()
        if links:
            amount = max(links[which % len(links)].credit, self.rng.randrange(3))
            self.machine.credit(which, amount, self.rng.random() < 0.1)

    def step(self) -> None:
        machine, which = self.machine, self.which()
        turn = self.rng.random()
        if turn < 0.4:
            if machine.producers():
                self.send()
        elif turn < 0.6:
            if any(link.open for link in machine.producers()):
                machine.go_on(which, self.rng.random() < 0.2)
        elif turn < 0.75:
            self.credit(which)
        elif turn < 0.85:
            if any(link.unsettled for link in machine.receivers()):
                machine.settle(which, self.rng.choice(sorted(OUTCOMES)), self.rng.random() < 0.5)
        elif turn < 0.91:
            if machine.live():
                machine.open_window(which)
        elif turn < 0.94:
            if machine.live():
                machine.attach_producer(which, self.rng.choice((*ADDRESSES, None)))
                self.attach_consumer()
        elif turn < 0.97:
            if machine.producers() or machine.receivers():
                machine.detach(which)
        elif turn < 0.98 and len(machine.live()) > 1:
            machine.leave(which, self.rng.choice(("end", "close", "kill")))
        else:
            machine.connect(self.rng.choice((1, 2, 1000)), None, False)

    def check(self) -> None:
        machine = self.machine
        machine.healthy_connections_stay()
        machine.nothing_arrives_twice()
        machine.counters_do_not_go_below_nothing()
        machine.what_is_counted_is_what_waits()
        self.braked += len(machine.core.budget.braked)


@pytest.mark.parametrize("limits", LIMITS)
def test_all_is_counted_and_everything_goes_on_when_consumers_come(limits: tuple[int, int, int]) -> None:
    braked = 0
    for seed in range(12):
        dice = Dice(seed, limits)
        for _ in range(STEPS):
            dice.step()
            dice.check()
        dice.machine.teardown()
        braked += dice.braked
    assert braked > 50
