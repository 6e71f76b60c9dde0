"""Clients in other processes: what they write becomes events, whether they are done follows from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos import outside
from tests.chaos.client import Group
from tests.chaos.events import Answered, Outcome, Received, Sent
from tests.chaos.library import Surroundings
from tests.chaos.outside import Outside
from tests.chaos.workload import Plan, Receives, Sends
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.engine_independent

LINKS = (Sends("orders"), Receives("orders"))
PROGRAM = """
import json, sys
def write(*row): print(json.dumps(row), flush=True)
plan = json.loads(sys.argv[1])
write("Attached", 1, "c.0", "orders", True)
write("Attached", 1, "c.1", "orders", False)
write("Sent", 2, "c.0", "m", 0, False)
write("Received", 3, "c.1", "m", False)
write("Through", "c", "orders", 2.0)
for line in sys.stdin:
    if line == "finish\\n":
        write("Answered", 4, "c.1", "m", "accepted")
        write("Outcome", 5, "c.0", "m", "accepted")
        write("Problem", plan["links"][0]["address"])
    elif int(line) == 3:
        sys.exit(3)
    else:
        write("Reached", int(line))
"""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Group, Outside]]:
    monkeypatch.setitem(outside.COMMANDS, "rhea", lambda: [sys.executable, "-c", PROGRAM])
    plan = Plan("A", LINKS, program="rhea")
    group = Group({"c": plan}, 1, cast("Surroundings", None))
    one = Outside(group, "c", plan, {"port": 1}, tmp_path / "c.log")
    group.elsewhere.append(one)
    yield group, one
    one.close()


def test_a_client_elsewhere_is_done_when_it_knows_all_outcomes_and_has_answered_all(client: Any) -> None:
    group, one = client
    wait_until(group.are_attached, 60, "both links")
    group.collect()
    assert [type(event) for event in group.events[2:]] == [Sent, Received]
    assert not one.is_done()
    assert group.through.missing(2.5) == ["c orders "]
    assert group.through.missing(1.5) == []
    group.finish()
    group.collect()
    assert [type(event) for event in group.events[4:]] == [Answered, Outcome]
    assert group.are_done()
    assert group.problems == ["orders"]


def test_a_client_elsewhere_that_ended_is_no_client_that_comes_again(client: Any) -> None:
    group, one = client
    for _ in range(2):
        group.collect()
    one._say("3")
    one._process.wait(60)
    with pytest.raises(AssertionError, match="client c ended with 3"):
        group.are_attached()
