"""Random scripts at whole routers: each delivery gets its outcome, and afterwards nothing is counted or kept.

More seeds, after changes of the core: `python -m tests.simulation.random_scripts --seeds 0-299`, on both engines.
"""

from __future__ import annotations

import pytest

from tests.simulation.full.scripts import Script


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_all_is_settled_and_returned_when_clients_have_come_and_gone(first: int) -> None:
    for seed in range(first, first + 4):
        Script(seed).run(150)


def test_all_is_settled_and_returned_when_routers_and_their_connections_fail() -> None:
    for seed in range(12):
        Script(seed, storm=1.5).run(100)


@pytest.mark.parametrize("storm", [0.0, 1.5])
def test_all_is_settled_and_returned_if_messages_have_groups(storm: float) -> None:
    for seed in range(200, 208):
        Script(seed, storm, groups=5).run(120)


@pytest.mark.parametrize("storm", [0.0, 1.5])
def test_all_is_settled_and_returned_if_consumers_are_exclusive(storm: float) -> None:
    for seed in range(300, 306):
        Script(seed, storm, groups=3, exclusive=0.2).run(120)


@pytest.mark.parametrize("storm", [0.0, 1.5])
def test_all_is_settled_and_returned_if_consumers_have_priorities(storm: float) -> None:
    for seed in range(100, 108):
        Script(seed, storm, priorities=(0, 0, 5, -1)).run(120)
