"""Watch events: kopf, the inventory, audits, the heartbeat; the pitfalls of operator.md, each by name."""

from __future__ import annotations

import asyncio
import copy
import logging
from typing import Any

import kopf
import pytest

from tests.kit.waiting import DEADLINE_S
from tests.operator.fake_kube import FakeKube
from tests.operator.kit import MESH, NAMESPACE, Lab, resource, run
from waymesh_operator.kube import OWNED, RESOURCES
from waymesh_operator.places.kubernetes.monitoring import Heartbeat
from waymesh_operator.places.kubernetes.watches import LISTED_PER_S, Auditor, NoMemories, register, settings
from waymesh_operator.places.kubernetes.worker.inventory import DELETED, Inventory
from waymesh_operator.resources.router import Ref

pytestmark = pytest.mark.engine_independent


def body(kind: str, name: str, version: int, **metadata: Any) -> dict[str, Any]:
    made = resource(kind, name, size=1) if kind == "Router" else resource(kind, name, prefix=name)
    made["metadata"] |= {"resourceVersion": str(version), "uid": f"uid-{name}", **metadata}
    return made


def registered() -> tuple[kopf.OperatorRegistry, list[tuple[str | None, str]]]:
    registry, seen = kopf.OperatorRegistry(), []
    register(registry, lambda event, it: seen.append((event, it["metadata"]["name"])), login=lambda: None)  # type: ignore[arg-type, return-value]
    return registry, seen


def test_trap_no_handler_that_keeps_annotations_or_finalizers() -> None:
    registry, _ = registered()
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())
    assert {handler.id for handler in registry._watching.get_all_handlers()} == {k.plural for k in (*RESOURCES, *OWNED)}


def test_trap_what_is_owned_is_asked_for_by_label_at_the_api_server() -> None:
    from kopf._cogs.structs.references import Resource

    made = settings()
    for kind in OWNED:
        there = Resource(kind.group, kind.version, kind.plural, kind=kind.kind, namespaced=True)
        assert made.watching.label_selectors.collect(there) == ["waymesh.io/router"]
    for kind in RESOURCES:
        there = Resource(kind.group, kind.version, kind.plural, kind=kind.kind, namespaced=True)
        assert made.watching.label_selectors.collect(there) == []


def test_trap_no_peering_no_scanning_and_little_posting() -> None:
    made = settings()
    assert made.peering.standalone
    assert made.scanning.disabled
    assert made.posting.level == logging.WARNING
    assert not made.posting.loggers


def test_kopf_keeps_no_copies_of_what_it_is_told() -> None:
    """It would compare each event with the one before, for handlers that the operator does not have."""
    kept = settings().persistence
    raw: Any = body("Address", "orders", 1, annotations={"kopf.zalando.org/last-handled-configuration": "{}"})
    told = kopf.Body(raw)
    assert kept.diffbase_storage.fetch(body=told) is None
    assert not kept.diffbase_storage.build(body=told)
    patch = kopf.Patch()
    kept.diffbase_storage.store(body=told, patch=patch, essence=kopf.BodyEssence())
    kept.progress_storage.touch(body=told, patch=patch, value="now")
    assert not patch, "nothing is written"


def test_kopf_remembers_nothing_of_an_object_after_its_event() -> None:
    from kopf._cogs.structs.ephemera import AnyMemo
    from kopf._cogs.structs.references import Resource
    from kopf._core.actions.lifecycles import asap
    from kopf._core.engines.indexing import OperatorIndexers
    from kopf._core.reactor.processing import process_resource_event

    registry, seen = registered()
    memories = NoMemories()
    kind = next(kind for kind in RESOURCES if kind.kind == "Address")
    there = Resource(kind.group, kind.version, kind.plural, kind=kind.kind, namespaced=True)

    async def tell(event: str | None, version: int) -> None:
        await process_resource_event(
            lifecycle=asap,
            indexers=OperatorIndexers(),
            registry=registry,
            settings=settings(),
            memories=memories,
            memobase=AnyMemo(kopf.Memo()),
            resource=there,
            raw_event={"type": event, "object": body("Address", "orders", version)},  # type: ignore[typeddict-item]
            event_queue=asyncio.Queue(),
        )

    async def story() -> None:
        await tell(None, 1)
        await tell("MODIFIED", 2)
        await tell("DELETED", 3)

    asyncio.run(story())
    assert seen == [(None, "orders"), ("MODIFIED", "orders"), ("DELETED", "orders")]
    assert not list(memories.iter_all_memories())


