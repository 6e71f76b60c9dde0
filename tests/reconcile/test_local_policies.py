"""`waymesh up` with examples/tenants.yaml: users log in, policies hold, changes of the file act on running routers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.local_mode import Up, mesh_up, start
from waymesh_amqp.performatives import Attach, Close, Detach, Terminus

pytestmark = pytest.mark.e2e

TEXT = (Path(__file__).parents[2] / "examples/tenants.yaml").read_text(encoding="utf-8")
PASSWORDS = {"acme-app": "acme-password", "acme-report": "report-password", "globex-app": "globex-password"}
UNAUTHORIZED = "amqp:unauthorized-access"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with mesh_up(tmp_path, TEXT, "shared is ready: 2 routers") as running:
        yield running


def logged_in(up: Up, user: str, ordinal: int = 0) -> RawClient:
    raw = RawClient(urlsplit(up.url(f"shared-{ordinal}")).port or 0)
    assert raw.login("SCRAM-SHA-256", user, PASSWORDS[user]).code == 0
    return raw


def opened(up: Up, user: str, vhost: str, ordinal: int = 0) -> RawClient:
    raw = logged_in(up, user, ordinal)
    raw.open(sasl=False, hostname=vhost)
    raw.begin()
    return raw


def refused(up: Up, user: str, vhost: str, ordinal: int = 0) -> bool:
    """Whether the router closes the connection right after its open."""
    with logged_in(up, user, ordinal) as raw:
        raw.open(sasl=False, hostname=vhost)
        frame, _ = raw.frame()
        return isinstance(frame, Close) and frame.error is not None and frame.error.condition == UNAUTHORIZED


def denied(raw: RawClient, address: str, handle: int) -> bool:
    """Whether a receiver from an address, or a sender to it, is refused; the one from which it is not fails."""
    target, source = Terminus(kind="target", address=address), Terminus(kind="source", address=address)
    raw.put(Attach(name=f"r{handle}", handle=handle, role=True, source=source, target=Terminus(kind="target")))
    raw.put(
        Attach(
            name=f"s{handle}",
            handle=handle + 1,
            role=False,
            source=Terminus(kind="source"),
            target=target,
            initial_delivery_count=0,
        )
    )
    ends = [raw.expect(Detach), raw.expect(Detach)]
    return all(end.error is not None and end.error.condition == UNAUTHORIZED for end in ends)


@pytest.mark.parametrize(("tenant", "other"), [("acme", "globex"), ("globex", "acme")])
def test_a_tenant_reaches_its_own_and_nothing_of_the_other(up: Up, tenant: str, other: str) -> None:
    for ordinal in (0, 1):
        for vhost in (f"{other}.example", "$management", "127.0.0.1"):
            assert refused(up, f"{tenant}-app", vhost, ordinal), (vhost, ordinal)
        with opened(up, f"{tenant}-app", f"{tenant}.example", ordinal) as raw:
            raw.attach_receiver(f"{tenant}/orders", credit=1)
            raw.attach_sender(f"{tenant}/orders")
            for at, address in enumerate((f"{other}/orders", f"_local/{other}/orders", "orders", "$management")):
                assert denied(raw, address, 10 + 2 * at), address


def test_a_wrong_password_is_refused(up: Up) -> None:
    with RawClient(urlsplit(up.url("shared-0")).port or 0) as raw:
        assert raw.login("SCRAM-SHA-256", "acme-app", "globex-password").code == 1


def test_changes_of_the_file_act_on_running_routers_and_the_commands_go_on(up: Up) -> None:
    before = up.pids()
    up.wait_for("VhostPolicy/acme is active on 2/2")
    up.edit("users: [globex-app]", "users: []")
    up.wait_for("shared-1: update vhost globex: groups\n")
    assert refused(up, "globex-app", "globex.example", 1)
    up.edit("enabled: true", "enabled: false")
    up.wait_for("VhostPolicy/acme: shared-0: not enforced: set policy.enabled of the Router")
    with opened(up, "globex-app", "anything", 0):
        pass
    up.edit("enabled: false", "enabled: true")
    up.wait_for("VhostPolicy/acme is active on 2/2", times=2)
    assert refused(up, "acme-app", "anything", 0)
    with up.client("shared-0") as manager:
        assert {row["hostname"] for row in manager.query("vhost")} == {"$management", "acme.example", "globex.example"}
        assert manager.at("shared-1").query("router")[0]["id"] == "shared-1"
        with pytest.raises(AssertionError), opened(up, "acme-app", "acme.example") as raw:
            raw.attach_sender("$management")
    assert up.pids() == before


def test_a_router_that_starts_again_has_the_whole_policy(up: Up) -> None:
    os.kill(up.pids()["shared-1"], signal.SIGKILL)
    up.wait_for("shared is ready: 2 routers", times=2)
    assert refused(up, "globex-app", "acme.example", 1)
    with opened(up, "acme-app", "acme.example", 1) as raw:
        raw.attach_receiver("acme/orders")
    process = start("status", "--state-dir", str(up.state))
    assert "shared-1" in process.communicate(timeout=60)[0]
    assert process.returncode == 0
