"""Fixtures of the interop tests: the client programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop import programs

MAKERS: dict[str, Callable[[], programs.Program]] = {"rhea": programs.rhea, "go_amqp": programs.go_amqp}


@pytest.fixture
def rhea() -> Iterator[programs.Program]:
    """The client program on rhea."""
    program = programs.rhea()
    yield program
    program.end()


@pytest.fixture
def go_amqp() -> Iterator[programs.Program]:
    """The client program on go-amqp."""
    program = programs.go_amqp()
    yield program
    program.end()


@pytest.fixture(params=sorted(MAKERS))
def program(request: pytest.FixtureRequest) -> Iterator[programs.Program]:
    """Each client program."""
    made = MAKERS[request.param]()
    yield made
    made.end()
