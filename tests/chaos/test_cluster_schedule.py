"""Schedules for a real cluster are the same for the same seed, and have all kinds of faults."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.chaos.cluster_schedule import ALL, AWAY, CLUSTER_KINDS, NEED_API, POD_KINDS, PODS, SIZES, cluster_schedule
from tests.chaos.schedule import WIRE_KINDS, from_rows, text, to_rows
from tests.chaos.workload import PLANS

pytestmark = pytest.mark.engine_independent


def test_a_seed_always_gives_the_same_faults() -> None:
    rounds = cluster_schedule(7, 300, PLANS, 8)
    assert rounds == cluster_schedule(7, 300, PLANS, 8) == from_rows(json.loads(json.dumps(to_rows(rounds))))
    assert rounds != cluster_schedule(8, 300, PLANS, 8)
    assert len(text(rounds).splitlines()) == len(rounds)


def test_all_kinds_and_targets_occur() -> None:
    faults = list(itertools.chain(*cluster_schedule(1, 20000, PLANS, 8)))
    assert {fault.kind for fault in faults} == {*POD_KINDS, *CLUSTER_KINDS, *WIRE_KINDS}
    assert {fault.target for fault in faults} == {*PODS, *PLANS, ALL}
    assert {fault.way for fault in faults if fault.kind == "partition"} == {"both", "there", "back"}
    assert {fault.amount for fault in faults if fault.kind == "scale"} == set(SIZES)


def test_a_round_needs_no_api_server_that_it_stops() -> None:
    for planned in cluster_schedule(1, 20000, PLANS, 8):
        kinds = {fault.kind for fault in planned}
        assert not (kinds & AWAY and kinds & NEED_API)
        assert 1 <= len(planned) == len({fault.target for fault in planned}) <= 3
