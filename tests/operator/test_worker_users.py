"""Users of listeners from their Secret to that of the pods: keys alone, which change with the passwords only."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.operator.kit import NAMESPACE, Lab, run
from waymesh_amqp.users import UserFile, make_line

pytestmark = pytest.mark.engine_independent

LISTENERS = [{"name": "amqp", "port": 5672, "auth": "scram", "users": {"secretRef": {"name": "people"}}}]


def people(lab: Lab, **values: str) -> None:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "people", "namespace": NAMESPACE}}
    if ("Secret", NAMESPACE, "people") in lab.kube.objects:
        lab.kube.edit("Secret", NAMESPACE, "people", lambda body: body.update(data=data))
    else:
        lab.kube.put({**manifest, "data": data})


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
