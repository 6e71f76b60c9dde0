"""The core set with each client program, rhea (Node.js) and go-amqp (Go), on one, two and four routers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop import core_set
from tests.interop.programs import Program
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess, section

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

ADDRESSES = "".join(
    section("address", prefix=distribution, distribution=distribution)
    for distribution in ("balanced", "closest", "multicast")
)


@pytest.fixture
def one(start_router: Callable[..., RouterProcess]) -> RouterProcess:
    return start_router(extra=ADDRESSES)


@pytest.fixture
def two(start_mesh: Callable[..., Mesh]) -> Mesh:
    return start_mesh(2, extra=ADDRESSES)


@pytest.fixture
def four(start_mesh: Callable[..., Mesh]) -> Mesh:
    """A line: A and D are three hops apart."""
    return start_mesh(4, extra=ADDRESSES)


@pytest.mark.parametrize("presettled", [False, True])
def test_one_to_one_on_one_router(program: Program, one: RouterProcess, presettled: bool) -> None:
    core_set.check_one_to_one(program, "balanced.q", one.url, one.url, presettled)


@pytest.mark.parametrize("distribution", ["balanced", "closest"])
def test_shared_on_one_router(program: Program, one: RouterProcess, distribution: str) -> None:
    core_set.check_shared(program, f"{distribution}.q", one.url, [one.url] * 3)


def test_multicast_on_one_router(program: Program, one: RouterProcess) -> None:
    core_set.check_multicast(program, "multicast.q", one.url, [one.url] * 3)


def test_outcomes_and_large_on_one_router(program: Program, one: RouterProcess) -> None:
    core_set.check_outcomes(program, "balanced.outcomes", one.url, one.url)
    core_set.check_large(program, "balanced.large", one.url, one.url)


@pytest.mark.parametrize("distribution", ["balanced", "closest"])
def test_shared_on_two_routers(program: Program, two: Mesh, distribution: str) -> None:
    core_set.check_shared(program, f"{distribution}.q", two["A"].url, [two["B"].url] * 2)


def test_the_rest_on_two_routers(program: Program, two: Mesh) -> None:
    core_set.check_multicast(program, "multicast.q", two["A"].url, [two["A"].url, two["B"].url])
    core_set.check_outcomes(program, "balanced.outcomes", two["A"].url, two["B"].url)


def test_distributions_on_four_routers(program: Program, four: Mesh) -> None:
    ends = [four["B"].url, four["D"].url]
    core_set.check_shared_by_routers(program, "balanced.q", four["A"].url, ends)
    core_set.check_shared(program, "closest.q", four["A"].url, [four["D"].url] * 2)
    core_set.check_multicast(program, "multicast.q", four["A"].url, [four["A"].url, *ends])


def test_three_hops(program: Program, four: Mesh) -> None:
    core_set.check_one_to_one(program, "balanced.one", four["A"].url, four["D"].url)
    core_set.check_outcomes(program, "balanced.outcomes", four["A"].url, four["D"].url)
    core_set.check_request_reply(program, "balanced.service", four["A"].url, four["D"].url)
    core_set.check_large(program, "balanced.large", four["A"].url, four["D"].url)
