"""What a reconcile does, in Kubernetes and in local mode alike: the same stories, with fake routers in both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest

from tests.operator.kit import NAMESPACE, Lab, lab
from waymesh_operator.errors import KubeError, WaymeshError

from .local_fakes import ADDRESS, ROUTER, Stage

pytestmark = pytest.mark.engine_independent

ADDRESSES = "router.config.address"


class Driver(Protocol):
    """A place with one mesh."""

    def put(self, size: int, *addresses: str, drift: str = "Repair", paused: bool = False) -> None:
        """Set the manifests."""

    def settle(self) -> None:
        """Reconcile until there is nothing to do."""

    def turns(self, count: int, *, failing: bool = False) -> None:
        """Reconcile a few times, one second apart; `failing`: they may fail."""

    def names(self) -> list[str]:
        """The ids of the running routers."""

    def addresses(self, router: str) -> set[str]:
        """The names of the Addresses that a router has."""

    def forget(self, router: str) -> None:
        """Remove its addresses behind the reconciler's back."""

    def refuse(self, address: str) -> None:
        """Make the routers refuse an Address."""

    def accept(self) -> None:
        """Make them accept all again."""

    def hold(self) -> None:
        """Make it impossible to start or to stop routers."""

    def let_go(self) -> None:
        """Make it possible again."""

    def unsettled(self, router: str, count: int) -> None:
        """Let it have unsettled deliveries."""

    def draining(self, router: str) -> bool:
        """Whether it was told to drain."""


