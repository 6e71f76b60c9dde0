"""What a part of a mesh lacks holds up this part only."""

from __future__ import annotations

import base64

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from tests.operator.test_worker_cert_manager import CERT_MANAGER, issue
from waymesh_operator.places.kubernetes import desired
from waymesh_operator.places.steady import FULL_S
from waymesh_operator.router_entities.credentials import USERS_FILE

pytestmark = pytest.mark.engine_independent

LISTENERS = [{"name": "amqp", "port": 5672, "auth": "scram", "users": {"secretRef": {"name": "users"}}}]


def users(lab: Lab, **passwords: str) -> None:
    data = {name: base64.b64encode(password.encode()).decode() for name, password in passwords.items()}
    metadata = {"name": "users", "namespace": NAMESPACE}
    lab.kube.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def users_of_routers(lab: Lab) -> set[str]:
    file = base64.b64decode(lab.kube.objects["Secret", NAMESPACE, "mesh-credentials"]["data"][USERS_FILE])
    return {line.partition(":")[0] for line in file.decode().splitlines()}


async def takes_changes(lab: Lab) -> None:
    """A removed user, a deleted Service, a new Address, a smaller size: all that needs no new configuration to boot."""
    users(lab, alice="a")
    lab.kube.remove("Service", NAMESPACE, "mesh")
    lab.add("Address", "orders", prefix="orders", distribution="balanced")
    lab.later(60)
    await lab.settle()
    assert users_of_routers(lab) == {"alice"}
    assert ("Service", NAMESPACE, "mesh") in lab.kube.objects
    assert lab.live("mesh-0").names("router.config.address") == ["k8s/ns/Address/orders"]
    assert lab.condition("Ready", "Address", "orders")[0] == "True"
    assert lab.condition("Stalled") == ("True", "Stalled")


def test_a_configuration_that_is_too_large_freezes_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(lab: Lab) -> None:
        users(lab, alice="a", bob="b")
        lab.router(2, listeners=LISTENERS)
        await lab.settle()
        seeds = lab.kube.objects["ConfigMap", NAMESPACE, "mesh-seed"]
        monkeypatch.setattr(desired, "LIMIT_BYTES", 10)
        await takes_changes(lab)
        assert lab.kube.objects["ConfigMap", NAMESPACE, "mesh-seed"] == seeds
        serial = lab.kube.objects["Secret", NAMESPACE, "mesh-tls"]["data"]["tls.crt"]
        lab.later(61 * 86400)
        await lab.settle()
        assert lab.kube.objects["Secret", NAMESPACE, "mesh-tls"]["data"]["tls.crt"] != serial, "renewed"
        lab.router(3, listeners=LISTENERS)
        await lab.turn()
        assert lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["replicas"] == 2, "it would not boot"
        lab.router(1, listeners=LISTENERS)
        await lab.settle()
        assert lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["replicas"] == 1
        monkeypatch.undo()
        lab.later(FULL_S)
        await lab.settle()
        assert lab.condition("Stalled")[0] == "False"
        assert lab.kube.objects["ConfigMap", NAMESPACE, "mesh-seed"] != seeds

    run(story)


def test_a_missing_cert_manager_freezes_nothing_else() -> None:
    async def story(lab: Lab) -> None:
        users(lab, alice="a", bob="b")
        lab.kube.unknown_kinds.clear()
        lab.router(2, listeners=LISTENERS, tls=CERT_MANAGER)
        await lab.turn()
        issue(lab)
        await lab.settle()
        lab.kube.unknown_kinds |= {"Certificate", "Issuer"}
        await takes_changes(lab)

    run(story)


def test_the_status_of_a_paused_mesh_says_what_is_and_what_waits() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        await lab.settle()
        end = lab.status()["tls"]["certificateNotAfter"]
        lab.router(1, paused=True)
        await lab.settle()
        assert (lab.condition("Programmed")[0], lab.condition("Ready")[0]) == ("True", "True")
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        lab.later(61 * 86400)
        await lab.settle()
        assert lab.status()["tls"]["certificateNotAfter"] == end, "it is not renewed"
        assert lab.condition("Programmed") == ("False", "Paused")
        assert lab.condition("CertificateExpiring")[0] == "False"
        lab.later(18 * 86400)
        await lab.settle()
        assert lab.condition("CertificateExpiring") == ("True", "CertificateEndsSoon")
        assert lab.condition("Ready")[0] == "True"
        lab.later(14 * 86400)
        await lab.settle()
        assert lab.condition("Ready") == ("False", "CertificateEnded")
        lab.router(1)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"
        assert lab.condition("CertificateExpiring")[0] == "False"

    run(story)


def test_a_router_that_cannot_be_parsed_is_not_ready_and_its_addresses_say_why() -> None:
    async def story(lab: Lab) -> None:
        lab.router(1)
        lab.add("Address", "orders", prefix="orders", distribution="balanced")
        await lab.settle()
        writes = len(lab.kube.writes())
        lab.kube.edit("Router", NAMESPACE, "mesh", lambda body: body["spec"].update(listeners=[{"port": 5672}]))
        await lab.settle()
        for kind, name in (("Router", "mesh"), ("Address", "orders")):
            assert lab.condition("Ready", kind, name)[0] == "False"
        assert lab.condition("Accepted") == ("False", "Unreadable")
        assert lab.status()["phase"] == "NotReady"
        assert lab.condition("ResolvedRefs", "Address", "orders") == ("False", "RouterUnreadable")
        assert {call[0] for call in lab.kube.writes()[writes:]} == {"status"}, "the mesh is left as it is"
        lab.router(1)
        await lab.settle()
        assert lab.condition("Ready")[0] == "True"

    run(story)
