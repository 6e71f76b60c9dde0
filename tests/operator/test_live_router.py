"""A router behind its management connection: what is read again, refused requests, and abandoned threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.kit.waiting import DEADLINE_S, wait_until
from tests.operator.fake_routers import FakeMesh
from waymesh_client.channel import Tls
from waymesh_operator.errors import LiveError
from waymesh_operator.router_entities.actions import CreateEntity
from waymesh_operator.router_entities.names import Entity
from waymesh_operator.routers.live_router import ENTITIES_S, READ_PER_S, LiveRouter, PodView

pytestmark = pytest.mark.engine_independent

POD = PodView("mesh-0", 0, "uid", "10.0.0.1", running=True, ready=True)


@contextmanager
def live() -> Iterator[tuple[LiveRouter, FakeMesh]]:
    mesh = FakeMesh()
    mesh.start("10.0.0.1", "mesh-0")
    yield LiveRouter(POD, Tls(), mesh), mesh


def create(name: str) -> CreateEntity:
    entity = Entity("router.config.address", f"k8s/ns/Address/{name}", {"prefix": name, "distribution": "balanced"})
    return CreateEntity("mesh-0", entity)


def test_live_router_is_not_asked_again_for_what_we_have_changed_ourselves() -> None:
    with live() as (router, mesh):
        router.read(0.0, False)
        router.carry_out([create("a")])
        mesh.named("mesh-0").calls.clear()
        names = [entity.name for entity in router.read(0.5, False).entities]
        assert "k8s/ns/Address/a" in names
        assert mesh.named("mesh-0").calls == []
        router.read(ENTITIES_S + 1, False)
        assert ("query", "router.config.address") in mesh.named("mesh-0").calls


def test_live_router_with_thousands_of_entities_is_read_less_often() -> None:
    with live() as (router, mesh):
        number = int(2 * ENTITIES_S * READ_PER_S)
        router.read(0.0, False)
        router.carry_out([create(f"a{k}") for k in range(number)])
        mesh.named("mesh-0").calls.clear()
        router.read(1.9 * ENTITIES_S, False)
        assert ("query", "router.config.address") not in mesh.named("mesh-0").calls
        before = router.read(1.9 * ENTITIES_S, False).entities
        after = router.read(2.1 * ENTITIES_S, False).entities
        assert ("query", "router.config.address") in mesh.named("mesh-0").calls
        same = {id(entity) for entity in before} & {id(entity) for entity in after}
        assert len(same) >= number, "what has not changed is the same object"


def test_live_router_a_refusal_stops_no_other_step() -> None:
    with live() as (router, mesh):
        mesh.refuse = lambda kind, name: "no" if name.endswith("b") else ""
        router.read(0.0, False)
        outcomes = router.carry_out([create("a"), create("b"), create("c")])
        assert [outcome.error for outcome in outcomes] == ["", "no (400)", ""]


def test_live_router_that_is_away_is_read_anew_when_it_is_back() -> None:
    with live() as (router, mesh):
        router.read(0.0, False)
        mesh.named("mesh-0").up = False
        with pytest.raises(LiveError, match="connection refused"):
            router.carry_out([create("a")])
        mesh.named("mesh-0").up = True
        mesh.named("mesh-0").calls.clear()
        router.read(0.1, False)
        assert ("query", "listener") in mesh.named("mesh-0").calls


def test_live_router_steps_left_behind_end_when_it_is_let_go_of() -> None:
    """A turn is broken off while its thread is amid many steps: nobody else uses the connection meanwhile."""
    with live() as (router, mesh), ThreadPoolExecutor(2) as threads:
        router.read(0.0, False)
        begun, go_on = threading.Event(), threading.Event()

        def slow(name: str, verb: str, what: str) -> None:
            if verb == "create":
                begun.set()
                assert go_on.wait(DEADLINE_S)

        mesh.fail = slow
        steps = threads.submit(router.carry_out, [create(f"a{number}") for number in range(100)])
        assert begun.wait(DEADLINE_S)
        ending = threads.submit(router.end)
        wait_until(lambda: router._ended, what="the wish to end")
        assert not ending.done()
        assert ("close", "") not in mesh.named("mesh-0").calls
        go_on.set()
        with pytest.raises(LiveError, match="has closed its connection"):
            steps.result(DEADLINE_S)
        ending.result(DEADLINE_S)
        assert mesh.named("mesh-0").calls[-1] == ("close", "")
        assert len(mesh.named("mesh-0").names("router.config.address")) == 1
