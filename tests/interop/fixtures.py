"""Fixtures: the client programs on other AMQP libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop import programs

MAKERS: dict[str, Callable[[], programs.Program]] = {"rhea": programs.rhea, "go_amqp": programs.go_amqp}


@pytest.fixture(params=sorted(MAKERS))
def program(request: pytest.FixtureRequest) -> Iterator[programs.Program]:
    """Each client program."""
    made = MAKERS[request.param]()
    yield made
    made.end()
