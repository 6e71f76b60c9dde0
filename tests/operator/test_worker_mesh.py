"""The life of a mesh, against fakes: created, kept, scaled up and down, taken over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_operator.errors import KubeError, NamespaceEnding, WaymeshError
from waymesh_operator.places import reconciler
from waymesh_operator.places.kubernetes.context import ClusterContext
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.places.kubernetes.worker import place
from waymesh_operator.places.steady import FULL_S
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.plan import plan
from waymesh_operator.resources.dependents import Resources

pytestmark = pytest.mark.engine_independent


def test_worker_from_a_router_to_a_mesh() -> None:
    async def story(lab: Lab) -> None:
        lab.router(3)
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0", "mesh-1", "mesh-2"]
        assert lab.condition("Converged")[0] == "True"
        assert lab.condition("Ready")[0] == "True"
        assert lab.status()["size"] == 3

    run(story)


def test_worker_resync_of_a_steady_mesh_asks_the_api_server_nothing() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.settle()
        lab.kube.calls.clear()
        for _ in range(5):
            lab.later(30)
            assert await lab.turn() == "done"
        assert lab.kube.calls == []

    run(story)


def test_worker_grows_and_shrinks_by_drained_routers() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        lab.router(4)
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0", "mesh-1", "mesh-2", "mesh-3"]
        lab.live("mesh-3").unsettled = 7
        lab.router(2)
        for _ in range(5):
            await lab.turn()
            lab.control()
        assert lab.live("mesh-3").router["draining"] is True
        assert lab.live("mesh-2").router["draining"] is True
        assert len(lab.mesh.routers) == 4
        lab.live("mesh-3").unsettled = 0
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0", "mesh-1"]
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_worker_to_zero_and_back() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        lab.router(0)
        await lab.settle()
        assert lab.mesh.names_up() == []
        writes = len(lab.kube.writes())
        lab.later(30)
        await lab.turn()
        assert len(lab.kube.writes()) == writes
        lab.router(2)
        await lab.settle()
        assert lab.condition("Converged")[0] == "True"

    run(story)


def test_worker_exports_to_a_claim_as_soon_as_it_is_there_and_changes_the_pace_live() -> None:
    async def story(lab: Lab) -> None:
        def volume() -> Any:
            pod = lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["template"]["spec"]
            return next(item for item in pod["volumes"] if item["name"] == "telemetry")

        lab.router(1, telemetry={"target": "Claim", "claimRef": {"name": "files"}})
        await lab.settle()
        assert lab.condition("ResolvedRefs") == ("False", "ClaimMissing")
        assert lab.condition("Ready") == ("True", "Ready")  # the mesh works without its export
        assert volume() == {"name": "telemetry", "emptyDir": {}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        metadata = {"name": "files", "namespace": NAMESPACE}
        lab.kube.put({**claim, "metadata": metadata, "spec": {"accessModes": ["ReadWriteMany"]}})
        await lab.settle()
        assert lab.condition("ResolvedRefs")[0] == "True"
        assert volume()["persistentVolumeClaim"] == {"claimName": "files"}
        before = lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]
        lab.router(1, telemetry={"target": "Claim", "claimRef": {"name": "files"}, "sampleOneIn": 7})
        await lab.settle()
        assert lab.live("mesh-0").rows["telemetry"]["telemetry/own"]["sampleOneIn"] == 7
        assert lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"] == before["spec"]

    run(story)


def test_worker_repairs_what_was_changed_behind_its_back() -> None:
    async def story(lab: Lab) -> None:
        lab.router(2)
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        lab.kube.edit("StatefulSet", NAMESPACE, "mesh", lambda body: body["spec"].update(serviceName="other"))
        lab.kube.edit("Service", NAMESPACE, "mesh", lambda body: body["spec"].update(ports=[]))
        lab.kube.edit("ConfigMap", NAMESPACE, "mesh-seed", lambda body: body.update(data={}))
        lab.kube.remove("PodDisruptionBudget", NAMESPACE, "mesh")
        lab.live("mesh-0").rows["router.config.address"].clear()
        lab.later(60)
        await lab.settle()
        assert lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["serviceName"] == "mesh-mesh"
        assert lab.kube.objects["Service", NAMESPACE, "mesh"]["spec"]["ports"]
        assert "mesh-0.json" in lab.kube.objects["ConfigMap", NAMESPACE, "mesh-seed"]["data"]
        assert ("PodDisruptionBudget", NAMESPACE, "mesh") in lab.kube.objects
        assert lab.live("mesh-0").names("router.config.address") == ["k8s/ns/Address/orders"]
        assert lab.status()["drift"]["repaired"] >= 4
        assert any(reason == "Repaired" for reason, _ in lab.kube.events())

    run(story)


def test_worker_only_reports_drift_where_that_is_asked_for() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1, drift="Report")
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        lab.live("mesh-0").rows["router.config.address"].clear()
        lab.later(60)
        await lab.settle()
        assert lab.live("mesh-0").names("router.config.address") == []
        assert lab.status()["drift"]["current"] == 1

    run(story)


def test_worker_leaves_objects_of_others_alone() -> None:
    async def story(lab: Lab) -> None:
        foreign = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mesh", "namespace": NAMESPACE}}
        lab.kube.put({**foreign, "spec": {"ports": [{"port": 80}]}})
        lab.router(1)
        for _ in range(3):
            with pytest.raises(WaymeshError, match="is not owned by this Router"):
                await lab.turn()
            lab.control()
        assert lab.kube.objects["Service", NAMESPACE, "mesh"]["spec"]["ports"] == [{"port": 80}]
        assert lab.condition("Programmed") == ("False", "Conflicted")

    run(story)


def test_a_router_whose_object_would_be_that_of_another_router_waits_and_says_whose_it_is() -> None:
    """The headless Service of Router mesh has the name of the Service for clients of Router mesh-mesh."""
    owner = {"kind": "Router", "name": "mesh-mesh", "uid": "u-other", "controller": True}

    async def story(lab: Lab) -> None:
        metadata = {"name": "mesh-mesh", "namespace": NAMESPACE, "ownerReferences": [owner]}
        older = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 5672}]}}
        lab.kube.put(older)
        lab.router(1)
        for _ in range(3):
            with pytest.raises(WaymeshError, match="Service mesh-mesh exists and belongs to Router mesh-mesh; it is"):
                await lab.turn()
            lab.control()
        service = lab.kube.objects["Service", NAMESPACE, "mesh-mesh"]
        assert (service["spec"], service["metadata"]["ownerReferences"]) == (older["spec"], [owner])
        assert lab.mesh.names_up() == []
        assert lab.condition("Stalled") == ("True", "Conflicted")
        assert lab.status()["phase"] == "Stalled"
        lab.kube.remove("Service", NAMESPACE, "mesh-mesh")
        await lab.settle()
        assert lab.condition("Stalled")[0] == "False"
        assert lab.condition("Ready")[0] == "True"

    run(story)


def test_worker_of_a_paused_router_does_nothing() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.router(3, paused=True)
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0"]
        assert lab.condition("Paused")[0] == "True"

    run(story)


def test_worker_ends_with_its_mesh_and_dependents_say_that_the_router_is_missing() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        lab.kube.remove("Router", NAMESPACE, "mesh")
        lab.control()
        await lab.settle()
        assert lab.kube.select("StatefulSet") == []
        assert lab.condition("ResolvedRefs", "Address", "orders")[0] == "False"
        lab.kube.remove("Address", NAMESPACE, "orders")
        assert await lab.turn() is None

    run(story)


def test_worker_makes_nothing_anew_for_a_router_that_is_being_deleted() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        lab.kube.edit("Router", NAMESPACE, "mesh", lambda body: body["metadata"].update(deletionTimestamp="now"))
        lab.kube.remove("Service", NAMESPACE, "mesh")
        for _ in range(3):
            await lab.turn()
        assert ("Service", NAMESPACE, "mesh") not in lab.kube.objects

    run(story)


def test_worker_tries_once_a_turn_in_a_namespace_that_is_being_deleted() -> None:
    def refuse(verb: str, kind: str, name: str) -> None:
        if verb == "apply":
            raise NamespaceEnding(403, "it is being terminated")

    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        for kind in ("Service", "PodDisruptionBudget"):
            for body in lab.kube.select(kind, NAMESPACE):
                lab.kube.remove(kind, NAMESPACE, body["metadata"]["name"])
        lab.kube.fail = refuse
        lab.kube.calls.clear()
        assert await lab.turn() == "busy"
        assert [verb for verb, kind, name in lab.kube.writes()] == ["apply"]

    run(story)


def test_worker_keeps_no_finalizer_and_no_annotation_on_what_users_write() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("Address", "orders", prefix="orders")
        await lab.settle()
        for kind, name in (("Router", "mesh"), ("Address", "orders")):
            metadata = lab.kube.objects[kind, NAMESPACE, name]["metadata"]
            assert not metadata.keys() & {"annotations", "finalizers", "ownerReferences"}
        assert not [call for call in lab.kube.calls if call[0] == "apply" and call[1] in ("Router", "Address")]

    run(story)


def test_worker_says_that_cert_manager_is_missing_and_uses_it_where_it_is() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1, tls={"issuer": "CertManager", "authority": 1})
        await lab.settle()
        assert lab.condition("Stalled")[0] == "True"
        assert lab.kube.select("StatefulSet") == []
        lab.kube.unknown_kinds = set()
        await lab.turn()
        assert {item["metadata"]["namespace"] for item in lab.kube.select("Certificate")} == {NAMESPACE}

    run(story)


def test_worker_keeps_no_connection_over_a_pause() -> None:
    """Between requests it sends no heartbeats: the router would end the connection, and seem to be away next time."""

    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        assert lab.live("mesh-0").calls[-1] == ("close", "")
        lab.kube.fail = _busy
        lab.router(2)
        with pytest.raises(WaymeshError):
            await lab.turn()
        assert lab.live("mesh-0").calls[-1] == ("close", "")

    run(story)


def _busy(verb: str, kind: str, name: str) -> None:
    raise KubeError(503, "busy")


def test_worker_removes_the_keys_of_a_deleted_mesh() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        folder = lab.world.keys.folder / "mesh-mesh.ns.svc"
        assert [path.suffix for path in sorted(folder.iterdir())] == [".ca", ".crt", ".key"]
        assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}
        lab.kube.remove("Router", NAMESPACE, "mesh")
        await lab.worker.close()
        assert list(lab.world.keys.folder.iterdir()) == []

    run(story)


def test_worker_plans_again_only_after_a_change_or_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[float] = []

    async def story(lab: Lab) -> None:
        def counted(*args: Any) -> Any:
            plans.append(lab.seconds)
            return plan(*args)

        async def plans_after(change: Callable[[], object]) -> int:
            lab.later(30)
            await lab.settle()
            await lab.settle()
            plans.clear()
            change()
            lab.later(30)  # routers are read again
            await lab.settle()
            return len(plans)

        monkeypatch.setattr(reconciler, "plan", counted)
        lab.router(2)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.settle()
        assert await plans_after(lambda: None) == 0
        assert await plans_after(lambda: lab.later(FULL_S)) == 1
        assert await plans_after(lambda: lab.kube.remove("Service", NAMESPACE, "mesh")) > 0
        assert ("Service", NAMESPACE, "mesh") in lab.kube.objects
        assert await plans_after(lambda: lab.live("mesh-1").rows["router.config.address"].clear()) > 0
        assert lab.live("mesh-1").names("router.config.address") == ["k8s/ns/Address/orders"]
        assert await plans_after(lambda: lab.add("Address", "bills", prefix="bills", distribution="balanced")) > 0
        assert await plans_after(lambda: None) == 0

    run(story)


def test_worker_computes_the_desired_state_once_for_the_passes_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes after the first one find what was changed; what is desired changes with resources and context only."""
    computed: list[int] = []

    def counted(resources: Resources, context: ClusterContext) -> DesiredState:
        computed.append(len(resources.addresses))
        return desired_cluster(resources, context)

    async def story(lab: Lab) -> None:
        lab.router(2)
        await lab.settle()
        monkeypatch.setattr(place, "desired_cluster", counted)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        assert await lab.turn() == "busy"
        assert computed == [1]
        assert lab.live("mesh-1").names("router.config.address") == ["k8s/ns/Address/orders"]
        await lab.settle()
        computed.clear()
        lab.router(3)
        await lab.turn()
        assert len(computed) > 1, "the size of the live StatefulSet, which is part of the context, has changed"
        await lab.settle()
        assert lab.mesh.names_up() == ["mesh-0", "mesh-1", "mesh-2"]

    run(story)
