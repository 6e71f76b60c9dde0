"""`waymesh up`: two meshes joined by a RouterLink, and edge routers that reach a mesh by one."""

from __future__ import annotations

import base64
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import exchange
from tests.kit.local_mode import DEADLINE_S, Up, mesh_up
from tests.kit.waiting import wait_until

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


def link_ended(up: Up) -> bool:
    """Whether the RouterLink was reported as active, and then as not."""
    return "to-north: " in up.text.rpartition("is active on 2/2")[2]


def log_of(up: Up, router: str) -> str:
    (path,) = up.state.glob(f"*/{router}.log")
    return path.read_text(encoding="utf-8", errors="replace")


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
            here, there = north.url("north-0"), south.url("south-1")
            exchange(here, there, "to-the-south")
            exchange(there, here, "to-the-north")
            # Other names of the door: the open connections end, and whoever has the right one connects.
            north.edit("peerNames: [south.link]", "peerNames: [client.example]")
            south.wait(lambda: link_ended(south), "the end of the link after other names")
            refused = "amqp:unauthorized-access: the certificate of the peer has south.link; expected client.example"
            wait_until(lambda: log_of(north, "north-0").count(f"closed: {refused}") >= 2, DEADLINE_S, "the end of both")
            south.edit(coded(router.cert), coded(client.cert))
            south.edit(coded(router.key), coded(client.key))
            south.wait_for("RouterLink/to-north is active on 2/2", times=2)
            exchange(here, there, "to-the-south-again")
            north.edit(valid, coded(authority.revoke(client)))
            south.wait(lambda: link_ended(south), "the end of the link after the revocation")


def nodes(up: Up, router: str) -> dict[str, int]:
    """The routers that a router knows, with what the path to each costs."""
    with up.client(router) as client:
        return {str(row["id"]): int(row["cost"]) for row in client.query("router.node", ["id", "cost"])}


def neighbor(up: Up, router: str) -> str:
    """The router of another mesh to which the link `to-north` of a router leads; empty: to none."""
    with up.client(router) as client:
        rows = client.query("connector", ["name", "connectionStatus", "connectionMsg"])
    open_ = [row for row in rows if row["connectionStatus"] == "SUCCESS" and "to-north" in row["name"]]
    return str(open_[0]["connectionMsg"]).partition("container_id=")[2] if open_ else ""


def test_three_meshes_are_one_network_while_links_change(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    door = authority.issue("door", {"CN": "door"}, ("127.0.0.1",))
    router = authority.issue("router", {"CN": "south"}, ("south.link",))
    ca, valid = coded(authority.cert), coded(authority.revoke())
    keys = {"DOOR_CERT": coded(door.cert), "DOOR_KEY": coded(door.key)}
    north_text = filled(NORTH, ROLE="inter-router", CA=ca, LIST=valid, **keys).replace("size: 1", "size: 2")
    with ExitStack() as meshes:

        def enter(name: str, text: str, ready: str) -> Up:
            folder = tmp_path / name
            folder.mkdir()
            return meshes.enter_context(mesh_up(folder, text, ready))

        north = enter("north", north_text, "north is ready: 2 routers")
        doors = [north._url(f"north-{k}", "listener/door").rpartition("/")[2] for k in (0, 1)]
        south_text = filled(
            SOUTH, ROLE="inter-router", OWN_ROLE="interior", CA=ca, CERT=coded(router.cert), KEY=coded(router.key),
            MESH=coded(b"north"), TOKEN_ROLE=coded(b"inter-router"), ADDRESSES=coded("\n".join(doors).encode()),
            COST="cost: 2,", ENDS=coded(b"2099-01-01T00:00:00Z"),
        ).replace("size: 2", "size: 1")  # fmt: skip
        south = enter("south", south_text, "RouterLink/to-north is active on 1/1")
        west = enter("west", south_text.replace("south", "west"), "RouterLink/to-north is active on 1/1")
        exchange(west.url("west-0"), south.url("south-0"), "from-west-to-south")

        south.edit("cost: 2,", "cost: 7,")
        wait_until(lambda: nodes(west, "west-0").get("south-0") == 2 + 7, DEADLINE_S, "the new cost, in another mesh")
        exchange(south.url("south-0"), west.url("west-0"), "from-south-to-west")

        left = neighbor(south, "south-0")
        (other,) = {"north-0", "north-1"} - {left}
        killed = north.pids()[left]
        north.process.send_signal(signal.SIGSTOP)  # it must not have the router again before the link has moved
        try:
            os.kill(killed, signal.SIGKILL)
            moved = f"the link to {other} in place of {left}"
            wait_until(lambda: neighbor(south, "south-0") == other, DEADLINE_S, moved)
        finally:
            north.process.send_signal(signal.SIGCONT)
        all_three = {"north-0", "north-1", "west-0"}
        wait_until(lambda: all_three <= nodes(south, "south-0").keys(), DEADLINE_S, "all routers")
        exchange(south.url("south-0"), north.url(other), "from-south-after-the-loss")

        link = south.file.read_text().split("---\n")[1]
        south.edit(f"---\n{link}", "")
        wait_until(lambda: "south-0" not in nodes(west, "west-0"), DEADLINE_S, "the end of the link that was deleted")
        exchange(west.url("west-0"), north.url(other), "from-west-after-the-end")