def test_handlers_pass_each_event_on() -> None:
    registry, seen = registered()
    handler = next(iter(registry._watching.get_all_handlers()))
    event = {"type": "ADDED", "object": body("Router", "mesh", 1)}
    asyncio.run(handler.fn(event=event, body={}, unused=1))  # type: ignore[arg-type, call-arg]
    assert seen == [("ADDED", "mesh")]


def test_inventory_ignores_what_is_older_than_what_it_knows() -> None:
    inventory = Inventory()
    changed: list[Ref] = []
    inventory.changed = changed.append
    assert inventory.see("ADDED", body("Router", "mesh", 5))
    assert not inventory.see("MODIFIED", body("Router", "mesh", 4))
    assert not inventory.see(None, body("Router", "mesh", 5))
    assert inventory.see(DELETED, body("Router", "mesh", 7))
    assert not inventory.see("MODIFIED", body("Router", "mesh", 6))
    assert inventory.get("Router", NAMESPACE, "mesh") is None
    assert inventory.see("ADDED", body("Router", "mesh", 8))
    assert changed == [MESH, MESH, MESH]


def test_inventory_tells_both_meshes_of_a_resource_that_moves() -> None:
    inventory = Inventory()
    changed: list[Ref] = []
    moved = body("Address", "orders", 2)
    moved["spec"]["routerRef"] = {"name": "other"}
    inventory.see("ADDED", body("Address", "orders", 1))
    inventory.changed = changed.append
    inventory.see("MODIFIED", moved)
    assert set(changed) == {MESH, Ref(NAMESPACE, "other")}
    assert not inventory.of(MESH)
    assert len(inventory.of(Ref(NAMESPACE, "other"))) == 1


def test_inventory_keeps_no_record_of_field_managers() -> None:
    inventory = Inventory()
    inventory.see("ADDED", body("Router", "mesh", 1, managedFields=[{"manager": "x"}]))
    assert "managedFields" not in inventory.get("Router", NAMESPACE, "mesh")["metadata"]  # type: ignore[index]


def test_trap_a_removal_that_no_watch_told_of_is_found_by_an_audit() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("Address", "orders", prefix="orders")
        auditor = Auditor(lab.world)
        await auditor.fill()
        await lab.settle()
        lab.kube.remove("Address", NAMESPACE, "orders", quietly=True)
        lab.later(10)
        await auditor.once()
        await lab.settle()
        assert lab.live("mesh-0").names("router.config.address") == []

    run(story)


def test_trap_a_watch_that_is_dead_is_noticed_though_all_else_lives() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        auditor = Auditor(lab.world)
        await auditor.fill()
        lab.kube.watchers.clear()
        lab.add("Address", "orders", prefix="orders")
        lab.later(10)
        await auditor.once()
        assert auditor.check() is None
        assert lab.inventory.get("Address", NAMESPACE, "orders") is not None
        lab.later(70)
        assert "Address ns/orders has not been delivered by a watch" in str(auditor.check())
        auditor.delivered(lab.kube.objects["Address", NAMESPACE, "orders"])
        assert auditor.check() is None

    run(story)


def test_audit_waits_for_the_crds_and_then_knows_everything() -> None:
    async def story(lab: Lab) -> None:
        lab.kube.put(resource("Router", "quiet", size=1))
        fresh = Inventory()
        lab.kube.watchers.clear()
        lab.kube.unknown_kinds.add("Broker")
        world = lab.world
        object.__setattr__(world, "inventory", fresh)
        filling = asyncio.create_task(Auditor(world).fill())
        await asyncio.wait({filling}, timeout=0.2)
        assert not filling.done()
        lab.kube.unknown_kinds.discard("Broker")
        await asyncio.wait_for(filling, DEADLINE_S)
        assert fresh.get("Router", NAMESPACE, "quiet") is not None

    run(story)


def test_trap_liveness_needs_the_heartbeat_to_come_back() -> None:
    now = 0.0
    beat = Heartbeat(clock=lambda: now)
    beat.written("one")
    now = 50.0
    assert beat.check() is None
    beat.returned("one")
    now = 500.0
    assert beat.check() is None
    beat.written("two")
    now = 530.0
    beat.written("three")
    now = 561.0
    assert "no watch has delivered the heartbeat" in str(beat.check())
    beat.returned("three")
    assert beat.check() is None


