"""The client programs against a small proton peer: a failure here is no fault of the router."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop import core_set
from tests.interop.programs import Program
from tests.interop.relay import relay

pytestmark = [pytest.mark.interop, pytest.mark.engine_independent]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with relay() as value:
        yield value


@pytest.mark.parametrize("presettled", [False, True])
def test_one_to_one(program: Program, url: str, presettled: bool) -> None:
    core_set.check_one_to_one(program, f"one.{id(program)}", url, url, presettled)


def test_outcomes(program: Program, url: str) -> None:
    core_set.check_outcomes(program, f"outcomes.{id(program)}", url, url)


def test_request_reply(program: Program, url: str) -> None:
    core_set.check_request_reply(program, f"request.{id(program)}", url, url)


def test_large(program: Program, url: str) -> None:
    core_set.check_large(program, f"large.{id(program)}", url, url)
