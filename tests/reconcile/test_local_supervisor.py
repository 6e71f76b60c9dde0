"""Local mode's reconcile loop with fakes: start, edits, faults, repair, drain."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waymesh_operator.errors import LocalError, ManifestError
from waymesh_operator.places import reconciler
from waymesh_operator.planning.actions import Action
from waymesh_operator.planning.plan import plan

from .local_fakes import Stage, manifest

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, manifest())
    yield made
    made.supervisor.close()


def test_three_routers_come_up_and_see_each_other(stage: Stage) -> None:
    stage.settle()
    assert stage.ids() == ["mesh-0", "mesh-1", "mesh-2"]
    assert stage.network.said[-1] == "mesh is ready: 3 routers, all connected"
    assert stage.network.changes == []  # a router boots with everything


def test_a_mesh_is_not_ready_while_a_connection_is_missing(stage: Stage) -> None:
    stage.network.cut.add(frozenset({"mesh-1", "mesh-2"}))
    stage.step(10)
    assert not stage.supervisor.converged
    stage.network.cut.clear()
    stage.settle()


def test_a_standalone_router(tmp_path: Path) -> None:
    alone = Stage(tmp_path, manifest(1).replace("size: 1", "role: standalone"))
    alone.settle()
    assert alone.network.said[-1] == "mesh is ready: 1 router"
    assert [row[1]["mode"] for row in alone.seed("mesh-0") if row[0] == "router"] == ["standalone"]
    alone.supervisor.close()


def test_size_five_adds_two_and_leaves_the_three_alone(stage: Stage) -> None:
    stage.settle()
    before = stage.pids()
    stage.write(manifest(5))
    stage.step()
    stage.settle()
    assert stage.ids() == [f"mesh-{k}" for k in range(5)]
    assert {name: pid for name, pid in stage.pids().items() if name in before} == before
    assert stage.network.changes == []


def test_size_two_drains_the_highest_together_and_stops_none_before_those_above_it(stage: Stage) -> None:
    stage.write(manifest(4))
    stage.settle()
    stage.network.router("mesh-3").unsettled = 7
    stage.write(manifest(2))
    stage.step(10)
    assert [change for change in stage.network.changes if change[1] == "update"] == [
        ("mesh-3", "update", "mesh-3"), ("mesh-2", "update", "mesh-2"),
    ]  # fmt: skip
    assert stage.network.signals == []  # mesh-3 waits for its deliveries, mesh-2 for mesh-3
    stage.network.router("mesh-3").unsettled = 0
    stage.step()
    stage.settle()
    assert stage.network.signals == [("mesh-3", signal.SIGTERM), ("mesh-2", signal.SIGTERM)]
    assert stage.ids() == ["mesh-0", "mesh-1"]


def test_a_router_drains_by_itself_and_ends_when_its_time_is_up(stage: Stage) -> None:
    stage.settle()
    stage.network.router("mesh-2").unsettled = 3
    stage.write(manifest(2))
    stage.step(5, seconds=1)
    assert stage.network.changes == [("mesh-2", "update", "mesh-2")]
    assert "drain router mesh-2 (at most 5 s)" in stage.network.said
    assert stage.network.signals == []
    stage.step(3, seconds=1)
    assert stage.network.signals == [("mesh-2", signal.SIGTERM)]
    assert "mesh-2 stops with 3 unsettled deliveries" in stage.network.said


def test_a_router_that_drains_and_is_wanted_again_serves_again(stage: Stage) -> None:
    stage.settle()
    before = stage.pids()
    stage.network.router("mesh-2").unsettled = 3
    stage.write(manifest(2))
    stage.step(3)
    stage.write(manifest(3))
    stage.step(2)
    stage.settle()
    assert stage.network.router("mesh-2").drain_by is None
    assert stage.pids() == before
    assert "take router mesh-2 back into service" in stage.network.said


def test_a_router_that_does_not_end_is_killed(stage: Stage) -> None:
    stage.settle()
    stage.network.router("mesh-2").ignores_sigterm = True
    stage.write(manifest(2))
    stage.step(9, seconds=1)
    assert [number for _, number in stage.network.signals] == [signal.SIGTERM, signal.SIGKILL]
    assert stage.ids() == ["mesh-0", "mesh-1"]


def test_an_edit_of_an_address_acts_live(stage: Stage) -> None:
    stage.settle()
    before = stage.pids()
    stage.write(manifest(3, "news"))
    stage.step(2)
    created = [("create", "k8s/default/Address/news")] * 3
    assert [(what, name) for _, what, name in stage.network.changes] == created
    assert stage.pids() == before
    assert any(row[1].get("prefix") == "news" for row in stage.seed("mesh-1"))


def test_a_bad_edit_is_told_and_changes_nothing(stage: Stage) -> None:
    stage.settle()
    before = stage.pids()
    stage.write(manifest(99))
    stage.step(3)
    assert f"{stage.file}:6: Router/mesh spec.size: must be between 0 and 64 (got 99)" in stage.network.said
    assert stage.network.said[-1] == "the manifests have errors: nothing is changed"
    assert stage.network.said.count(stage.network.said[-1]) == 1
    stage.write(manifest(4))
    stage.step()
    stage.settle()
    assert {name: pid for name, pid in stage.pids().items() if name in before} == before
    assert "mesh-3" in stage.ids()


def test_the_role_cannot_be_edited(stage: Stage) -> None:
    stage.settle()
    stage.write(manifest().replace("size: 3", "size: 3\n  role: standalone"))
    stage.step()
    assert any("role cannot be changed" in text for text in stage.network.said)
    assert len(stage.ids()) == 3


def test_a_dead_router_is_started_again_with_growing_pauses(stage: Stage) -> None:
    stage.settle()
    started = []
    for _ in range(4):
        stage.network.router("mesh-1").die()
        died = stage.now
        while "mesh-1" not in stage.ids():
            stage.step(seconds=0.05)
        started.append(round(stage.now - died, 1))
        stage.step(3, seconds=0.05)
    assert started == sorted(started)
    assert started[0] < 0.5 < started[-1]
    stage.settle()
    assert "mesh-1 ended: signal 9 SIGKILL" in stage.network.said
    assert "restart router mesh-1 (signal 9 SIGKILL)" in stage.network.said


def test_what_was_changed_by_hand_is_put_right_and_what_is_not_ours_stays(stage: Stage) -> None:
    stage.write(manifest(3, "news"))
    stage.settle()
    router = stage.network.router("mesh-1")
    del router.entities["router.config.address"]["k8s/default/Address/news"]
    router.levels["ROUTER"] = "trace+"
    router.entities["listener"]["mine"] = {"name": "mine", "port": "1", "role": "normal"}
    stage.step(3, seconds=1)
    assert "k8s/default/Address/news" in router.entities["router.config.address"]
    assert router.levels["ROUTER"] == "default"
    assert "mine" in router.entities["listener"]


def test_a_refused_entity_is_told_and_does_not_hold_up_the_others(stage: Stage) -> None:
    stage.settle()
    stage.network.router("mesh-0").refuses.add("k8s/default/Address/news")
    stage.write(manifest(4, "news"))
    stage.step(5)
    assert any("news is refused (400)" in text for text in stage.network.said)
    assert sum("news is refused (400)" in text for text in stage.network.said) == 1
    assert "mesh-3" in stage.ids()
    assert "k8s/default/Address/news" in stage.network.router("mesh-2").entities["router.config.address"]
    assert not stage.supervisor.converged
    stage.network.router("mesh-0").refuses.clear()
    stage.step(20)
    assert stage.supervisor.converged


def test_a_router_that_hangs_is_told_and_left_alone(stage: Stage) -> None:
    stage.settle()
    router = stage.network.router("mesh-1")
    router.hangs = True
    stage.write(manifest(3, "news"))
    stage.step(20)
    assert sum("mesh-1 does not answer" in text for text in stage.network.said) == 1
    assert stage.network.signals == []
    router.hangs = False
    stage.step(60)
    assert "k8s/default/Address/news" in router.entities["router.config.address"]


def test_leaving_stops_the_highest_first(stage: Stage) -> None:
    stage.settle()
    stage.supervisor.leave()
    stage.step(10)
    assert stage.supervisor.gone
    assert [name for name, _ in stage.network.signals] == ["mesh-2", "mesh-1", "mesh-0"]


def test_hurry_does_not_wait_for_what_is_unsettled(stage: Stage) -> None:
    stage.settle()
    for router in stage.network.alive():
        router.unsettled = 1
    stage.supervisor.leave()
    stage.step(5)
    assert not stage.network.signals
    stage.supervisor.hurry()
    stage.step(10)
    assert stage.supervisor.gone


def test_a_router_resource_that_is_taken_out_of_the_file_is_stopped(stage: Stage) -> None:
    stage.settle()
    stage.write(manifest().replace("name: mesh", "name: other"))
    stage.step(10)
    assert stage.ids() == ["other-0", "other-1", "other-2"]


def test_a_second_run_on_the_same_state_is_refused(stage: Stage) -> None:
    with pytest.raises(LocalError, match="another `waymesh up` runs this mesh"):
        stage.open()


def test_routers_of_a_run_that_was_killed_are_taken_over(stage: Stage) -> None:
    stage.settle()
    before = stage.pids()
    stage.supervisor.close()
    stage.network.router("mesh-2").die()
    del before["mesh-2"]
    stage.supervisor = stage.open()
    stage.settle()
    assert {name: pid for name, pid in stage.pids().items() if name in before} == before
    assert stage.ids() == ["mesh-0", "mesh-1", "mesh-2"]


def test_bad_manifests_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(ManifestError):
        Stage(tmp_path, manifest(-1))


USERS = """  listeners:
  - {name: amqp, port: 5672, auth: scram, users: {secretRef: {name: users}}}
