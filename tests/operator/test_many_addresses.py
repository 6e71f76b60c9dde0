"""What one change costs in a mesh of many Addresses: work that does not grow with their number."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.operator.kit import MESH, NAMESPACE, Lab, resource, run
from waymesh_client.errors import ConnectionFailed
from waymesh_operator.errors import KubeError
from waymesh_operator.places.kubernetes.worker.inventory import Parser
from waymesh_operator.places.kubernetes.worker.status_writer import AT_ONCE, COUNTS_S, SUMMED, Statuses
from waymesh_operator.planning import mesh
from waymesh_operator.planning.status import addresses
from waymesh_operator.router_entities import actions, entities, verdicts
from waymesh_operator.router_entities.names import Entity

pytestmark = pytest.mark.engine_independent

FEW, MANY = 5, 60
COUNTED = (
    (addresses, "address_status"),
    (actions, "changed_attributes"),
    (entities, "_refusal"),
    (mesh, "_row"),
    (verdicts, "_unless_refused"),
)
"""What is done for one Address: its status, the comparison with what a router has, its check, its line in a seed, the
verdict on it."""


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts calls from now on."""
    calls: Counter[str] = Counter()

    def count(module: ModuleType, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counting(*words: Any, **named: Any) -> Any:
            calls[name] += 1
            return real(*words, **named)

        monkeypatch.setattr(module, name, counting)

    for one in COUNTED:
        count(*one)
    return calls


async def many(lab: Lab, number: int) -> None:
    """A mesh at rest with that many Addresses, whose routers were read again."""
    lab.router(2)
    for k in range(number):
        lab.add("Address", f"a{k}", prefix=f"a{k}", distribution="balanced")
    await lab.settle()
    lab.later(60)
    await lab.settle()


async def one_added(lab: Lab) -> None:
    lab.add("Address", "orders", prefix="orders", distribution="balanced")
    await lab.settle()
    assert lab.condition("Ready", "Address", "orders")[0] == "True"


async def one_changed(lab: Lab) -> None:
    lab.add("Address", "a1", prefix="a1", distribution="closest")
    await lab.settle()
    assert lab.live("mesh-1").rows["router.config.address"]["k8s/ns/Address/a1"]["distribution"] == "closest"


async def one_removed(lab: Lab) -> None:
    lab.kube.remove("Address", NAMESPACE, "a1")
    await lab.settle()
    assert "k8s/ns/Address/a1" not in lab.live("mesh-1").names("router.config.address")


async def one_used(lab: Lab) -> None:
    lab.mesh.consumers = {"a1": 3}
    lab.later(60)
    await lab.settle()
    assert lab.status("Address", "a1")["consumers"] == 6, "at two routers"


@pytest.mark.parametrize("change", [one_added, one_changed, one_removed, one_used])
def test_a_change_costs_the_same_among_many_addresses(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number in (FEW, MANY):

        async def story(lab: Lab) -> None:
            await many(lab, number)  # noqa: B023 - it runs at once
            with monkeypatch.context() as patch:
                calls = counted(patch)
                await change(lab)
                found.append(calls)

        run(story)
    assert found[0] == found[1]
    assert found[1]["address_status"] <= FEW


def test_a_router_that_is_lost_shows_in_the_status_of_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all statuses depend on is no change of an Address."""

    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        lab.live("mesh-1").up = False
        lab.later(60)
        await lab.until(lambda: lab.condition("Ready", "Address", f"a{FEW - 1}")[0] == "False")
        assert {lab.condition("Ready", "Address", f"a{k}")[0] for k in range(FEW)} == {"False"}
        lab.live("mesh-1").up = True
        lab.later(60)
        await lab.settle()
        assert {lab.condition("Ready", "Address", f"a{k}")[0] for k in range(FEW)} == {"True"}

    run(story)


def test_what_somebody_changes_on_a_router_is_found_among_entities_that_were_compared_before() -> None:
    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        rows = lab.live("mesh-0").rows["router.config.address"]
        rows["k8s/ns/Address/a1"]["distribution"] = "multicast"
        lab.later(60)
        await lab.settle()
        assert lab.live("mesh-0").rows["router.config.address"]["k8s/ns/Address/a1"]["distribution"] == "balanced"
        assert lab.status()["drift"]["repaired"] > 0

    run(story)


def test_a_status_that_somebody_else_wrote_is_written_again() -> None:
    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        lab.kube.edit("Address", NAMESPACE, "a1", lambda body: body["status"].update(match="nonsense"))
        await lab.settle()
        assert lab.status("Address", "a1")["match"] == "a1"

    run(story)


def test_a_conflict_shows_in_the_status_among_addresses_that_were_judged_before() -> None:
    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        lab.add("Address", "b1", prefix="a1", distribution="closest")
        await lab.settle()
        assert lab.condition("Ready", "Address", "b1")[1] == "Conflicted"
        lab.kube.remove("Address", NAMESPACE, "a1")
        await lab.settle()
        assert lab.condition("Ready", "Address", "b1")[0] == "True"
        lab.add("Address", "_topo", prefix="_topo", distribution="closest")
        await lab.settle()
        assert lab.condition("Ready", "Address", "_topo")[1] == "ReservedAddress"

    run(story)


@pytest.mark.parametrize("name", ["k8s/x", "k8s/ns/Address", "k8s/ns/Address/a1/more", "elsewhere"])
def test_entities_that_somebody_else_made_are_no_obstacle_for_statuses(name: str) -> None:
    """Not even with a name like those of the operator's own."""

    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        rows = lab.live("mesh-0").rows["router.config.address"]
        rows[name] = {"name": name, "prefix": "elsewhere", "distribution": "balanced"}
        lab.later(60)
        await lab.settle()
        assert (name in rows) == (name == "elsewhere"), "what is named like our own is removed, other entities stay"
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.settle()
        assert lab.condition("Ready", "Address", "orders")[0] == "True"

    run(story)


def test_new_addresses_have_one_status_each_though_routers_do_not_answer_after_they_were_changed() -> None:
    """Routers that have just got thousands of entities answer late; what they reported before says nothing of these."""

    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        changed: set[str] = set()

        def late(router: str, verb: str, what: str) -> None:
            if verb == "create":
                lab.seconds += 1.5  # so that the state of the routers is read again
                changed.add(router)
            elif router in changed:
                changed.remove(router)
                raise ConnectionFailed(router, 55672, "no answer")

        lab.mesh.fail = late
        lab.kube.calls.clear()
        for number in range(FEW):
            lab.add("Address", f"new-{number}", prefix=f"new{number}", distribution="balanced")
        await lab.settle()
        assert not changed, "each did not answer once"
        assert {lab.condition("Ready", "Address", f"new-{number}")[0] for number in range(FEW)} == {"True"}
        written = Counter(name for verb, kind, name in lab.kube.calls if (verb, kind) == ("status", "Address"))
        assert written == {f"new-{number}": 1 for number in range(FEW)}

    run(story)


def test_a_router_that_never_answers_after_it_was_changed_shows_in_the_statuses() -> None:
    async def story(lab: Lab) -> None:
        await many(lab, FEW)

        def lost(router: str, verb: str, what: str) -> None:
            if verb == "create" and router == "mesh-1":
                lab.seconds += 1.5
                lab.live("mesh-1").up = False

        lab.mesh.fail = lost
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.until(lambda: lab.condition("Ready") == ("False", "RouterNotAnswering"), failing=True)
        assert lab.condition("Ready", "Address", "orders")[0] == "False"

    run(story)


def test_many_statuses_are_written_by_few_tasks_and_share_what_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each, and conditions of its own, took more memory than the Addresses."""
    tasks: list[int] = []
    statuses: list[dict[str, Any]] = []
    real = Statuses._write

    async def write(it: Statuses, key: Any, status: dict[str, Any]) -> Any:
        if key[0] == "Address":
            tasks.append(len(asyncio.all_tasks()))
            statuses.append(status)
        return await real(it, key, status)

    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        monkeypatch.setattr(Statuses, "_write", write)
        for number in range(MANY):
            lab.add("Address", f"new-{number}", prefix=f"new{number}", distribution="balanced")
        await lab.settle()
        written = lab.worker._place.statuses._written
        assert len(written) >= MANY
        lab.later(COUNTS_S)
        lab.add("Address", "last", prefix="last", distribution="balanced")
        await lab.settle()
        written = lab.worker._place.statuses._written
        assert {key[2] for key in written if key[0] == "Address"} == {"last"}, "what is long ago is forgotten"

    run(story)
    assert len(statuses) == MANY + 1
    assert MANY > AT_ONCE + FEW
    assert max(tasks) <= AT_ONCE + FEW
    for part in ("conditions", "routers"):
        items = [item for status in statuses for item in status[part]]
        assert len({id(item) for item in items}) == len({str(item) for item in items})


def test_a_status_that_cannot_be_written_does_not_stop_the_others() -> None:
    async def story(lab: Lab) -> None:
        await many(lab, FEW)

        def refuse(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("status", "Address") and name in ("new-1", "new-2"):
                raise KubeError(500, f"{name}: no")

        lab.kube.fail = refuse
        for number in range(MANY):
            lab.add("Address", f"new-{number}", prefix=f"new{number}", distribution="balanced")
        with pytest.raises(KubeError, match="new-1: no"):
            await lab.settle()
        ready = {number for number in range(MANY) if "conditions" in lab.status("Address", f"new-{number}")}
        assert ready == set(range(MANY)) - {1, 2}
        lab.kube.fail = lambda verb, kind, name: None
        await lab.settle()
        assert lab.condition("Ready", "Address", "new-1")[0] == "True"

    run(story)


def test_an_object_that_is_the_same_is_not_looked_into() -> None:
    looked: Counter[str] = Counter()

    class Body(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            looked[name] += 1
            return super().__getitem__(name)

    def address(name: str, **metadata: Any) -> Body:
        made = resource("Address", name, prefix=name, distribution="balanced")
        made["metadata"].update(uid=name, generation=1, **metadata)
        return Body(made)

    objects = {("Address", NAMESPACE, f"a{k}"): address(f"a{k}") for k in range(MANY)}
    parser = Parser()
    first = parser.resources(MESH, objects)
    looked.clear()
    assert parser.resources(MESH, objects) == first
    assert not looked
    objects["Address", NAMESPACE, "a1"] = address("a1", deletionTimestamp="2026-01-01T00:00:00Z")
    left = parser.resources(MESH, objects)
    assert parser.resources(MESH, objects) == left
    assert len(left.addresses) == MANY - 1, "one that is being deleted is left out"


def test_what_two_routers_have_alike_is_kept_once() -> None:
    def kept(lab: Lab, router: str, name: str) -> Any:
        entities = lab.worker._place.routers.live[router]._entities or {}
        return entities["router.config.address", f"k8s/ns/Address/{name}"]

    async def story(lab: Lab) -> None:
        await many(lab, FEW)
        assert all(kept(lab, "mesh-0", f"a{k}") is kept(lab, "mesh-1", f"a{k}") for k in range(FEW))
        lab.live("mesh-1").rows["router.config.address"]["k8s/ns/Address/a1"]["distribution"] = "multicast"
        lab.later(60)
        await lab.settle()
        assert lab.status()["drift"]["repaired"] > 0, "what differs is seen"
        assert kept(lab, "mesh-0", "a1") == kept(lab, "mesh-1", "a1")
        lab.router(1)
        await lab.settle()
        assert lab.worker._place.routers.live["mesh-0"].beside is None

    run(story)


def events(lab: Lab, kind: str) -> list[str]:
    """What the Events about a kind say."""
    found = lab.kube.select("Event", NAMESPACE)
    return [f"{one['reason']}: {one['message']}" for one in found if one["involvedObject"]["kind"] == kind]


@pytest.mark.parametrize("number", [FEW, MANY])
def test_what_happens_to_many_at_once_is_one_event(number: int) -> None:
    async def story(lab: Lab) -> None:
        await many(lab, number)
        lab.live("mesh-1").up = False
        lab.later(60)
        await lab.until(lambda: lab.condition("Ready", "Address", "a1")[0] == "False")
        told = [text for text in events(lab, "Router") if "of kind Address" in text]
        if number > SUMMED:
            assert not events(lab, "Address")
            assert len(told) == len({text.partition(":")[0] for text in told}) > 0, "one for each reason"
            assert all(f"{number} resources of kind Address (a0, a1, a2, a3, a4 and others)" in it for it in told)
        else:
            assert not told
            assert len(events(lab, "Address")) >= number

    run(story)


def test_entities_before_the_first_that_is_not_the_same_are_not_compared() -> None:
    alike = [Entity("router.config.address", f"a{k}") for k in range(MANY)]
    new, other = Entity("router.config.address", "new"), Entity("router", "mesh-0")
    present, former = addresses._tails((*alike, new, other), (*alike, other))
    assert (list(present.values()), list(former.values())) == ([new, other], [other])
    present, former = addresses._tails(tuple(alike), tuple(alike))
    assert (present, former) == ({}, {})
    present, former = addresses._tails(tuple(alike[:-1]), tuple(alike))
    assert (list(present.values()), list(former.values())) == ([], alike[-1:])
