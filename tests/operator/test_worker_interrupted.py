"""The operator is killed at each of its requests, once each; its successor finishes the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.operator.kit import NAMESPACE, Lab, lab, run
from waymesh_operator.errors import KubeError, WaymeshError

pytestmark = pytest.mark.engine_independent

Story = Callable[[Lab], Awaitable[None]]


class Killed(BaseException):
    """The process ends here: nothing that comes after happens."""


class Bomb:
    """Kills at the n-th request that changes something, before it is carried out, or after."""

    def __init__(self, lab: Lab, number: int, *, after: bool) -> None:
        self.left = number
        self.hit = ""
        self._after = after
        self._kube = lab.kube
        lab.kube.fail = self._at_kube
        lab.mesh.fail = self._at_router

    def _at_kube(self, verb: str, kind: str, name: str) -> None:
        if verb in ("apply", "delete", "status") and kind != "Event":
            self._count(f"{verb} {kind} {name}")

    def _at_router(self, router: str, verb: str, what: str) -> None:
        if verb in ("create", "update", "delete"):
            self._count(f"{router}: {verb} {what}")

    def _count(self, what: str) -> None:
        self.left -= 1
        if self.left == (-1 if self._after else 0):
            self.hit = what
            raise Killed(what)


async def grow(lab: Lab) -> None:
    lab.router(3)
    lab.add("Address", "orders", prefix="orders")
    await lab.settle()


async def shrink(lab: Lab) -> None:
    lab.router(1)
    await lab.settle()


async def change(lab: Lab) -> None:
    lab.add("Address", "orders", prefix="orders", distribution="multicast")
    lab.add("Address", "bills", prefix="bills")
    lab.add("AutoLink", "in", address="orders", direction="in", containerId="broker")
    lab.kube.remove("Address", NAMESPACE, "old")
    await lab.settle()


async def repair(lab: Lab) -> None:
    for kind, name in (("Service", "mesh"), ("ConfigMap", "mesh-seed"), ("StatefulSet", "mesh")):
        lab.kube.edit(kind, NAMESPACE, name, lambda body: body["metadata"].pop("labels"))
    lab.live("mesh-0").rows["router.config.address"].clear()
    lab.later(60)
    await lab.settle()


async def roll_over(lab: Lab) -> None:
    lab.router(2, tls={"issuer": "Internal", "authority": 2})
    await lab.settle()


async def small(lab: Lab) -> None:
    lab.router(2)
    lab.add("Address", "orders", prefix="orders")
    lab.add("Address", "old", prefix="old")
    await lab.settle()


async def nothing(lab: Lab) -> None:
    pass


def outcome(lab: Lab) -> dict[str, object]:
    """What users see in the end; certificates are made anew each time, so they are left out."""
    routers = {
        router.name: {kind: {name: _values(row) for name, row in rows.items()} for kind, rows in router.rows.items()}
        for router in lab.mesh.routers.values()
    }
    kinds = sorted((kind, name) for kind, _, name in lab.kube.objects if kind != "Event")
    return {
        "routers": routers,
        "objects": kinds,
        "ready": lab.condition("Ready"),
        "authority": lab.status()["tls"]["authority"],
        "phase": lab.status()["tls"]["phase"],
    }


def _values(row: dict[str, object]) -> dict[str, object]:
    passing = ("name", "draining", "drainTimeoutSeconds", "drainStatus", "unsettledDeliveries")
    return {name: value for name, value in row.items() if name not in passing}


async def interrupted(lab: Lab, before: Story, story: Story, number: int, *, after: bool) -> str:
    """Run the story with a bomb; returns what was hit, nothing when the story had less requests."""
    await before(lab)
    bomb = Bomb(lab, number, after=after)
    try:
        await story(lab)
    except Killed:
        lab.kube.fail = lambda verb, kind, name: None
        lab.mesh.fail = lambda router, verb, what: None
        lab.anew()
        await lab.settle(80)
    return bomb.hit


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("before", "story"),
    [(nothing, grow), (grow, shrink), (small, change), (small, repair), (small, roll_over)],
    ids=["grow", "shrink", "change", "repair", "roll-over"],
)
def test_interrupted_at_every_request_the_next_operator_finishes(before: Story, story: Story, after: bool) -> None:
    async def undisturbed(lab: Lab) -> None:
        await before(lab)
        await story(lab)
        expected.update(outcome(lab))

    async def disturbed(lab: Lab) -> None:
        hit.append(await interrupted(lab, before, story, len(hit) + 1, after=after))
        assert outcome(lab) == expected, f"interrupted at {hit[-1]}"

    expected: dict[str, object] = {}
    hit: list[str] = []
    run(undisturbed)
    while not hit or hit[-1]:
        run(disturbed)
    assert len(hit) > 3


def test_interrupted_never_loses_an_authority_that_signs() -> None:
    """At each moment of a roll-over every certificate in use is trusted by all (the Secrets change in steps)."""

    async def story(lab: Lab) -> None:
        await small(lab)
        lab.router(2, tls={"issuer": "Internal", "authority": 2})
        phases: list[str] = []
        for _ in range(20):
            lab.control()
            await lab.turn()
            phase = lab.status()["tls"]["phase"]
            if not phases or phases[-1] != phase:
                phases.append(phase)
        assert phases[-1] == "Stable"
        assert lab.status()["tls"]["authority"] == 2

    run(story)


def test_interrupted_by_an_api_server_that_fails_now_and_then() -> None:
    async def story(lab: Lab) -> None:
        count = 0

        def flaky(verb: str, kind: str, name: str) -> None:
            nonlocal count
            count += 1
            if count % 3 == 0 and count < 60:
                raise KubeError(503, "the server is busy")

        lab.kube.fail = flaky
        lab.router(2)
        for _ in range(60):
            lab.control()
            try:
                await lab.turn()
            except WaymeshError:
                continue
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_interrupted_labs_leave_no_key_behind() -> None:
    with lab() as one:
        folder = one.world.keys.folder
    assert not folder.exists()
