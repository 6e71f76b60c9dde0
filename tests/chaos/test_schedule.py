"""Schedules are the same for the same seed, have all kinds of faults, and come back from a file."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.chaos.mesh import shape
from tests.chaos.schedule import APART_KINDS, ROUTER_KINDS, TLS_KINDS, WIRE_KINDS, from_rows, schedule, text, to_rows
from tests.chaos.workload import PLANS

pytestmark = pytest.mark.engine_independent

SHAPE = shape(PLANS)


def test_a_seed_always_gives_the_same_faults() -> None:
    assert schedule(7, 300, SHAPE, 8) == schedule(7, 300, SHAPE, 8)
    assert schedule(7, 300, SHAPE, 8) != schedule(8, 300, SHAPE, 8)
    assert schedule(7, 900, SHAPE, 8)[:5] == schedule(7, 300, SHAPE, 8)[:5]


def test_all_kinds_and_targets_occur() -> None:
    faults = list(itertools.chain(*schedule(1, 20000, SHAPE, 8)))
    assert {fault.kind for fault in faults} == {*ROUTER_KINDS, *WIRE_KINDS}
    assert {fault.target for fault in faults} == {*SHAPE.routers, *SHAPE.mesh_wires, *SHAPE.client_wires}
    assert any(fault.kind == "hold" and fault.seconds > 8 for fault in faults)
    assert all(1.0 <= fault.seconds <= 10.0 for fault in faults if fault.kind == "pause")


def test_all_kinds_of_a_network_of_its_own_occur() -> None:
    wide = shape(PLANS, ("broker-1", "broker-2"), apart=True)
    faults = list(itertools.chain(*schedule(1, 20000, wide, 8)))
    assert {fault.kind for fault in faults} == {*ROUTER_KINDS, *WIRE_KINDS, *APART_KINDS}
    assert {fault.target for fault in faults if fault.kind == "partition"} == set(wide.routers)
    assert {fault.target for fault in faults if fault.kind == "kill"} == {*wide.routers, *wide.brokers}
    assert any(fault.kind == "clock" and fault.amount < 0 for fault in faults)
    assert {fault.way for fault in faults if fault.kind == "half-open" and fault.target in wide.brokers} == {"there"}


def test_all_kinds_of_faults_of_certificates_occur() -> None:
    faults = list(itertools.chain(*schedule(1, 20000, shape(PLANS, tls=True), 8)))
    assert {fault.kind for fault in faults} == {*ROUTER_KINDS, *WIRE_KINDS, *TLS_KINDS}
    assert {fault.target for fault in faults if fault.kind == "expire"} == {*SHAPE.routers, "all"}
    assert all(fault.seconds for fault in faults if fault.kind in TLS_KINDS)


def test_a_round_has_one_fault_of_a_target() -> None:
    for planned in schedule(1, 2000, SHAPE, 8):
        targets = [fault.target for fault in planned]
        assert 1 <= len(targets) == len(set(targets)) <= 3


def test_schedules_come_back_from_a_file() -> None:
    rounds = schedule(3, 600, SHAPE, 8)
    assert from_rows(json.loads(json.dumps(to_rows(rounds)))) == rounds
    with pytest.raises(TypeError):
        from_rows([[{"at": 0, "kind": "cut", "target": "B-A", "colour": 1}]])


def test_schedules_are_printed_a_round_a_line() -> None:
    rounds = schedule(3, 600, SHAPE, 8)
    assert len(text(rounds).splitlines()) == len(rounds)
