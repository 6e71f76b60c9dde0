"""Sampling over several routers: samples agree with the sent messages, within statistical limits."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED
from tests.simulation.full.test_full_telemetry import Pair, line, rows

BATCH = 50
DELAYS = {"accepted": (ACCEPTED, 0.05), "rejected": (REJECTED, 0.2)}
"""How a consumer answers, and how long it takes for it, in seconds."""
CABLES_S = 0.004
"""There and back over two cables."""


def exchange(pair: Pair, outcome: str) -> None:
    """A batch of deliveries that are answered alike."""
    state, delay = DELAYS[outcome]
    done = len(pair.receiver.got)
    for _ in range(BATCH):
        pair.near.send(pair.sender, message(b"x"))
    pair.network.until(lambda: len(pair.receiver.got) == done + BATCH, 5.0)
    pair.network.run(delay)
    for got in pair.receiver.got[done:]:
        pair.far.settle(got, state)
    pair.network.until(lambda: len(pair.sender.outcomes) == done + BATCH, 5.0)


@pytest.mark.parametrize("per_second", [1_000_000, 20], ids=["one in ten", "held back"])
def test_samples_of_a_mesh_stand_for_what_was_sent(per_second: int) -> None:
    network = line("ABC", one_in=10, more=f"samplesPerSecond: {per_second}\n")
    pair = Pair(network)
    sent: Counter[str] = Counter()
    for number in range(60):
        outcome = "rejected" if number % 3 == 0 else "accepted"
        exchange(pair, outcome)
        sent[outcome] += BATCH
    a, b, c = network.routers.values()
    ins = {row["sid"]: row for row in rows(a, "delivery", half="in")}
    outs = {row["sid"]: row for row in rows(c, "delivery", half="out")}
    assert len(ins) == len(rows(a, "delivery"))
    assert len(outs) == len(rows(c, "delivery"))
    assert rows(b, "delivery") == []
    assert ins.keys() == outs.keys(), "every router records the same deliveries"
    for sid, one in ins.items():
        other = outs[sid]
        assert (one["weight"], one["outcome"], one["size"]) == (other["weight"], other["outcome"], other["size"])
        delay = DELAYS[one["outcome"]][1]
        assert delay <= other["settle_us"] / 1e6 < delay + 0.01
        assert CABLES_S <= (one["settle_us"] - other["settle_us"]) / 1e6 < CABLES_S + 0.01
    for outcome, count in sent.items():
        weights = [row["weight"] for row in ins.values() if row["outcome"] == outcome]
        scatter = math.sqrt(sum(weight * (weight - 1) for weight in weights))
        assert abs(sum(weights) - count) < 4 * scatter, f"{outcome}: {sum(weights)} of {count}"
