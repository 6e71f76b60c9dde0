"""The operator in a cluster whose definitions are older than itself: it goes on without the kinds that came later."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import kopf
import pytest

from tests.operator.fake_kube import FakeKube
from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.cluster.watches import WATCHED, Auditor, register
from waymesh_operator.errors import KubeError
from waymesh_operator.kube import kind_of, list_present

pytestmark = pytest.mark.engine_independent


def test_a_kind_that_is_not_there_is_neither_listed_nor_watched_and_the_rest_is() -> None:
    async def story(lab: Lab) -> None:
        lab.kube.unknown_kinds.add("Exchange")
        lab.router(1)
        lab.add("Address", "orders", prefix="orders")
        auditor = Auditor(lab.world)
        await auditor.fill()
        await lab.settle()
        assert lab.condition("Programmed", "Address", "orders")[0] == "True"
        assert [kind for kind in WATCHED if kind not in auditor.kinds] == [kind_of("Exchange")]
        registry = kopf.OperatorRegistry()
        register(registry, lambda event, body: None, lambda: kopf.ConnectionInfo(server=""), auditor.kinds)
        watched = {handler.id for handler in registry._watching.get_all_handlers()}
        assert watched == {kind.plural for kind in WATCHED} - {"exchanges"}
        await auditor.once()
        assert not auditor.appeared.is_set()

    run(story)


def test_when_it_comes_its_watch_begins_with_all_others() -> None:
    async def story(lab: Lab) -> None:
        lab.kube.unknown_kinds.add("Exchange")
        auditor = Auditor(lab.world)
        await auditor.fill()
        lab.kube.unknown_kinds.discard("Exchange")
        lab.add("Exchange", "news", address="news")
        lab.kube.watchers.clear()
        await auditor.once()
        assert auditor.appeared.is_set()
        lab.later(1000)
        assert auditor.check() is None, "nothing is awaited from a watch that does not exist"
        again = Auditor(lab.world)
        await again.fill()
        assert again.kinds == WATCHED
        assert lab.inventory.get("Exchange", NAMESPACE, "news") is not None

    run(story)


def refuse(kube: FakeKube, status: int, *kinds: str) -> None:
    def fail(verb: str, kind: str, name: str) -> None:
        if verb == "list" and kind in kinds:
            raise KubeError(status, "no")

    kube.fail = fail


@pytest.mark.parametrize(("kind", "status", "absent"), [("Exchange", 403, True), ("Exchange", 500, False),
                                                         ("Broker", 404, False), ("Broker", 403, False)])  # fmt: skip
def test_only_what_came_later_may_be_missing(kind: str, status: int, absent: bool) -> None:
    async def story(lab: Lab) -> None:
        refuse(lab.kube, status, kind)
        auditor = Auditor(lab.world)
        if absent:
            await auditor.once()
        else:
            with pytest.raises(KubeError):
                await auditor.once()
        assert auditor.absent == ({kind} if absent else set())

    run(story)


def test_a_kind_that_goes_while_it_is_watched_is_an_error() -> None:
    async def story(lab: Lab) -> None:
        auditor = Auditor(lab.world)
        await auditor.fill()
        refuse(lab.kube, 404, "Exchange")
        with pytest.raises(KubeError):
            await auditor.once()
        assert auditor.kinds == WATCHED

    run(story)


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
