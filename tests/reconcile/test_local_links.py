"""`waymesh up`: two meshes joined by a RouterLink, and edge routers that reach a mesh by one."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.local_mode import mesh_up

pytestmark = pytest.mark.e2e

NORTH = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: north}
spec:
  size: 1
  listeners:
  - {name: amqp, port: 5672}
  - name: door
    port: 5671
    role: ROLE
    tls: true
    auth: mtls
    peerNames: [south.link]
    certificate: {secretRef: {name: door}}
    clientAuthorities: {secretRef: {name: links}, revocation: true}
---
apiVersion: v1
kind: Secret
metadata: {name: door}
data: {tls.crt: DOOR_CERT, tls.key: DOOR_KEY}
---
apiVersion: v1
kind: Secret
metadata: {name: links}
data: {ca.crt: CA, ca.crl: LIST}
"""
SOUTH = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: south}
spec:
  size: 2
  role: OWN_ROLE
  listeners: [{name: amqp, port: 5672}]
---
apiVersion: waymesh.io/v1alpha1
kind: RouterLink
metadata: {name: to-north}
spec: {routerRef: {name: south}, role: ROLE, COST tokenSecretRef: {name: token}}
---
apiVersion: v1
kind: Secret
metadata: {name: token}
data: {ca.crt: CA, tls.crt: CERT, tls.key: KEY, mesh: MESH, role: TOKEN_ROLE, expires: ENDS, addresses: ADDRESSES}
"""


def coded(value: bytes | Path) -> str:
    return base64.b64encode(value.read_bytes() if isinstance(value, Path) else value).decode()


def filled(text: str, **values: str) -> str:
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f" {name}", f" {values[name]}")
    return text


@pytest.mark.parametrize(("role", "own_role"), [("inter-router", "interior"), ("edge", "edge")])
def test_messages_cross_from_one_mesh_to_another(tmp_path: Path, role: str, own_role: str) -> None:
    authority = Authority(tmp_path)
    door = authority.issue("door", {"CN": "door"}, ("127.0.0.1",))
    router = authority.issue("router", {"CN": "south"}, ("south.link",))
    client = authority.issue("client", {"CN": "client"}, ("client.example",))
    folders = [tmp_path / name for name in ("north", "south")]
    for folder in folders:
        folder.mkdir()
    ca = coded(authority.cert)
    valid = coded(authority.revoke())
    keys = {"DOOR_CERT": coded(door.cert), "DOOR_KEY": coded(door.key)}
    north_text = filled(NORTH, ROLE=role, CA=ca, LIST=valid, **keys)
    with mesh_up(folders[0], north_text, "north is ready: 1 router") as north:
        port = int(north._url("north-0", "listener/door").rpartition(":")[2])
        south_text = filled(
            SOUTH, ROLE=role, OWN_ROLE=own_role, CA=ca, CERT=coded(client.cert), KEY=coded(client.key),
            MESH=coded(b"north"), TOKEN_ROLE=coded(role.encode()), ADDRESSES=coded(f"127.0.0.1:{port}".encode()),
            COST="cost: 1,", ENDS=coded(b"2099-01-01T00:00:00Z"),
        )  # fmt: skip
        with mesh_up(folders[1], south_text, "south is ready: 2 routers") as south:
            # A certificate of the same authority, with another name.
            south.wait_for("RouterLink/to-north: south-0: ")
            assert "RouterLink/to-north is active" not in south.text
            south.edit(coded(client.cert), coded(router.cert))
            south.edit(coded(client.key), coded(router.key))
            south.wait_for("RouterLink/to-north is active on 2/2")
            with Client(north.url("north-0")) as here, Client(south.url("south-1")) as there:
                for sender, receiver, body in ((here, there, "to the south"), (there, here, "to the north")):
                    taken = receiver.receiver(body, credit=10)
                    sender.sender(body).send(body)
                    assert [one.message.body for one in taken.take(1)] == [body]
            north.edit(valid, coded(authority.revoke(router)))
            south.wait(lambda: "to-north: " in south.text.rpartition("is active on 2/2")[2], "the end of the link")
