"""Plans for a cluster: order, scaling, placement, drift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from waymesh_operator.planning.actions import Action, ApplyObject, DeleteObject, Scale
from waymesh_operator.planning.plan import drift, plan
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, BrokerTls, LinkRoute, Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Pod, Ref
from waymesh_operator.router_entities.actions import (
    CreateEntity,
    DeleteEntity,
    DrainRouter,
    QuiesceEntity,
    UpdateEntity,
    plan_entities,
)
from waymesh_operator.router_entities.names import (
    ADDRESS,
    AUTOLINK,
    CONNECTOR,
    LINKROUTE,
    LISTENER,
    SSL_PROFILE,
    Entity,
)
from waymesh_schema.entities import entity_type
from waymesh_schema.model import BOOLEAN, INTEGER, MAP, Attribute

from .cluster_model import MESH, SETTINGS, ModelCluster, router

pytestmark = pytest.mark.engine_independent

AMQP = (Listener("amqp", 5672),)
BROKER = Broker(Ref("ns", "b"), MESH, (("broker", 5672),))
ONE = replace(BROKER, placement="One")
LINK = AutoLink(Ref("ns", "l"), MESH, "queue", "in", broker=BROKER.ref)


def mesh(size: int = 3, **fields: Any) -> Resources:
    """Resources with one client listener."""
    others = {name: fields.pop(name) for name in ("addresses", "brokers", "autolinks", "linkroutes") if name in fields}
    return Resources(router(size, listeners=AMQP, **fields), **others)


def address(name: str, **fields: Any) -> Address:
    return Address(**{"ref": Ref("ns", name), "router": MESH, "prefix": name, **fields})


def running(resources: Resources | None = None) -> ModelCluster:
    model = ModelCluster()
    model.converge(resources or mesh())
    model.log.clear()
    return model


def kinds(actions: tuple[Action, ...] | list[Action]) -> list[str]:
    """Each action by what it is about."""
    return [a.manifest["kind"] if isinstance(a, ApplyObject) else type(a).__name__ for a in actions]


def test_a_mesh_comes_with_its_objects_in_order_and_then_nothing_is_to_do() -> None:
    model = ModelCluster()
    actions = model.reconcile(mesh())
    assert kinds(actions) == [
        *["Secret"] * 4, *["Service"] * 3, "PodDisruptionBudget", "NetworkPolicy", "ConfigMap", "StatefulSet",
    ]  # fmt: skip
    assert all(isinstance(a, ApplyObject) and a.new for a in actions)
    assert set(model.routers) == {"mesh-0", "mesh-1", "mesh-2"}
    assert model.reconcile(mesh()) == ()


def test_a_pod_boots_with_all_that_it_would_be_told() -> None:
    resources = mesh(addresses=(address("a"),), brokers=(ONE,), autolinks=(LINK,), log_levels=(("HTTP", "none"),))
    model = running(resources)
    assert [e.type for e in model.routers["mesh-2"].entities].count(CONNECTOR) >= 2
    assert sum(AUTOLINK in {e.type for e in r.entities} for r in model.routers.values()) == 1
    for ordinal in range(3):
        model.boot(ordinal)
    assert model.reconcile(resources) == ()


def test_scale_up_touches_no_running_router_and_no_template() -> None:
    model = running()
    before = dict(model.routers)
    actions = model.converge(mesh(5))
    assert kinds(actions) == ["ConfigMap", "StatefulSet"]
    assert len(model.routers) == 5
    assert model.restarts == 0
    assert all(model.routers[name] is live for name, live in before.items())


def test_what_boots_while_it_leaves_still_finds_its_configuration() -> None:
    model = running()
    model.reconcile(mesh(1))
    assert "mesh-2.json" in model.objects["ConfigMap", "mesh-seed"]["data"]


def test_a_router_that_still_drains_is_waited_for() -> None:
    model = running()
    model.reconcile(mesh(2))
    model.draining["mesh-2"] = "draining"
    assert plan(model.desire(mesh(2)), model.observed) == ()
    model.draining["mesh-2"] = "drained"
    assert [type(a) for a in plan(model.desire(mesh(2)), model.observed)] == [Scale]


def test_a_router_that_does_not_answer_is_not_waited_for() -> None:
    model = running()
    model.stop("mesh-2")
    assert [type(a).__name__ for a in model.reconcile(mesh(2))] == ["ApplyObject", "Scale"]


def test_a_size_that_goes_up_again_takes_the_router_back() -> None:
    model = running()
    model.reconcile(mesh(2))
    actions = model.reconcile(mesh(3))
    assert kinds(actions) == ["UndrainRouter", "StatefulSet"]
    assert model.reconcile(mesh(3)) == ()
    assert model.draining["mesh-2"] == "none"


def test_a_router_that_a_person_drains_stays_so() -> None:
    model = running()
    model.draining["mesh-1"] = "drained"
    assert plan(model.desire(mesh()), model.observed) == ()


def test_to_zero_and_back() -> None:
    model = running()
    actions = model.converge(mesh(0))
    assert [a.router_id for a in actions if isinstance(a, DrainRouter)] == ["mesh-2", "mesh-1", "mesh-0"]
    assert not model.routers
    assert model.reconcile(mesh(0)) == ()
    model.converge(mesh(3))
    assert len(model.routers) == 3


def test_live_changes_restart_nothing_and_reach_the_seeds_last() -> None:
    model = running()
    listeners = (Listener("amqp", 5672), Listener("amqps", 5671, tls=True, auth="mtls"))
    wanted = Resources(
        router(3, listeners=listeners, log_level="debug"),
        addresses=(address("a"),),
        brokers=(replace(BROKER, tls=BrokerTls()),),
        autolinks=(LINK,),
        linkroutes=(LinkRoute(Ref("ns", "r"), MESH, "both", prefix="x", broker=BROKER.ref),),
    )
    actions = model.reconcile(wanted)
    assert kinds(actions)[:2] == ["Service", "NetworkPolicy"]
    assert kinds(actions)[-1] == "ConfigMap"
    made = [a.entity.type for a in actions if isinstance(a, CreateEntity) and a.router_id == "mesh-0"]
    assert made == [SSL_PROFILE, LISTENER, CONNECTOR, ADDRESS, AUTOLINK, LINKROUTE, LINKROUTE]
    assert model.restarts == 0
    assert model.reconcile(wanted) == ()


def test_what_others_refer_to_goes_last() -> None:
    model = running(mesh(brokers=(replace(BROKER, tls=BrokerTls()),), autolinks=(LINK,)))
    removals = (a for a in model.reconcile(mesh()) if isinstance(a, DeleteEntity | QuiesceEntity))
    assert [a.entity.type for a in removals if a.router_id == "mesh-0"] == [AUTOLINK, CONNECTOR, SSL_PROFILE]


def test_an_autolink_quiesces_once_and_goes_by_itself_and_no_seed_has_it() -> None:
    with_link = mesh(brokers=(BROKER,), autolinks=(LINK,))
    model = running(with_link)
    model.busy = True
    actions = model.reconcile(mesh(brokers=(BROKER,)))
    assert [type(a) for a in actions] == [QuiesceEntity] * 3 + [ApplyObject]
    assert model.entities("mesh-0")["k8s/ns/AutoLink/l"].attributes["quiescing"]
    assert model.reconcile(mesh(brokers=(BROKER,))) == ()
    model.boot(0)
    assert "k8s/ns/AutoLink/l" not in model.entities("mesh-0")
    model.busy = False
    model.settle()
    assert all("k8s/ns/AutoLink/l" not in model.entities(name) for name in model.routers)


def test_an_autolink_that_is_wanted_again_while_it_quiesces_is_taken_back() -> None:
    with_link = mesh(brokers=(BROKER,), autolinks=(LINK,))
    model = running(with_link)
    model.busy = True
    model.reconcile(mesh(brokers=(BROKER,)))
    actions = [a for a in model.reconcile(with_link) if isinstance(a, UpdateEntity)]
    assert [a.changes for a in actions] == [{"quiescing": (True, False)}] * 3
    assert model.reconcile(with_link) == ()


def test_an_autolink_that_goes_at_once_is_deleted() -> None:
    model = running(mesh(brokers=(BROKER,), autolinks=(replace(LINK, deletion_policy="Immediate"),)))
    model.busy = True
    model.reconcile(mesh(brokers=(BROKER,)))
    assert not any(e.type == AUTOLINK for e in model.entities("mesh-0").values())


def test_autolinks_changed_again_while_former_ones_quiesce_stand_beside_them() -> None:
    model = running(mesh(brokers=(BROKER,), autolinks=(LINK,)))
    model.busy = True
    for queue in ("q1", "q2"):
        model.reconcile(mesh(brokers=(BROKER,), autolinks=(replace(LINK, address=queue),)))
    links = [e for e in model.entities("mesh-0").values() if e.type == AUTOLINK]
    assert sorted((e.name[-2:], e.attributes["address"], bool(e.attributes.get("quiescing"))) for e in links) == [
        ("/l", LINK.address, True), ("~1", "q1", True), ("~2", "q2", False),
    ]  # fmt: skip


def test_a_selector_that_changes_or_goes_is_a_new_link_beside_the_old_one() -> None:
    selecting = replace(LINK, selector="a = 1", capabilities=("queue",), link_properties=(("priority", 3),))
    model = running(mesh(brokers=(BROKER,), autolinks=(selecting,)))
    model.converge(mesh(brokers=(BROKER,), autolinks=(selecting,)))
    assert model.log == []
    for link in (replace(selecting, selector="a = 2"), replace(selecting, selector=None, link_properties=())):
        model.log.clear()
        model.converge(mesh(brokers=(BROKER,), autolinks=(link,)))
        (entity,) = [e for e in model.entities("mesh-0").values() if e.type == AUTOLINK]
        assert entity.attributes.get("selector") == link.selector
        assert {"CreateEntity", "QuiesceEntity"} <= set(kinds(model.log))


AT_CREATE = [
    attribute
    for attribute in entity_type(AUTOLINK).attributes.values()
    if attribute.create and not attribute.update and attribute.name not in ("name", "type")
]


@pytest.mark.parametrize("attribute", AT_CREATE, ids=lambda attribute: attribute.name)
def test_whatever_changes_of_an_autolink_the_new_one_comes_before_the_old_one_goes(attribute: Attribute) -> None:
    values = {BOOLEAN: (False, True), INTEGER: (1, 2), MAP: ({"a": 1}, {"a": 2})}
    before, after = attribute.values[:2] if attribute.values else values.get(attribute.type, ("a", "b"))
    old, new = (Entity(AUTOLINK, "k8s/ns/AutoLink/l", {attribute.name: value}) for value in (before, after))
    create, quiesce = plan_entities("mesh-0", [new], [old])
    assert isinstance(create, CreateEntity)
    assert isinstance(quiesce, QuiesceEntity)


def test_another_authority_of_a_broker_is_a_profile_beside_the_old_one() -> None:
    secured = replace(BROKER, tls=BrokerTls())
    model = running(mesh(brokers=(secured,), autolinks=(LINK,)))
    model.secrets = {"ca": {"ca.crt": b"pem"}}
    wanted = mesh(brokers=(replace(BROKER, tls=BrokerTls("ca")),), autolinks=(LINK,))
    steps = [
        (type(action), action.entity.type)
        for action in model.reconcile(wanted)
        if isinstance(action, (CreateEntity, UpdateEntity, DeleteEntity)) and action.router_id == "mesh-0"
    ]
    assert steps == [
        (DeleteEntity, CONNECTOR), (CreateEntity, SSL_PROFILE), (CreateEntity, CONNECTOR), (DeleteEntity, SSL_PROFILE),
    ]  # fmt: skip
    assert "k8s/ns/Broker/b" in model.entities("mesh-0")
    assert model.reconcile(wanted) == ()


def test_the_drain_time_out_is_told_live_too() -> None:
    model = running()
    updates = [a for a in model.reconcile(mesh(drain_timeout_s=60)) if isinstance(a, UpdateEntity)]
    assert [a.changes for a in updates] == [{"drainTimeoutSeconds": (30, 60)}] * 3


def test_what_is_placed_on_one_router_moves_before_that_router_leaves() -> None:
    broker = replace(ONE, placement="List", ordinals=(2,))
    model = running(mesh(brokers=(broker,), autolinks=(LINK,)))
    moved = mesh(2, brokers=(replace(broker, ordinals=(0,)),), autolinks=(LINK,))
    actions = [a for a in model.reconcile(moved) if isinstance(a, CreateEntity | DeleteEntity | DrainRouter)]
    assert [(type(a), a.router_id) for a in actions] == [
        (CreateEntity, "mesh-0"), (CreateEntity, "mesh-0"), (DrainRouter, "mesh-2"),
    ]  # fmt: skip


def test_what_is_placed_on_one_router_stays_until_its_new_place_has_it() -> None:
    broker = replace(ONE, placement="List", ordinals=(0,))
    model = running(mesh(brokers=(broker,), autolinks=(LINK,)))
    model.refuses = {"k8s/ns/AutoLink/l"}
    moved = mesh(brokers=(replace(broker, ordinals=(1,)),), autolinks=(LINK,))
    model.converge(moved)
    assert "k8s/ns/AutoLink/l" in model.entities("mesh-0")
    assert "k8s/ns/Broker/b" not in model.entities("mesh-0")
    model.refuses = set()
    model.converge(moved)
    assert "k8s/ns/AutoLink/l" in model.entities("mesh-1")
    assert "k8s/ns/AutoLink/l" not in model.entities("mesh-0")


@pytest.mark.parametrize("size", range(1, 12))
def test_one_router_is_chosen_so_that_growth_moves_it_only_to_the_new_one(size: int) -> None:
    model = ModelCluster()
    before = model.desire(mesh(size, brokers=(ONE,))).placements["k8s/ns/Broker/b"]
    after = model.desire(mesh(size + 1, brokers=(ONE,))).placements["k8s/ns/Broker/b"]
    assert after in (before, (f"mesh-{size}",))


def test_a_missing_secret_leaves_what_runs_alone_and_comes_back() -> None:
    broker = replace(BROKER, mechanism="SCRAM-SHA-256", secret="s", tls=BrokerTls())
    resources = mesh(brokers=(broker,), autolinks=(LINK,))
    model = ModelCluster()
    model.secrets = {"s": None}
    model.converge(resources)
    assert "k8s/ns/Broker/b" not in model.entities("mesh-0")
    model.secrets = {"s": {"username": b"u", "password": b"p"}}
    model.converge(resources)
    assert model.entities("mesh-0")["k8s/ns/Broker/b"].attributes["saslUsername"] == "u"
    model.secrets = {"s": None}
    model.converge(resources)
    assert {"k8s/ns/Broker/b", "k8s/ns/AutoLink/l"} <= set(model.entities("mesh-0"))


def test_objects_that_were_edited_or_deleted_come_back() -> None:
    model = running()
    del model.objects["Service", "mesh"]
    model.objects["StatefulSet", "mesh"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    model.objects["PodDisruptionBudget", "mesh"]["spec"]["maxUnavailable"] = 3
    model.objects["ConfigMap", "mesh-seed"]["data"].pop("mesh-1.json")
    assert kinds(model.reconcile(mesh())) == ["Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet"]
    assert model.reconcile(mesh()) == ()


def test_objects_of_ours_that_are_wanted_no_more_go_and_others_stay() -> None:
    model = running()
    model.objects["Service", "theirs"] = {"metadata": {"name": "theirs"}, "kind": "Service"}
    wanted = replace(mesh(), router=router(3))
    assert kinds(model.reconcile(wanted))[-1] == "DeleteObject"
    assert DeleteObject("Service", "mesh", "v1") in model.log
    assert ("Service", "theirs") in model.objects


def test_a_person_s_restart_and_a_new_default_image_are_no_difference() -> None:
    model = running()
    live = model.objects["StatefulSet", "mesh"]
    live["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    newer = replace(SETTINGS, router_image="registry/router:2")
    desired = model.desire(mesh(), settings=newer, image_now="registry/router:1")
    assert plan(desired, model.observed) == ()
    assert "registry/router:2" in desired.restart_pending


def test_a_field_that_leaves_the_manifest_is_taken_back() -> None:
    model = running(mesh(pod=Pod(node_selector={"disk": "ssd"}, resources={"limits": {"cpu": "0.5"}})))
    model.objects["StatefulSet", "mesh"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "500m"}
    }
    assert model.reconcile(mesh(pod=Pod(node_selector={"disk": "ssd"}, resources={"limits": {"cpu": "0.5"}}))) == ()
    assert kinds(model.reconcile(mesh())) == ["StatefulSet"]
    assert "nodeSelector" not in model.objects["StatefulSet", "mesh"]["spec"]["template"]["spec"]


def test_drift_is_repaired_or_only_counted() -> None:
    resources = mesh(addresses=(address("a"),))
    model = running(resources)
    kept = [e for e in model.routers["mesh-1"].entities if e.type != ADDRESS]
    by_hand = Entity(ADDRESS, "by-hand", {"prefix": "mine"})
    model.routers["mesh-1"] = replace(model.routers["mesh-1"], entities=(*kept, by_hand))
    watching = replace(resources, router=replace(resources.router, drift="Report"))
    assert plan(model.desire(watching), model.observed) == ()
    found = drift(model.desire(watching), model.observed)
    assert (found.current, found.unmanaged) == (1, 1)
    assert [type(a) for a in model.reconcile(resources)] == [CreateEntity]
    assert drift(model.desire(resources), model.observed).current == 0
    assert "by-hand" in model.entities("mesh-1")


def test_a_change_is_handed_out_and_counts_as_no_drift_with_report_too() -> None:
    model = running(mesh(drift="Report"))
    wanted = mesh(drift="Report", addresses=(address("a"),))
    assert drift(model.desire(wanted), model.observed).current == 0
    assert [type(a) for a in model.reconcile(wanted)] == [CreateEntity] * 3 + [ApplyObject]


def test_an_entity_that_routers_refuse_stops_nothing_else() -> None:
    model = running()
    model.refuses = {"k8s/ns/AutoLink/l"}
    resources = mesh(4, brokers=(BROKER,), autolinks=(LINK,), addresses=(address("a"),))
    model.converge(resources)
    assert len(model.routers) == 4
    assert "k8s/ns/Address/a" in model.entities("mesh-3")


def test_a_paused_mesh_is_left_alone() -> None:
    model = running()
    assert plan(model.desire(mesh(1, paused=True)), model.observed) == ()


def test_without_certificates_everything_else_goes_on() -> None:
    model = running()
    steps = plan(model.desire(mesh(3, addresses=(address("new"),)), tls=None), model.observed)
    assert {step.entity.name for step in steps if isinstance(step, CreateEntity)} == {"k8s/ns/Address/new"}
    assert "update ConfigMap mesh-seed" in [step.describe() for step in steps]
    unborn = ModelCluster()
    steps = plan(unborn.desire(mesh(3), tls=None), unborn.observed)
    applied = {step.manifest["kind"] for step in steps if isinstance(step, ApplyObject)}
    assert "Service" in applied
    assert "StatefulSet" not in applied
