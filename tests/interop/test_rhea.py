"""The core set with rhea (Node.js), on one, two and four routers."""

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
def test_one_to_one_on_one_router(rhea: Program, one: RouterProcess, presettled: bool) -> None:
    core_set.check_one_to_one(rhea, "balanced.q", one.url, one.url, presettled)


@pytest.mark.parametrize("distribution", ["balanced", "closest"])
def test_shared_on_one_router(rhea: Program, one: RouterProcess, distribution: str) -> None:
    core_set.check_shared(rhea, f"{distribution}.q", one.url, [one.url] * 3)


def test_multicast_on_one_router(rhea: Program, one: RouterProcess) -> None:
    core_set.check_multicast(rhea, "multicast.q", one.url, [one.url] * 3)


def test_outcomes_and_large_on_one_router(rhea: Program, one: RouterProcess) -> None:
    core_set.check_outcomes(rhea, "balanced.outcomes", one.url, one.url)
    core_set.check_large(rhea, "balanced.large", one.url, one.url)


@pytest.mark.parametrize("distribution", ["balanced", "closest"])
def test_shared_on_two_routers(rhea: Program, two: Mesh, distribution: str) -> None:
    core_set.check_shared(rhea, f"{distribution}.q", two["A"].url, [two["B"].url] * 2)


def test_the_rest_on_two_routers(rhea: Program, two: Mesh) -> None:
    core_set.check_multicast(rhea, "multicast.q", two["A"].url, [two["A"].url, two["B"].url])
    core_set.check_outcomes(rhea, "balanced.outcomes", two["A"].url, two["B"].url)


def test_distributions_on_four_routers(rhea: Program, four: Mesh) -> None:
    ends = [four["B"].url, four["D"].url]
    core_set.check_shared(rhea, "balanced.q", four["A"].url, ends)
    core_set.check_shared(rhea, "closest.q", four["A"].url, [four["D"].url] * 2)
    core_set.check_multicast(rhea, "multicast.q", four["A"].url, [four["A"].url, *ends])


def test_three_hops(rhea: Program, four: Mesh) -> None:
    core_set.check_one_to_one(rhea, "balanced.one", four["A"].url, four["D"].url)
    core_set.check_outcomes(rhea, "balanced.outcomes", four["A"].url, four["D"].url)
    core_set.check_request_reply(rhea, "balanced.service", four["A"].url, four["D"].url)
    core_set.check_large(rhea, "balanced.large", four["A"].url, four["D"].url)
