"""Runs every input that ever failed, and the seeds, again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.driver import CORPUS
from tests.fuzz.mutate import mutate
from tests.fuzz.parties import EDGE, Parties
from tests.fuzz.renewed import Renewed
from tests.fuzz.targets import Engine, target

INPUTS = sorted(CORPUS.iterdir())


@pytest.mark.parametrize("path", INPUTS, ids=lambda p: p.name)
def test_corpus(path: Path) -> None:
    target(path.name.split("-")[0])(path.read_bytes())


@pytest.mark.parametrize("seed", range(12))  # about half a minute of CPU for each engine
def test_whatever_a_rogue_sends_no_other_party_loses_anything(seed: int) -> None:
    rng = random.Random(seed)
    pool = [p.read_bytes() for p in INPUTS if p.name.startswith("parties")]
    parties = Renewed(Parties)
    for _ in range(1500):
        parties(mutate(rng, pool))


@pytest.mark.parametrize("name", ["engine", "config"])
def test_some_fresh_mutations(name: str) -> None:
    rng = random.Random(7)
    pool = [p.read_bytes() for p in INPUTS if p.name.startswith(name)]
    run: Callable[[bytes], None] = target(name)
    for _ in range(150):
        run(mutate(rng, pool))


def test_a_broken_promise_is_a_finding() -> None:
    engine = Renewed(Engine)
    core: Any = engine.target.hub.handler
    core.addresses["M0left"] = core.addresses["M0q"]
    with pytest.raises(Exception, match="addresses left"):
        engine(b"\x03")


def test_a_lost_link_of_a_party_is_a_finding() -> None:
    parties = Renewed(Parties)
    broker = parties.target.broker
    broker.detach(parties.target.of_broker("queue/in"))
    with pytest.raises(Exception, match="queue/in"):
        parties(bytes((5,)) + EDGE)
