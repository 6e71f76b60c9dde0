"""Plans: scaling, live changes, replacement, drift, restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_operator.planning.actions import CreateRouter, RestartRouter, StopRouter, WriteSeed
from waymesh_operator.planning.plan import plan
from waymesh_operator.resources.dependents import Address
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Router
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    DrainRouter,
    UndrainRouter,
    UpdateEntity,
)
from waymesh_operator.router_entities.names import ADDRESS, CONNECTOR, LISTENER, LOG, Entity
from waymesh_operator.routers.observed import RouterState

from .plan_model import MESH, ModelMesh, address, desire

pytestmark = pytest.mark.engine_independent

ROUTER = Router(MESH, size=3, listeners=(Listener("amqp", 5672),))


def running(router: Router = ROUTER, *addresses: Address) -> ModelMesh:
    model = ModelMesh()
    model.reconcile(desire(router, *addresses))
    model.log.clear()
    return model


def test_a_new_mesh_is_created_lowest_ordinal_first_and_then_nothing_is_left_to_do() -> None:
    model = ModelMesh()
    actions = model.reconcile(desire(ROUTER, address("orders")))
    assert [type(a) for a in actions] == [CreateRouter] * 3
    assert [a.router_id for a in actions] == ["mesh-0", "mesh-1", "mesh-2"]
    assert plan(desire(ROUTER, address("orders")), model.observed) == ()


def test_scaling_up_touches_only_the_new_routers() -> None:
    model = running()
    actions = model.reconcile(desire(replace(ROUTER, size=5)))
    assert [(type(a), a.router_id) for a in actions] == [(CreateRouter, "mesh-3"), (CreateRouter, "mesh-4")]


def test_scaling_down_drains_the_highest_ordinals_and_stops_them_when_they_are_drained() -> None:
    model = running(replace(ROUTER, size=5))
    wanted = desire(replace(ROUTER, size=3, drain_timeout_s=7))
    assert model.reconcile(wanted) == (DrainRouter("mesh-4", 7), DrainRouter("mesh-3", 7))
    model.draining["mesh-4"] = "draining"
    assert model.reconcile(wanted) == ()
    assert model.reconcile(wanted) == (StopRouter("mesh-4"), StopRouter("mesh-3"))


def test_a_router_that_was_to_leave_and_is_wanted_again_is_taken_back() -> None:
    model = running()
    model.reconcile(desire(replace(ROUTER, size=1)))
    assert model.reconcile(desire(replace(ROUTER, size=2))) == (UndrainRouter("mesh-1"), StopRouter("mesh-2"))
    assert plan(desire(replace(ROUTER, size=2)), model.observed) == ()


def test_a_router_that_a_person_drains_is_left_so() -> None:
    model = running()
    model.draining["mesh-1"] = "drained"
    assert plan(desire(ROUTER), model.observed) == ()


def test_a_router_that_does_not_answer_is_stopped_without_a_drain() -> None:
    model = running()
    model.set("mesh-2", state=RouterState.STARTING, entities=())
    del model.draining["mesh-2"]
    assert plan(desire(replace(ROUTER, size=2)), model.observed) == (StopRouter("mesh-2"),)


def test_scale_to_zero_and_back() -> None:
    model = running()
    model.converge(desire(replace(ROUTER, size=0)))
    assert model.routers == {}
    assert len(model.reconcile(desire(ROUTER))) == 3


def test_auto_turns_chordal_above_six_by_live_changes_of_connectors() -> None:
    model = running(replace(ROUTER, size=6))
    actions = model.reconcile(desire(replace(ROUTER, size=8)))
    old = [a for a in actions if a.router_id < "mesh-6"]
    assert {type(a) for a in old} == {DeleteEntity, WriteSeed}
    assert {a.entity.type for a in old if isinstance(a, DeleteEntity)} == {CONNECTOR}
    assert [a.router_id for a in actions if isinstance(a, CreateRouter)] == ["mesh-6", "mesh-7"]


def test_a_new_address_is_a_live_action_on_each_router_and_then_goes_into_its_seed() -> None:
    model = running()
    actions = model.reconcile(desire(ROUTER, address("orders")))
    assert [(type(a), a.router_id) for a in actions] == [
        (kind, f"mesh-{k}") for kind in (CreateEntity, WriteSeed) for k in range(3)
    ]
    created = actions[0]
    assert isinstance(created, CreateEntity)
    assert created.entity.name == "k8s/default/Address/orders"
    assert created.entity.attributes["prefix"] == "orders"


def test_another_prefix_is_made_before_the_old_one_goes() -> None:
    model = running(ROUTER, address("orders"))
    actions = [a for a in model.reconcile(desire(ROUTER, address("orders", prefix="sales"))) if a.router_id == "mesh-0"]
    assert [type(a) for a in actions] == [CreateEntity, DeleteEntity, WriteSeed]
    assert model.routers["mesh-0"].entities[-1].name == "k8s/default/Address/orders~1"
    model.reconcile(desire(ROUTER, address("orders", prefix="third")))
    assert model.routers["mesh-0"].entities[-1].name == "k8s/default/Address/orders"


def test_another_distribution_of_the_same_prefix_cannot_coexist_so_the_old_one_goes_first() -> None:
    model = running(ROUTER, address("orders"))
    actions = model.reconcile(desire(ROUTER, address("orders", distribution="multicast")))
    assert [type(a) for a in actions if a.router_id == "mesh-0"] == [DeleteEntity, CreateEntity, WriteSeed]


def test_two_addresses_that_swap_their_prefixes() -> None:
    model = running(ROUTER, address("a", prefix="x"), address("b", prefix="y"))
    model.reconcile(desire(ROUTER, address("a", prefix="y"), address("b", prefix="x")))
    assert plan(desire(ROUTER, address("a", prefix="y"), address("b", prefix="x")), model.observed) == ()


def test_an_address_whose_resource_is_gone_is_deleted_and_others_are_left_alone() -> None:
    model = running(ROUTER, address("orders"))
    model.put("mesh-1", Entity(ADDRESS, "by-hand", {"prefix": "mine"}))
    model.put("mesh-1", Entity(ADDRESS, "k8s/default/Address/ghost", {"prefix": "ghost"}))
    actions = model.reconcile(desire(ROUTER))
    deleted = {(a.router_id, a.entity.name) for a in actions if isinstance(a, DeleteEntity)}
    assert deleted == {
        *((f"mesh-{k}", "k8s/default/Address/orders") for k in range(3)),
        ("mesh-1", "k8s/default/Address/ghost"),
    }
    assert "by-hand" in {e.name for e in model.routers["mesh-1"].entities}


def test_a_log_level_is_an_update_and_goes_back_when_it_leaves_the_manifest() -> None:
    model = running()
    noisy = replace(ROUTER, log_levels=(("MESSAGE", "trace"),))
    updates = [a for a in model.reconcile(desire(noisy)) if isinstance(a, UpdateEntity)]
    assert [(a.entity.type, a.changes) for a in updates] == [(LOG, {"enable": ("default", "trace+")})] * 3
    back = [a for a in model.reconcile(desire(ROUTER)) if isinstance(a, UpdateEntity)]
    assert [a.changes for a in back] == [{"enable": ("trace+", "default")}] * 3


def test_a_new_port_of_a_listener_opens_before_the_old_one_closes() -> None:
    model = running()
    actions = model.reconcile(desire(replace(ROUTER, listeners=(Listener("amqp", 6000),))))
    assert [type(a) for a in actions if a.router_id == "mesh-0"] == [CreateEntity, DeleteEntity, WriteSeed]


def test_drift_is_repaired_or_only_watched() -> None:
    model = running(ROUTER, address("orders"))
    kept = tuple(e for e in model.routers["mesh-2"].entities if e.type != ADDRESS)
    model.set("mesh-2", entities=kept)
    watching = replace(ROUTER, drift="Report")
    assert plan(desire(watching, address("orders")), model.observed) == ()
    repaired = model.reconcile(desire(ROUTER, address("orders")))
    assert [(type(a), a.router_id) for a in repaired] == [(CreateEntity, "mesh-2")]


def test_a_change_of_the_manifest_is_carried_out_with_drift_report_too() -> None:
    model = running(replace(ROUTER, drift="Report"))
    assert model.reconcile(desire(replace(ROUTER, drift="Report"), address("orders")))


@pytest.mark.parametrize(
    ("state", "expected"),
    [(RouterState.STARTING, ()), (RouterState.WAITING, ()), (RouterState.EXITED, (RestartRouter,))],
)
def test_only_an_exited_router_is_started_again(state: RouterState, expected: tuple[type, ...]) -> None:
    model = running()
    model.set("mesh-1", state=state, entities=(), reason="signal 9")
    actions = plan(desire(ROUTER, address("orders")), model.observed)
    assert tuple(type(a) for a in actions if a.router_id == "mesh-1") == expected
    assert {a.router_id for a in actions} >= {"mesh-0", "mesh-2"}


def test_a_paused_mesh_is_left_as_it_is() -> None:
    model = running()
    assert plan(desire(replace(ROUTER, paused=True, size=1)), model.observed) == ()


def test_what_a_router_reports_in_other_words_is_no_difference() -> None:
    model = running(ROUTER, address("orders", waypoint=True))
    for router in list(model.routers.values()):
        told = []
        for entity in router.entities:
            attributes = dict(entity.attributes)
            if entity.type == LISTENER:
                attributes |= {"port": int(attributes["port"]), "linkCapacity": 250, "identity": entity.name}
            if entity.type == ADDRESS:
                attributes |= {"ingressPhase": 0, "egressPhase": 1, "pattern": None}
            if entity.type == CONNECTOR:
                attributes |= {"cost": 1, "connectionStatus": "SUCCESS"}
            told.append(Entity(entity.type, entity.name, attributes))
        model.set(router.id, entities=tuple(told))
    assert plan(desire(ROUTER, address("orders", waypoint=True)), model.observed) == ()


def test_descriptions_are_for_people() -> None:
    model = ModelMesh()
    model.reconcile(desire(ROUTER, address("orders")))
    model.reconcile(desire(ROUTER, address("orders", prefix="sales", distribution="multicast")))
    model.converge(desire(replace(ROUTER, size=2, log_level="debug")))
    said = [a.describe() for a in model.log]
    assert "create router mesh-2 (listens on 5674; connects to mesh-0, mesh-1)" in said
    assert "mesh-0: replace address orders (prefix sales, multicast)" in said
    assert "mesh-0: remove the old address orders (prefix orders, balanced)" in said
    assert "mesh-0: update log DEFAULT: enable info+ → debug+" in said
    assert "drain router mesh-2 (at most 30 s)" in said
    assert "stop router mesh-2" in said


MATCHES = st.one_of(
    st.sampled_from("xyz").map(lambda m: {"prefix": m}), st.sampled_from(["x/#", "*.y"]).map(lambda m: {"pattern": m})
)
ADDRESSES = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(MATCHES, st.sampled_from(["balanced", "closest", "multicast"]), st.booleans()),
    max_size=3,
).map(lambda d: [address(n, **m, distribution=dist, waypoint=way) for n, (m, dist, way) in d.items()])
ROUTERS = st.builds(
    Router,
    ref=st.just(MESH),
    size=st.integers(0, 9),
    role=st.just("interior"),
    topology=st.sampled_from(["Auto", "Full", "Chordal"]),
    listeners=st.lists(st.sampled_from([5000, 5100, 5200]), max_size=2, unique=True).map(
        lambda ports: tuple(Listener(f"l{i}", port) for i, port in enumerate(ports))
    ),
    log_level=st.sampled_from(["info", "debug"]),
)


@given(st.lists(st.tuples(ROUTERS, ADDRESSES), min_size=1, max_size=4))
def test_any_sequence_of_manifests_is_reached_without_a_restart(steps: list[tuple[Router, list[Address]]]) -> None:
    model = ModelMesh()
    for router, addresses in steps:
        before = set(model.routers)
        wanted = desire(router, *addresses)
        actions = model.converge(wanted)  # the model refuses what a router would refuse, and the loss of messages
        assert plan(wanted, model.observed) == ()
        created = {a.router_id for a in actions if isinstance(a, CreateRouter)}
        assert not created & before
        assert set(model.routers) == {r.id for r in wanted.mesh.routers}


@given(ROUTERS, ADDRESSES, ROUTERS, ADDRESSES, st.data())
def test_a_plan_interrupted_anywhere_is_finished_by_the_next(
    first: Router, first_addresses: list[Address], then: Router, then_addresses: list[Address], data: st.DataObject
) -> None:
    model = running(first, *first_addresses)
    wanted = desire(then, *then_addresses)
    actions = plan(wanted, model.observed)
    for action in actions[: data.draw(st.integers(0, len(actions)))]:
        model.apply(action)
    model.converge(wanted)
    assert plan(wanted, model.observed) == ()
