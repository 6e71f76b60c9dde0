"""The operator goes on without what it cannot list: kinds without a definition, namespaces without rights."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import kopf
import pytest
from kubernetes.aio.client.configuration import Configuration

from tests.kit.waiting import DEADLINE_S
from tests.operator.fake_kube import FakeKube
from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.kube import Cluster, Kind, kind_of, list_present
from waymesh_operator.places.kubernetes import operator
from waymesh_operator.places.kubernetes.context import OperatorSettings
from waymesh_operator.places.kubernetes.monitoring import Metrics
from waymesh_operator.places.kubernetes.watches import WATCHED, Auditor, register

pytestmark = pytest.mark.engine_independent


def test_a_kind_that_is_not_there_is_neither_listed_nor_watched_and_the_rest_is() -> None:
    async def story(lab: Lab) -> None:
        lab.kube.unknown_kinds.add("Exchange")
        lab.router(1)
        lab.add("Address", "orders", prefix="orders")
        auditor = Auditor(lab.world, retry_s=0)
        await auditor.fill()
        await lab.settle()
        assert lab.condition("Programmed", "Address", "orders")[0] == "True"
        assert [kind for kind in WATCHED if kind not in auditor.kinds] == [kind_of("Exchange")]
        registry = kopf.OperatorRegistry()
        register(registry, lambda event, body: None, lambda: kopf.ConnectionInfo(server=""), auditor.kinds)
        watched = {handler.id for handler in registry._watching.get_all_handlers()}
        assert watched == {kind.plural for kind in WATCHED} - {"exchanges"}
        await auditor.once()
        assert not auditor.changed.is_set()

    run(story)


def test_when_it_comes_its_watch_begins_with_all_others() -> None:
    async def story(lab: Lab) -> None:
        lab.kube.unknown_kinds.add("Exchange")
        auditor = Auditor(lab.world, retry_s=0)
        await auditor.fill()
        lab.kube.unknown_kinds.discard("Exchange")
        lab.add("Exchange", "news", address="news")
        lab.kube.watchers.clear()
        await auditor.once()
        assert auditor.changed.is_set()
        lab.later(1000)
        assert auditor.check() is None, "nothing is awaited from a watch that does not exist"
        again = Auditor(lab.world, retry_s=0)
        await again.fill()
        assert again.kinds == WATCHED
        assert lab.inventory.get("Exchange", NAMESPACE, "news") is not None

    run(story)


def refuse(kube: FakeKube, status: int, *kinds: str, times: int = 1000) -> None:
    left = [times]

    def fail(verb: str, kind: str, name: str) -> None:
        if verb == "list" and kind in kinds and left[0] > 0:
            left[0] -= 1
            raise KubeError(status, "no")

    kube.fail = fail


def refuse_namespaces(kube: FakeKube, *names: str) -> None:
    listed = kube.list

    async def list_(kind: Kind, namespace: str | None = None, selector: str = "", **options: Any) -> list[Any]:
        if namespace in names:
            raise KubeError(403, f"{kind.plural} is forbidden in the namespace {namespace}")
        return await listed(kind, namespace, selector, **options)

    kube.list = list_  # type: ignore[method-assign]


@pytest.mark.parametrize(("kind", "status", "absent"), [("Exchange", 403, True), ("Exchange", 500, False),
                                                         ("Broker", 404, True), ("Broker", 403, False),
                                                         ("Router", 404, False), ("Secret", 404, False)])  # fmt: skip
def test_a_kind_may_be_missing_but_not_that_of_routers(kind: str, status: int, absent: bool) -> None:
    async def story(lab: Lab) -> None:
        refuse(lab.kube, status, kind)
        auditor = Auditor(lab.world, retry_s=0)
        if absent:
            await auditor.once()
        else:
            with pytest.raises(KubeError):
                await auditor.once()
        assert auditor.absent == ({kind} if absent else set())

    run(story)


def test_one_refused_list_says_nothing_yet() -> None:
    async def story(lab: Lab) -> None:
        refuse(lab.kube, 404, "Broker", times=1)
        auditor = Auditor(lab.world, retry_s=0)
        await auditor.fill()
        assert auditor.kinds == WATCHED

    run(story)


def test_a_kind_that_goes_while_it_is_watched_explains_the_end_of_its_watch() -> None:
    async def story(lab: Lab) -> None:
        auditor = Auditor(lab.world, retry_s=0)
        await auditor.fill()
        assert not await auditor.explains()
        refuse(lab.kube, 500, "Exchange")
        assert not await auditor.explains()
        refuse(lab.kube, 404, "Exchange")
        assert await auditor.explains()
        assert auditor.kinds == WATCHED, "until the watches begin again"

    run(story)


def test_a_namespace_without_rights_is_left_out_until_they_come() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        open_again = lab.kube.list
        refuse_namespaces(lab.kube, "gone")
        auditor = Auditor(lab.world, ("gone", NAMESPACE), retry_s=0)
        await auditor.fill()
        assert (auditor.open_namespaces, auditor.kinds) == ((NAMESPACE,), WATCHED)
        assert lab.inventory.get("Router", NAMESPACE, "mesh") is not None
        left_out = lab.world.metrics.left_out.collect()
        assert [sample.labels["what"] for metric in left_out for sample in metric.samples] == ["gone"]
        await auditor.once()
        assert not auditor.changed.is_set()
        lab.kube.list = open_again  # type: ignore[method-assign]
        await auditor.once()
        assert auditor.changed.is_set()

    run(story)


def test_rights_that_go_while_a_namespace_is_watched_begin_the_watches_again() -> None:
    async def story(lab: Lab) -> None:
        auditor = Auditor(lab.world, ("gone", NAMESPACE), retry_s=0)
        await auditor.fill()
        refuse_namespaces(lab.kube, "gone")
        assert await auditor.explains()

    run(story)


def test_with_no_namespace_left_nothing_can_be_done() -> None:
    async def story(lab: Lab) -> None:
        refuse_namespaces(lab.kube, "gone", NAMESPACE)
        auditor = Auditor(lab.world, ("gone", NAMESPACE), retry_s=0)
        with pytest.raises(KubeError, match=f"namespace {NAMESPACE}"):
            await auditor.once()

    run(story)


def test_the_lease_is_given_up_while_nothing_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "FILL_S", 0.05)

    async def story() -> None:
        kube = FakeKube()
        refuse(kube, 500, "Router")
        options = operator.Options(OperatorSettings("router:1"), http_host="127.0.0.1", http_port=0)
        one = operator.Operator(options, Cluster(Configuration(), NAMESPACE, inside=False), kube, Metrics())
        running = asyncio.create_task(one.run())

        def given_up() -> bool:
            lease = kube.objects.get(("Lease", NAMESPACE, "waymesh-operator"))
            return lease is not None and not lease["spec"]["holderIdentity"]

        async with asyncio.timeout(DEADLINE_S):
            while not given_up():
                await asyncio.sleep(0.01)
        one.stop()
        await running

    asyncio.run(story())


def an_operator() -> operator.Operator:
    options = operator.Options(OperatorSettings("router:1"), http_host="127.0.0.1", http_port=0)
    return operator.Operator(options, Cluster(Configuration(), NAMESPACE, inside=False), FakeKube(), Metrics())


async def fails() -> None:
    await asyncio.sleep(0)
    raise KeyError("kind")


async def ends() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("work", "reason"), [(ends, "the task audits has ended"), (fails, "the task audits has failed: 'kind'")]
)
def test_a_task_that_ends_takes_readiness_and_all_others_with_it(work: Any, reason: str) -> None:
    async def story() -> None:
        one, cancelled = an_operator(), []

        async def never(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(name)

        with pytest.raises(WaymeshError, match=reason):
            await one._beside({"heartbeat": never("heartbeat"), "audits": work()}, never("watches"))
        assert sorted(cancelled) == ["heartbeat", "watches"]
        assert one.health.ready["resources"]() == reason

    asyncio.run(story())


def test_when_the_watches_end_the_tasks_beside_them_are_cancelled_and_an_error_of_theirs_is_passed_on() -> None:
    async def story() -> None:
        one = an_operator()

        async def never() -> None:
            await asyncio.Event().wait()

        await one._beside({"audits": never()}, ends())
        with pytest.raises(KeyError):
            await one._beside({"audits": never()}, fails())
        assert one.health.ready["resources"]() is None

    asyncio.run(story())


def test_kopf_that_does_not_end_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "END_S", 0.02)

    async def story() -> None:
        over = asyncio.Event()

        async def stubborn() -> None:
            while not over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await over.wait()

        task = asyncio.create_task(stubborn())
        with pytest.raises(WaymeshError, match="kopf has not ended"):
            await operator._end(task)
        over.set()
        await task
        await operator._end(task)

    asyncio.run(story())


def test_commands_list_nothing_of_it() -> None:
    async def listed(kind: str) -> list[dict[str, Any]]:
        kube = FakeKube()
        kube.unknown_kinds |= {"Exchange", "Broker"}
        return await list_present(kube, kind_of(kind))

    assert asyncio.run(listed("Exchange")) == []
    with pytest.raises(KubeError):
        asyncio.run(listed("Broker"))


def test_an_exchange_is_programmed_and_what_is_removed_by_hand_comes_back() -> None:
    def names(lab: Lab, kind: str) -> list[str]:
        return lab.live("mesh-1").names(f"router.config.{kind}")

    async def story(lab: Lab) -> None:
        lab.router(2)
        bindings: list[Mapping[str, Any]] = [{"bindingKey": key, "nextHopAddress": "out"} for key in ("a.#", "b.#")]
        lab.add("Exchange", "news", address="news", bindings=bindings)
        await lab.settle()
        assert lab.condition("Ready", "Exchange", "news")[0] == "True"
        status = lab.status("Exchange", "news")
        assert (status["bindings"], status["active"], status["state"]) == (2, "2/2", "active")
        before = names(lab, "exchange"), names(lab, "binding")
        assert (len(before[0]), len(before[1])) == (1, 2)
        lab.live("mesh-1").rows["router.config.binding"].popitem()
        lab.later(1000)
        await lab.settle()
        assert (names(lab, "exchange"), sorted(names(lab, "binding"))) == (before[0], sorted(before[1]))
        lab.mesh.refuse = lambda kind, name: "not this one" if kind == "router.config.binding" else ""
        lab.add("Exchange", "news", address="news", bindings=[*bindings, {"nextHopAddress": "else"}])
        await lab.settle()
        assert lab.condition("Programmed", "Exchange", "news")[0] == "False"
        assert "not this one" in lab.status("Exchange", "news")["lastError"]
        lab.kube.remove("Exchange", NAMESPACE, "news")
        await lab.settle()
        assert names(lab, "exchange") == names(lab, "binding") == []

    run(story)
