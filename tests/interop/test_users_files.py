"""Users per listener: `usersFile` instead of the file of the router, read again when it changes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, command, section
from tests.kit.waiting import wait_until
from waymesh_amqp.sasl import make_line
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

LOGIN = {"authenticatePeer": True, "allowInsecurePlain": True, "saslMechanisms": "PLAIN"}


class World:
    """A router with users of its own, and two listeners, one of them with users of its own."""

    def __init__(self, folder: Path) -> None:
        self.users = folder / "shop.users"
        self.users.write_text(make_line("shop", "of the shop"), encoding="utf-8")
        (folder / "mesh.users").write_text(make_line("mesh", "of the mesh"), encoding="utf-8")
        self.shop, self.mesh, free = free_port(), free_port(), free_port()
        text = section("router", id="A", saslConfigDir=folder, saslConfigName="mesh")
        text += section("listener", host="127.0.0.1", port=free, managementFiles=True)
        text += section("listener", name="shop", host="127.0.0.1", port=self.shop, usersFile=self.users, **LOGIN)
        text += section("listener", name="mesh", host="127.0.0.1", port=self.mesh, **LOGIN)
        self.router = RouterProcess(folder, "A", text, [free, self.shop, self.mesh])

    def gets_in(self, port: int, user: str, password: str) -> bool:
        """Whether a proton client with this password is let in."""
        client = Client(
            f"amqp://127.0.0.1:{port}", container_id=fresh(), wait=False, allowed_mechs="PLAIN", user=user,
            password=password, allow_insecure_mechs=True,
        )  # fmt: skip
        try:
            wait_until(lambda: client.opened.is_set() or client.ended.is_set())
            return client.opened.is_set()
        finally:
            client.close()


@pytest.fixture
def world(tmp_path: Path) -> Any:
    world = World(tmp_path)
    try:
        world.router.start()
        yield world
    finally:
        world.router.stop()


def test_each_listener_has_its_own_users_and_reads_them_again_when_they_change(world: World) -> None:
    assert world.gets_in(world.shop, "shop", "of the shop")
    assert world.gets_in(world.mesh, "mesh", "of the mesh")
    assert not world.gets_in(world.shop, "mesh", "of the mesh")
    assert not world.gets_in(world.mesh, "shop", "of the shop")
    world.users.write_text(make_line("new", "password"), encoding="utf-8")
    wait_until(lambda: world.gets_in(world.shop, "new", "password"))
    assert not world.gets_in(world.shop, "shop", "of the shop")
    world.users.unlink()
    wait_until(lambda: not world.gets_in(world.shop, "new", "password"))
    assert world.gets_in(world.mesh, "mesh", "of the mesh")


def test_a_listener_that_management_creates_has_them_too_unless_the_file_is_missing(world: World) -> None:
    port = free_port()
    attrs = {"host": "127.0.0.1", "port": str(port), "usersFile": str(world.users), **LOGIN}
    with ManagementClient(world.router.url) as client:
        client.create("listener", attrs, name="late")
        assert world.gets_in(port, "shop", "of the shop")
        client.delete("listener", name="late")
        assert world.gets_in(world.shop, "shop", "of the shop")
        with pytest.raises(ManagementError, match=r"usersFile: .*no such file"):
            client.create("listener", {**attrs, "usersFile": str(world.users) + "x"}, name="missing")
        with pytest.raises(ManagementError, match="usersFile: must be an absolute path"):
            client.create("listener", {**attrs, "usersFile": "users"}, name="relative")


def test_a_configuration_with_a_missing_file_is_refused_by_the_check_and_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "A.conf"
    text = section("listener", name="L", host="127.0.0.1", port=0, usersFile=tmp_path / "none")
    config.write_text(section("router", id="A") + text, encoding="utf-8")
    for option in ((), ("--check",)):
        done = subprocess.run(
            [*command(), "-c", str(config), *option], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 1
        assert "no such file" in done.stderr
