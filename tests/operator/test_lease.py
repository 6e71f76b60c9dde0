"""Only one of several replicas acts; with virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.kit.virtual_time import run_in_virtual_time
from tests.operator.fake_kube import FakeKube
from waymesh_operator.errors import KubeError
from waymesh_operator.places.kubernetes.lease import GONE_PERIODS, NAME, Lease, Times

pytestmark = pytest.mark.engine_independent

QUICK = Times(duration_s=0.3, deadline_s=0.2, period_s=0.02)


def lease(kube: FakeKube, name: str) -> Lease:
    return Lease(kube, "system", name, QUICK, clock=asyncio.get_running_loop().time)


def holder(kube: FakeKube) -> str:
    return str(kube.objects["Lease", "system", NAME]["spec"]["holderIdentity"])


def within(work: Coroutine[Any, Any, Any], seconds: float = 5.0) -> Any:
    return run_in_virtual_time(asyncio.wait_for(work, seconds))


def test_lease_is_made_by_the_first_and_had_by_one_of_many_at_once() -> None:
    async def story() -> None:
        kube = FakeKube()
        many = [asyncio.create_task(lease(kube, f"r{k}").acquire()) for k in range(5)]
        done, waiting = await asyncio.wait(many, timeout=0.1)
        assert len(done) == 1
        for task in waiting:
            task.cancel()

    within(story())


def test_lease_not_renewed_goes_to_another() -> None:
    async def story() -> None:
        kube = FakeKube()
        await lease(kube, "a").acquire()
        await lease(kube, "b").acquire()
        assert holder(kube) == "b"
        assert kube.objects["Lease", "system", NAME]["spec"]["leaseTransitions"] == 1

    within(story())


def test_lease_renewed_stays_and_given_back_goes_at_once() -> None:
    async def story() -> None:
        kube = FakeKube()
        first, second = lease(kube, "a"), lease(kube, "b")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.wait({waiting}, timeout=4 * QUICK.duration_s)
        assert not waiting.done()
        assert holder(kube) == "a"
        holding.cancel()
        began = asyncio.get_running_loop().time()
        await first.release()
        await waiting
        assert asyncio.get_running_loop().time() - began < QUICK.duration_s
        assert holder(kube) == "b"

    within(story())


def test_lease_taken_by_another_is_noticed() -> None:
    async def story() -> None:
        kube = FakeKube()
        first = lease(kube, "a")
        await first.acquire()
        kube.edit("Lease", "system", NAME, lambda body: body["spec"].update(holderIdentity="thief"))
        await first.hold()
        assert holder(kube) == "thief"

    within(story())


def test_lease_that_cannot_be_renewed_is_given_up_in_time() -> None:
    async def story() -> None:
        kube = FakeKube()
        first = lease(kube, "a")
        await first.acquire()

        def down(verb: str, kind: str, name: str) -> None:
            raise KubeError(0, "no connection")

        kube.fail = down
        began = asyncio.get_running_loop().time()
        await first.hold()
        took = asyncio.get_running_loop().time() - began
        assert QUICK.deadline_s <= took < QUICK.duration_s

    within(story())


def test_lease_survives_a_short_absence_of_the_api_server() -> None:
    async def story() -> None:
        kube = FakeKube()
        first = lease(kube, "a")
        await first.acquire()
        failures = iter([True, True, False])

        def flaky(verb: str, kind: str, name: str) -> None:
            if next(failures, False):
                raise KubeError(503, "busy")

        kube.fail = flaky
        holding = asyncio.create_task(first.hold())
        await asyncio.wait({holding}, timeout=2 * QUICK.duration_s)
        assert not holding.done()
        holding.cancel()

    within(story())


def test_lease_is_given_up_in_time_when_the_api_server_refuses_and_then_does_not_answer() -> None:
    async def story() -> None:
        kube, clock = FakeKube(), asyncio.get_running_loop().time
        first = Lease(kube, "system", "a", clock=clock)
        await first.acquire()
        acquired, refusals = clock(), 0
        apply = kube.apply

        async def refused_then_silent(*given: Any, **more: Any) -> Any:
            nonlocal refusals
            if more["manager"].endswith("-b"):
                return await apply(*given, **more)
            refusals += 1
            if refusals > 3:
                await asyncio.Event().wait()
            raise KubeError(500, "busy")

        kube.apply = refused_then_silent  # type: ignore[method-assign]
        holding = asyncio.create_task(first.hold())
        second = Lease(kube, "system", "b", clock=clock)
        await second.acquire()
        assert holding.done(), "never two leaders"
        assert clock() - acquired > first.times.deadline_s
        assert refusals == 3

    within(story(), 60)


def test_lease_is_held_from_the_start_of_the_request_that_took_it() -> None:
    async def story() -> None:
        kube, clock = FakeKube(), asyncio.get_running_loop().time
        apply = kube.apply

        async def slow(*given: Any, **more: Any) -> Any:
            body = await apply(*given, **more)
            await asyncio.sleep(8)
            return body

        kube.apply = slow  # type: ignore[method-assign]
        first = Lease(kube, "system", "a", clock=clock)
        await first.acquire()
        began = clock() - 8
        kube.fail = lambda verb, kind, name: _down()
        await first.hold()
        assert clock() - began == pytest.approx(first.times.deadline_s)

    within(story(), 60)


def _down() -> None:
    raise KubeError(503, "down")


def pod(kube: FakeKube, name: str) -> None:
    kube.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "system"}})


async def time_to_acquire(kube: FakeKube) -> float:
    """How long another replica waits for the Lease, in periods."""
    clock = asyncio.get_running_loop().time
    began = clock()
    await lease(kube, "other_1").acquire()
    return (clock() - began) / QUICK.period_s


def test_lease_of_a_pod_that_is_gone_is_taken_before_it_expires() -> None:
    async def story() -> None:
        kube = FakeKube()
        await lease(kube, "first-5d9f_abc").acquire()
        assert GONE_PERIODS <= await time_to_acquire(kube) <= GONE_PERIODS + 1.5
        assert holder(kube) == "other_1"

    within(story())


@pytest.mark.parametrize("identity", ["first-5d9f_abc", "a-host-of-somebody-abc"])
def test_lease_of_a_pod_that_is_there_or_of_no_pod_expires(identity: str) -> None:
    async def story() -> None:
        kube = FakeKube()
        pod(kube, "first-5d9f")
        await lease(kube, identity).acquire()
        assert await time_to_acquire(kube) > 0.9 * QUICK.duration_s / QUICK.period_s

    within(story())


def test_lease_is_not_taken_from_a_process_whose_pod_was_deleted_by_force() -> None:
    async def story() -> None:
        kube = FakeKube()
        first = lease(kube, "first-5d9f_abc")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(lease(kube, "other_1").acquire())
        await asyncio.wait({waiting}, timeout=10 * GONE_PERIODS * QUICK.period_s)
        assert not waiting.done()
        for task in (holding, waiting):
            task.cancel()

    within(story())


def test_lease_expires_where_pods_cannot_be_listed() -> None:
    async def story() -> None:
        kube = FakeKube()
        await lease(kube, "first-5d9f_abc").acquire()

        def forbidden(verb: str, kind: str, name: str) -> None:
            if kind == "Pod":
                raise KubeError(403, "forbidden")

        kube.fail = forbidden
        assert await time_to_acquire(kube) > 0.9 * QUICK.duration_s / QUICK.period_s

    within(story())