---
apiVersion: v1
kind: Secret
metadata: {name: users}
"""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (USERS.replace("{name: users}\n", "{name: others}\n"), "Secret users with the users of the listeners does not"),
        (USERS + "stringData: {bob: ''}\n", r"Secret users: these users cannot log in: bob \(not a single line"),
    ],
)
def test_users_who_could_not_log_in_are_told_at_once(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ManifestError, match=f"spec.listeners: {error}"):
        Stage(tmp_path, manifest() + text)


def test_a_paused_mesh_is_left_alone(stage: Stage) -> None:
    stage.settle()
    stage.write(manifest(5) + "  paused: true\n")
    stage.step(5)
    assert len(stage.ids()) == 3


BROKER = """---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: store}
spec:
  routerRef: {name: mesh}
  endpoints: [{host: 127.0.0.1, port: 5772}, {host: 127.0.0.1, port: 5773}]
  auth: {mechanism: SCRAM-SHA-256, secretRef: {name: login}}
  placement: {routers: List, ordinals: [1]}
---
apiVersion: waymesh.io/v1alpha1
kind: AutoLink
metadata: {name: orders-in}
spec: {routerRef: {name: mesh}, brokerRef: {name: store}, address: orders, direction: in}
---
apiVersion: waymesh.io/v1alpha1
kind: LinkRoute
metadata: {name: archive}
spec: {routerRef: {name: mesh}, brokerRef: {name: store}, prefix: archive, direction: both}
"""
SECRET = """---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {username: router, password: PASSWORD}
"""


def names(stage: Stage, router: str) -> set[str]:
    kinds = stage.network.router(router).entities
    return {name for entities in kinds.values() for name in entities if "/Router/" not in name}


def test_a_broker_and_its_links_are_on_its_routers_and_tell_how_they_stand(stage: Stage) -> None:
    stage.network.trouble = {"k8s/default/AutoLink/orders-in": "Node not found: orders"}
    stage.write(manifest() + BROKER + SECRET)
    stage.settle()
    stage.step(5, seconds=1)
    ours = {"Broker/store", "AutoLink/orders-in", "LinkRoute/archive/in", "LinkRoute/archive/out"}
    assert names(stage, "mesh-1") == {f"k8s/default/{name}" for name in ours}
    everywhere = {"k8s/default/LinkRoute/archive/in", "k8s/default/LinkRoute/archive/out"}
    assert names(stage, "mesh-0") == everywhere
    connector = stage.network.router("mesh-1").entities["connector"]["k8s/default/Broker/store"]
    password = stage.folder / "state" / "mesh" / "credentials" / "broker.store.password"
    assert (connector["saslUsername"], connector["saslPassword"]) == ("router", f"file:{password}")
    assert (password.read_text(), password.stat().st_mode & 0o777) == ("PASSWORD", 0o600)
    assert "Broker/store is active on 1/1" in stage.network.said
    assert "LinkRoute/archive is active on 1/1" in stage.network.said
    assert stage.network.said.count("AutoLink/orders-in: mesh-1: Node not found: orders") == 1
    stage.network.trouble = {"k8s/default/Broker/store": "Connection refused"}
    stage.step(5, seconds=1)
    told = ["Broker/store: mesh-1: Connection refused", "AutoLink/orders-in is active on 1/1"]
    assert stage.network.said[-2:] == told


def test_another_password_is_there_for_the_next_connection_and_touches_no_router(stage: Stage) -> None:
    stage.write(manifest() + BROKER + SECRET)
    stage.settle()
    stage.network.changes.clear()
    stage.write(manifest() + BROKER + SECRET.replace("PASSWORD", "another"))
    stage.step(5)
    assert (stage.folder / "state/mesh/credentials/broker.store.password").read_text() == "another"
    assert stage.network.changes == []


def test_a_broker_without_its_secret_is_told_and_stops_nothing_else(stage: Stage) -> None:
    stage.write(manifest(3, "news") + BROKER)
    stage.settle()
    assert "Broker/store: Secret login does not exist" in stage.network.said
    assert "AutoLink/orders-in: Broker store: Secret login does not exist" in stage.network.said
    assert names(stage, "mesh-1") == {"k8s/default/Address/news"}


def test_an_autolink_taken_out_of_the_file_quiesces(stage: Stage) -> None:
    stage.write(manifest() + BROKER + SECRET)
    stage.settle()
    stage.network.changes.clear()
    stage.write(manifest())
    stage.step(5, seconds=1)
    assert names(stage, "mesh-1") == set()
    changes = [(what, name.split("/", 2)[2]) for router, what, name in stage.network.changes if router == "mesh-1"]
    assert changes == [
        ("delete", "LinkRoute/archive/in"), ("delete", "LinkRoute/archive/out"),
        ("update", "AutoLink/orders-in"), ("delete", "Broker/store"),
    ]  # fmt: skip
    assert not list((stage.folder / "state/mesh/credentials").iterdir())


def test_edge_routers_without_a_group_are_seen(stage: Stage) -> None:
    stage.settle()
    stage.network.router("mesh-1").edges_without_group = 2
    stage.step(5, seconds=1)
    (mesh,) = stage.supervisor.meshes
    routers = mesh.observe(stage.network.now).mesh.routers
    assert [routers[name].facts.edges_without_group for name in stage.ids()] == [0, 2, 0]


def test_at_rest_the_plan_is_computed_once_a_second_and_a_change_is_noticed_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []

    def counted(*args: Any) -> tuple[Action, ...]:
        computed.append(1)
        return plan(*args)

    monkeypatch.setattr(reconciler, "plan", counted)
    stage.settle()
    stage.step(20)
    computed.clear()
    stage.step(100)
    assert len(computed) <= 11
    stage.write(manifest(5))
    stage.step()
    stage.settle()
    assert len(stage.ids()) == 5
