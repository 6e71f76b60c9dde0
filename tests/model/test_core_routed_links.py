"""Clients and a broker behind a link route that attach, send, settle, detach and leave at random."""

from __future__ import annotations

import random

import pytest

from tests.model.broker import ROUTED
from tests.model.test_core_state_machine import OUTCOMES, CoreMachine
from waymesh_router.core import portions as core_portions
from waymesh_router.core.settlement import interruptions

SEEDS = 40
STEPS = 150
RULES = {
    "attach_producer": 4, "attach_consumer": 4, "send": 24, "go_on": 8, "settle_as_sender": 1, "credit": 6, "settle": 8,
    "open_window": 3, "detach": 2, "leave": 1, "broker_credit": 10, "broker_settle": 8, "broker_send": 14,
    "broker_detach": 1, "broker_comes_or_goes": 1,
}  # fmt: skip
"""How often each is tried."""
LIMITS = (1 << 40, 1 << 40, 1 << 40)


class Dice:
    """What happens next."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.machine = CoreMachine()
        self.machine.core.budget.set_limits(*self.rng.choice((LIMITS, LIMITS, (900, 800, 700))))
        self.machine.broker_comes_or_goes(99, "")

    def connect(self) -> None:
        """A client with a link in each direction."""
        self.machine.connect(self.rng.choice((2, 1000)), self.rng.choice((None, 512)), False)
        self.machine.attach_producer(len(self.machine.live()) - 1, ROUTED)
        self.machine.attach_consumer(len(self.machine.live()) - 1, ROUTED, self.rng.choice((0, 1, 2)), 3)

    def step(self) -> None:
        if len(self.machine.live()) < 3 or (self.machine.routes.broker() is None and self.rng.random() < 0.3):
            if self.machine.routes.broker() is None:
                self.machine.broker_comes_or_goes(99, "")
            self.connect()
        if self.rng.random() < 0.5:
            self.machine.core.context.portions.run()
        name = self.rng.choices(list(RULES), list(RULES.values()))[0]
        if self.may(name):
            getattr(self.machine, name)(*self.arguments(name))

    def may(self, name: str) -> bool:
        """The preconditions of the rules."""
        machine = self.machine
        needed = {
            "send": machine.producers(),
            "go_on": [k for k in machine.producers() if k.open],
            "settle_as_sender": [k for k in machine.producers() if k.waiting],
            "credit": machine.receivers(),
            "settle": [k for k in machine.receivers() if k.unsettled],
            "detach": machine.producers() + machine.receivers(),
            "broker_credit": machine.routes.links(True),
            "broker_settle": machine.routes.unsettled(),
            "broker_send": machine.routes.links(False),
            "broker_detach": machine.routes.links(None),
        }
        return bool(needed.get(name, [True]))

    def arguments(self, name: str) -> tuple[object, ...]:
        rng, which = self.rng, self.rng.randrange(100)
        cuts = sorted(rng.sample(range(720), rng.randrange(4)))
        of_rule: dict[str, tuple[object, ...]] = {
            "attach_producer": (ROUTED,),
            "attach_consumer": (ROUTED, rng.choice((0, 1, 2)), rng.randrange(5)),
            "send": (rng.random() < 0.3, rng.choice((30, 700)), cuts, rng.random() < 0.7, "nowhere"),
            "go_on": (rng.random() < 0.2,),
            "credit": (rng.randrange(7), rng.random() < 0.2),
            "settle": (rng.choice(sorted(OUTCOMES)), rng.random() < 0.5),
            "leave": (rng.choice(("end", "close", "kill")),),
            "broker_credit": (rng.randrange(7),),
            "broker_settle": (rng.choice(sorted(OUTCOMES)), rng.random() < 0.5),
            "broker_send": (rng.random() < 0.3, rng.choice((30, 700)), rng.randrange(1, 4)),
            "broker_comes_or_goes": (rng.choice(("close", "kill")),),
        }
        return which, *of_rule.get(name, ())

    def check(self) -> None:
        machine = self.machine
        machine.healthy_connections_stay()
        machine.nothing_arrives_twice()
        machine.routed_links_keep_the_order()
        machine.counters_do_not_go_below_nothing()
        machine.what_is_counted_is_what_waits()


@pytest.mark.parametrize("portions", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_links_of_a_route(seed: int, portions: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`portions`: the deliveries of a lost link end in portions, however few they are."""
    if portions:
        monkeypatch.setattr(interruptions, "AT_ONCE", 0)
        monkeypatch.setattr(core_portions, "COST_A_TURN", 1)
    dice = Dice(seed)
    for _ in range(STEPS):
        dice.step()
        dice.check()
    dice.machine.teardown()


def test_much_happens() -> None:
    """The seeds are no good if hardly a message is sent or a link lost."""
    got = sent = ended = 0
    for seed in range(8):
        dice = Dice(seed)
        for _ in range(STEPS):
            dice.step()
        dice.machine.teardown()
        got += len(dice.machine.routes.got())
        sent += sum(len(consumer.got) for consumer in dice.machine.consumers)
        ended += sum(not link.alive for broker in dice.machine.routes.brokers for link in broker.links)
    assert min(got, sent, ended) > 50, (got, sent, ended)