class InKubernetes:
    def __init__(self, place: Lab, loop: asyncio.Runner) -> None:
        self.lab, self.loop = place, loop

    def put(self, size: int, *addresses: str, drift: str = "Repair", paused: bool = False) -> None:
        self.lab.router(size, drift=drift, paused=paused, drain={"timeoutSeconds": 5})
        for name in addresses:
            self.lab.add("Address", name, prefix=name, distribution="multicast")
        for kind, _, name in list(self.lab.kube.objects):
            if kind == "Address" and name not in addresses:
                self.lab.kube.remove(kind, NAMESPACE, name)

    def settle(self) -> None:
        self.lab.later(60)  # routers are read again
        self.loop.run(self.lab.settle())

    def turns(self, count: int, *, failing: bool = False) -> None:
        async def some() -> None:
            for _ in range(count):
                self.lab.control()
                with suppress(*([WaymeshError] if failing else [])):
                    await self.lab.turn()

        self.loop.run(some())

    def names(self) -> list[str]:
        return self.lab.mesh.names_up()

    def addresses(self, router: str) -> set[str]:
        return {name.rpartition("/")[2] for name in self.lab.live(router).names(ADDRESSES)}

    def forget(self, router: str) -> None:
        self.lab.live(router).rows[ADDRESSES].clear()

    def refuse(self, address: str) -> None:
        self.lab.mesh.refuse = lambda kind, name: "no" if name.startswith(f"k8s/{NAMESPACE}/Address/{address}") else ""

    def accept(self) -> None:
        self.lab.mesh.refuse = lambda kind, name: ""

    def hold(self) -> None:
        def fail(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("apply", "StatefulSet"):
                raise KubeError(422, "the StatefulSet is refused")

        self.lab.kube.fail = fail

    def let_go(self) -> None:
        self.lab.kube.fail = lambda verb, kind, name: None

    def unsettled(self, router: str, count: int) -> None:
        self.lab.live(router).unsettled = count

    def draining(self, router: str) -> bool:
        return bool(self.lab.live(router).router["draining"])


class InLocalMode:
    def __init__(self, folder: Path) -> None:
        self.stage = Stage(folder, _manifests(0))

    def put(self, size: int, *addresses: str, drift: str = "Repair", paused: bool = False) -> None:
        self.stage.write(_manifests(size, *addresses, drift=drift, paused=paused))

    def settle(self) -> None:
        self.stage.step(3, seconds=1)  # the entities of routers are read again
        self.stage.settle(200)

    def turns(self, count: int, *, failing: bool = False) -> None:
        self.stage.step(count, seconds=1)

    def names(self) -> list[str]:
        return self.stage.ids()

    def addresses(self, router: str) -> set[str]:
        return {name.rpartition("/")[2] for name in self.stage.network.router(router).entities[ADDRESSES]}

    def forget(self, router: str) -> None:
        self.stage.network.router(router).entities[ADDRESSES].clear()

    def refuse(self, address: str) -> None:
        for router in self.stage.network.alive():
            router.refuses.add(f"k8s/default/Address/{address}")

    def accept(self) -> None:
        for router in self.stage.network.alive():
            router.refuses.clear()

    def hold(self) -> None:
        self.stage.network.no_starts = "no process can be started"

    def let_go(self) -> None:
        self.stage.network.no_starts = ""

    def unsettled(self, router: str, count: int) -> None:
        self.stage.network.router(router).unsettled = count

    def draining(self, router: str) -> bool:
        return self.stage.network.router(router).drain_by is not None


def _manifests(size: int, *addresses: str, drift: str = "Repair", paused: bool = False) -> str:
    router = ROUTER.replace("SIZE", str(size)) + f"  drift: {drift}\n  paused: {str(paused).lower()}\n"
    return router + "".join(ADDRESS.replace("NAME", name) for name in addresses)


@contextmanager
def in_kubernetes(folder: Path) -> Iterator[Driver]:
    with lab() as place, asyncio.Runner() as loop:
        yield InKubernetes(place, loop)


@contextmanager
def in_local_mode(folder: Path) -> Iterator[Driver]:
    driver = InLocalMode(folder)
    yield driver
    driver.stage.supervisor.close()


@pytest.fixture(params=[in_kubernetes, in_local_mode], ids=["kubernetes", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    with request.param(tmp_path) as driver:
        yield driver


def test_routers_start_with_all_that_is_asked_for(place: Driver) -> None:
    place.put(3, "orders", "bills")
    place.settle()
    assert place.names() == ["mesh-0", "mesh-1", "mesh-2"]
    assert all(place.addresses(name) == {"orders", "bills"} for name in place.names())


def test_an_address_comes_and_goes_live(place: Driver) -> None:
    place.put(2, "orders")
    place.settle()
    place.put(2, "bills")
    place.settle()
    assert [place.addresses(name) for name in place.names()] == [{"bills"}, {"bills"}]


def test_what_was_removed_behind_its_back_comes_back(place: Driver) -> None:
    place.put(2, "orders")
    place.settle()
    place.forget("mesh-1")
    place.settle()
    assert place.addresses("mesh-1") == {"orders"}


def test_with_drift_report_it_stays_away_but_a_change_comes_through(place: Driver) -> None:
    place.put(2, "orders", drift="Report")
    place.settle()
    place.forget("mesh-1")
    place.settle()
    assert place.addresses("mesh-1") == set()
    place.put(2, "orders", "bills", drift="Report")
    place.settle()
    assert "bills" in place.addresses("mesh-1")


@pytest.mark.parametrize("drift", ["Repair", "Report"])
def test_what_routers_refuse_is_tried_again(place: Driver, drift: str) -> None:
    """With drift Report, too: routers have not received it yet, so that this is no drift."""
    place.put(2, drift=drift)
    place.settle()
    place.refuse("orders")
    place.put(2, "orders", "bills", drift=drift)
    place.turns(5)
    assert "orders" not in place.addresses("mesh-0")
    place.accept()
    place.turns(8)
    place.settle()
    assert all(place.addresses(name) == {"orders", "bills"} for name in place.names())


def test_routers_are_removed_when_they_are_drained(place: Driver) -> None:
    place.put(3, "orders")
    place.settle()
    place.unsettled("mesh-2", 7)
    place.put(1, "orders")
    place.turns(4)
    assert place.draining("mesh-2")
    assert "mesh-2" in place.names()
    place.unsettled("mesh-2", 0)
    place.turns(4)
    place.settle()
    assert place.names() == ["mesh-0"]


def test_a_router_that_drains_and_is_wanted_again_serves_again(place: Driver) -> None:
    place.put(2, "orders")
    place.settle()
    place.unsettled("mesh-1", 7)
    place.put(1, "orders")
    place.turns(3)
    assert place.draining("mesh-1")
    place.put(2, "orders")
    place.turns(3)
    place.settle()
    assert place.names() == ["mesh-0", "mesh-1"]
    assert not place.draining("mesh-1")


def test_a_paused_mesh_stays_as_it_is(place: Driver) -> None:
    place.put(2, "orders")
    place.settle()
    place.put(3, "bills", paused=True)
    place.turns(5)
    assert place.names() == ["mesh-0", "mesh-1"]
    assert place.addresses("mesh-0") == {"orders"}
    place.put(3, "bills")
    place.settle()
    assert place.names() == ["mesh-0", "mesh-1", "mesh-2"]
    assert place.addresses("mesh-0") == {"bills"}


def test_routers_that_cannot_be_started_hold_up_nothing_else(place: Driver) -> None:
    place.put(2, "orders")
    place.settle()
    place.hold()
    place.put(3, "bills")
    place.turns(6, failing=True)
    assert place.names() == ["mesh-0", "mesh-1"]
    assert [place.addresses(name) for name in place.names()] == [{"bills"}, {"bills"}]
    place.put(2, "bills", "orders")
    place.turns(6, failing=True)
    assert [place.addresses(name) for name in place.names()] == [{"bills", "orders"}] * 2
    place.let_go()
    place.put(3, "bills", "orders")
    place.turns(6, failing=True)
    place.settle()
    assert place.names() == ["mesh-0", "mesh-1", "mesh-2"]
    assert place.addresses("mesh-2") == {"bills", "orders"}