def test_heartbeat_that_could_not_be_written_is_no_sign_of_a_dead_watch() -> None:
    now = 0.0
    beat = Heartbeat(clock=lambda: now)
    beat.written("one")
    beat.failed("one")
    now = 1000.0
    assert beat.check() is None


@pytest.mark.parametrize("kind", [kind.kind for kind in (*RESOURCES, *OWNED)])
def test_audit_lists_each_kind_once_and_what_is_owned_by_label(kind: str) -> None:
    async def story(lab: Lab) -> None:
        await Auditor(lab.world, ["a", "b"]).once()
        calls = [selector for verb, listed, selector in lab.kube.calls if (verb, listed) == ("list", kind)]
        assert calls == (["", ""] if kind in {k.kind for k in RESOURCES} else ["waymesh.io/router"] * 2)

    run(story)


def test_a_kind_of_which_there_are_thousands_is_listed_less_often() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        number = 2 * LISTED_PER_S
        for k in range(number):
            lab.add("Address", f"a{k}", prefix=f"a{k}")
        auditor = Auditor(lab.world)
        await auditor.fill()

        async def listed(seconds: float, *, only_due: bool = True) -> set[str]:
            lab.later(seconds)
            lab.kube.calls.clear()
            await auditor.once(only_due=only_due)
            return {kind for verb, kind, _ in lab.kube.calls if verb == "list"}

        assert "Address" not in await listed(1.0)
        assert "Address" in await listed(1.5)
        assert "Address" not in await listed(1.0)
        assert {"Broker", "Pod"} <= await listed(0.1)
        assert "Address" in await listed(0.0, only_due=False)

    run(story)


def test_an_audit_has_no_copies_of_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of thousands of objects took more memory for a moment than all that is kept."""
    listed: list[dict[str, Any]] = []
    real = Inventory.audit

    def audit(it: Inventory, kind: str, namespace: str | None, bodies: Any, began: float) -> Any:
        listed.extend(bodies)
        return real(it, kind, namespace, bodies, began)

    async def story(lab: Lab) -> None:
        lab.router(1)
        for name in ("a", "b"):
            lab.add("Address", name, prefix=name)
        auditor = Auditor(lab.world)
        await auditor.fill()
        monkeypatch.setattr(Inventory, "audit", audit)
        watchers, lab.kube.watchers = lab.kube.watchers, []
        lab.add("Address", "b", prefix="c")
        lab.kube.watchers = watchers
        await auditor.once()
        known = {body["metadata"]["name"]: body for body in listed if body["kind"] == "Address"}
        assert known["a"] is lab.inventory.get("Address", NAMESPACE, "a")
        assert known["b"]["spec"]["prefix"] == "c"
        now = lab.inventory.get("Address", NAMESPACE, "b")
        assert now is not None
        assert now["spec"]["prefix"] == "c"

    run(story)


def test_fake_api_server_applies_as_the_real_one_does() -> None:
    async def story() -> None:
        kube = FakeKube()
        base = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}
        first = await kube.apply({**base, "data": {"a": "1", "b": "2"}})
        again = await kube.apply({**base, "data": {"a": "1", "b": "2"}})
        assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
        less = await kube.apply({**base, "data": {"a": "1"}})
        assert less["data"] == {"a": "1"}

    asyncio.run(story())


def test_after_a_restore_of_the_api_server_its_data_counts() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        backup = copy.deepcopy(lab.kube.objects)
        for number in range(5):
            lab.add("Address", "orders", prefix=f"orders-{number}", distribution="balanced")
        lab.add("Address", "later", prefix="later", distribution="balanced")
        lab.kube.remove("Address", NAMESPACE, "later")
        auditor = Auditor(lab.world)
        await auditor.fill()
        lab.kube.restore(backup)
        lab.later(1)
        await auditor.once()
        known = lab.inventory.get("Address", NAMESPACE, "orders")
        assert known is not None
        assert known["spec"]["prefix"] == "orders"
        lab.add("Address", "orders", prefix="new", distribution="balanced")
        known = lab.inventory.get("Address", NAMESPACE, "orders")
        assert known is not None
        assert known["spec"]["prefix"] == "new", "later changes arrive by watches"

    run(story)
