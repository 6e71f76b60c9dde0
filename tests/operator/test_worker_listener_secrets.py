"""Secrets of listeners: users become keys that change with the passwords only; what ends soon is told."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_amqp.users import UserFile, make_line
from waymesh_operator.tls.certificates import issue, new_ca

pytestmark = pytest.mark.engine_independent

LISTENERS = [{"name": "amqp", "port": 5672, "auth": "scram", "users": {"secretRef": {"name": "people"}}}]


def secret(lab: Lab, name: str, **values: str) -> None:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
    if ("Secret", NAMESPACE, name) in lab.kube.objects:
        lab.kube.edit("Secret", NAMESPACE, name, lambda body: body.update(data=data))
    else:
        lab.kube.put({**manifest, "data": data})


def people(lab: Lab, **values: str) -> None:
    secret(lab, "people", **values)


def mounted(lab: Lab) -> str:
    """The users file that pods read."""
    data = lab.kube.objects["Secret", NAMESPACE, "mesh-credentials"]["data"]
    return base64.b64decode(data["waymesh.users"]).decode()


def template(lab: Lab) -> Any:
    return lab.kube.objects["StatefulSet", NAMESPACE, "mesh"]["spec"]["template"]


def test_keys_change_with_the_password_and_nothing_else() -> None:
    async def story(lab: Lab) -> None:
        people(lab, alice="one", bob="two")
        lab.router(2, listeners=LISTENERS)
        await lab.settle()
        first, pods = mounted(lab), template(lab)
        assert UserFile.parse(first).verify_plain("alice", "one")
        for manifest in lab.kube.objects.values():
            assert "plain}" not in str(manifest)
        writes = len(lab.kube.writes())
        for _ in range(3):
            lab.later(60)
            await lab.settle()
        assert mounted(lab) == first
        assert not [call for call in lab.kube.writes()[writes:] if call[1] == "Secret"]
        lab.anew()  # another operator
        await lab.settle()
        assert mounted(lab) == first
        people(lab, alice="new", bob="two", carol="three")
        lab.later(60)
        await lab.settle()
        users = UserFile.parse(mounted(lab))
        assert users.verify_plain("alice", "new")
        assert not users.verify_plain("alice", "one")
        assert users.verify_plain("carol", "three")
        assert [line in mounted(lab) for line in first.splitlines()] == [False, False, True, True]
        people(lab, bob="two")
        lab.later(60)
        await lab.settle()
        assert mounted(lab).splitlines() == first.splitlines()[2:]
        assert template(lab) == pods
        assert lab.status()["drift"]["repaired"] == 0

    run(story)


def test_a_changed_or_deleted_users_file_is_put_back_as_it_was() -> None:
    async def story(lab: Lab) -> None:
        people(lab, alice="one")
        lab.router(1, listeners=LISTENERS)
        await lab.settle()
        first = mounted(lab)
        foreign = base64.b64encode(f"{make_line('alice', 'backdoor')}\nmallory:{{plain}}x\n".encode()).decode()
        lab.kube.edit(
            "Secret", NAMESPACE, "mesh-credentials", lambda body: body["data"].update({"waymesh.users": foreign})
        )
        await lab.settle()
        assert mounted(lab) == first
        assert lab.status()["drift"]["repaired"] == 1
        lab.kube.remove("Secret", NAMESPACE, "mesh-credentials")
        await lab.settle()
        assert mounted(lab) == first

    run(story)


def test_stored_keys_are_mounted_as_they_are() -> None:
    async def story(lab: Lab) -> None:
        line = make_line("alice", "one", "SCRAM-SHA-256")
        people(lab, alice=line.removeprefix("alice:"))
        lab.router(1, listeners=LISTENERS)
        await lab.settle()
        assert mounted(lab) == f"{line}\n"

    run(story)


def test_a_certificate_that_ends_soon_is_a_warning() -> None:
    async def story(lab: Lab) -> None:
        leaf = issue(new_ca("own", lab.time), "shop", ["shop.example"], lab.time - timedelta(days=70))
        data = {"tls.crt": leaf.certificate, "tls.key": leaf.key}
        secret(lab, "shop-tls", **{name: value.decode() for name, value in data.items()})
        listener = {"name": "shop", "port": 5671, "tls": True, "certificate": {"secretRef": {"name": "shop-tls"}}}
        lab.router(1, listeners=[listener])
        await lab.settle()
        assert lab.condition("CertificateExpiring")[0] == "False"
        lab.time += timedelta(days=7)
        lab.later(60)
        await lab.settle()
        assert lab.condition("CertificateExpiring")[0] == "True"
        assert lab.condition("Ready")[0] == "True"
        (told,) = [message for reason, message in lab.kube.events() if reason == "CertificateEndsSoon"]
        assert "listener shop: the certificate in Secret shop-tls ends at 2026-01-21T" in told
        registry = lab.world.metrics.registry
        labels = {"namespace": NAMESPACE, "router": "mesh"}
        assert registry.get_sample_value("waymesh_operator_certificate_expiring", labels) == 1
        own = {**labels, "listener": "shop", "field": "certificateNotAfter"}
        end = registry.get_sample_value("waymesh_operator_listener_not_after_seconds", own)
        assert end == datetime(2026, 1, 21, tzinfo=UTC).timestamp()

    run(story)


def test_a_listener_whose_secret_is_missing_names_it_in_each_condition() -> None:
    async def story(lab: Lab) -> None:
        listener = {"name": "amqps", "port": 5671, "tls": True, "certificate": {"secretRef": {"name": "own"}}}
        lab.router(1)
        await lab.settle()
        lab.mesh.refuse = lambda kind, name: "cannot load it" if "amqps" in name else ""
        lab.router(1, listeners=[listener])
        await lab.until(lambda: lab.condition("Programmed")[0] == "False")
        for condition in lab.status()["conditions"]:
            if condition["type"] in ("ResolvedRefs", "Programmed", "Ready"):
                assert (condition["status"], condition["reason"]) == ("False", "SecretMissing")
                assert "listener amqps: Secret own does not exist" in condition["message"]

    run(story)
