"""What resources refer to: a change is noticed soon, with few requests meanwhile."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.virtual_time import run_in_virtual_time
from tests.operator.fake_kube import FakeKube
from tests.operator.kit import MESH, NAMESPACE, Lab, run
from waymesh_operator.errors import KubeError
from waymesh_operator.kube import CLAIM, SECRET
from waymesh_operator.places.kubernetes.worker.environment import Pace
from waymesh_operator.places.kubernetes.worker.inventory import AT_ONCE, ROUNDS_APART, Inventory, References
from waymesh_operator.places.kubernetes.worker.observation import UserSecrets
from waymesh_operator.resources.router import Ref

pytestmark = pytest.mark.engine_independent


def thing(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "data": {}}


@pytest.mark.parametrize("kind", [SECRET, CLAIM])
def test_mesh_gets_a_turn_soon_after_something_appears_changes_or_goes(kind: Any) -> None:
    async def story() -> None:
        kube, woken = FakeKube(), asyncio.Event()
        references, inventory = References(), Inventory(changed=lambda mesh: woken.set())
        references.note(MESH, {(kind, "x"): ""})
        looking = asyncio.create_task(references.run(kube, inventory, Pace().look_up_s))
        loop = asyncio.get_running_loop()
        await asyncio.sleep(100.3)
        assert not woken.is_set()
        kube.put(thing(kind.kind, "x"))
        created = loop.time()
        await woken.wait()
        assert loop.time() - created <= 2
        calls = len(kube.calls)
        await asyncio.sleep(100)
        assert len(kube.calls) - calls in (19, 20)  # it is there: looked up every five seconds
        woken.clear()
        kube.put({**thing(kind.kind, "x"), "data": {"changed": "eQ=="}})
        changed = loop.time()
        await woken.wait()
        assert loop.time() - changed <= 6
        woken.clear()
        kube.remove(kind.kind, NAMESPACE, "x")
        removed = loop.time()
        await woken.wait()
        assert loop.time() - removed <= 6
        looking.cancel()

    run_in_virtual_time(story())


def test_only_meshes_that_wait_for_it_in_its_namespace_are_woken() -> None:
    async def story() -> None:
        kube = FakeKube()
        woken: list[Ref] = []
        references, inventory = References(), Inventory(changed=woken.append)
        for mesh in (MESH, Ref(NAMESPACE, "other"), Ref("elsewhere", "mesh")):
            references.note(mesh, {(SECRET, "y" if mesh.name == "other" else "x"): ""})
        kube.put(thing("Secret", "x"))
        await references.look_up(kube, inventory)
        assert woken == [MESH]

    asyncio.run(story())


def test_many_missing_names_share_a_bounded_number_of_requests() -> None:
    async def story() -> None:
        kube, references = FakeKube(), References()
        references.note(MESH, {(SECRET, f"s-{number}"): "" for number in range(5 * AT_ONCE)})
        for turn in range(1, 6):
            await references.look_up(kube, Inventory())
            assert len(kube.calls) == turn * AT_ONCE
        assert len({name for _, _, name in kube.calls}) == 5 * AT_ONCE

    asyncio.run(story())


def test_an_api_server_that_fails_ends_nothing() -> None:
    async def story() -> None:
        kube = FakeKube()
        woken: list[Ref] = []
        references, inventory = References(), Inventory(changed=woken.append)
        references.note(MESH, {(SECRET, "x"): ""})
        kube.put(thing("Secret", "x"))

        def fail(verb: str, kind: str, name: str) -> None:
            raise KubeError(503, "busy")

        kube.fail, working = fail, kube.fail
        await references.look_up(kube, inventory)
        assert woken == []
        kube.fail = working
        await references.look_up(kube, inventory)
        assert woken == [MESH]

    asyncio.run(story())


def test_worker_notes_what_its_resources_refer_to_until_the_router_is_gone() -> None:
    async def story(lab: Lab) -> None:
        async def look() -> int:
            before = len(lab.kube.calls)
            await lab.world.references.look_up(lab.kube, lab.inventory)
            return len(lab.kube.calls) - before

        lab.router(1, telemetry={"target": "Claim", "claimRef": {"name": "files"}})
        auth = {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}}
        lab.add("Broker", "store", endpoints=[{"host": "store", "port": 5672}], auth=auth)
        await lab.settle()
        assert await look() == 2
        lab.kube.put({**thing("Secret", "login"), "data": {"username": "dQ==", "password": "cA=="}})
        await lab.turn()
        assert await look() == 1
        assert lab.condition("ResolvedRefs", "Broker", "store")[0] == "True"
        lab.kube.remove("Router", NAMESPACE, "mesh")
        await lab.turn()
        assert await look() == 0

    run(story)


def test_a_changed_secret_is_read_again_before_the_next_resync() -> None:
    async def story(lab: Lab) -> None:
        world = replace(lab.world, pace=Pace())
        secrets = UserSecrets(MESH, world)
        for data in ("b25l", "dHdv"):
            lab.kube.put({**thing("Secret", "people"), "data": {"alice": data}})
            for _ in range(ROUNDS_APART):
                await world.references.look_up(lab.kube, lab.inventory)
            for _ in range(2):
                read = await secrets.read(frozenset({"people"}))
                world.references.note(MESH, secrets.versions())
            assert read == {"people": {"alice": b64decode(data)}}
        assert len(lab.kube.calls) == 3  # two to read it, one to look it up

    run(story)


def test_a_router_stored_in_a_former_shape_is_left_exactly_as_it_is() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.router(1, telemetry={"target": "Claim", "claimName": "files"})
        before = lab.kube.writes()
        await lab.turn()
        assert lab.kube.writes() == [*before, ("status", "Router", "mesh")]
        assert lab.condition("Accepted") == ("False", "Unreadable")
        await lab.turn()
        assert lab.kube.writes() == [*before, ("status", "Router", "mesh")]

    run(story)
