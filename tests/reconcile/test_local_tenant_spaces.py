"""`waymesh up` with examples/tenant-spaces.yaml: both tenants use the same address, and neither meets the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.local_mode import Up, mesh_up
from waymesh_amqp.performatives import Attach, Close, Detach, Terminus

pytestmark = pytest.mark.e2e

TEXT = (Path(__file__).parents[2] / "examples/tenant-spaces.yaml").read_text(encoding="utf-8")
PASSWORDS = {"acme-app": "acme-password", "globex-app": "globex-password"}
UNAUTHORIZED = "amqp:unauthorized-access"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with mesh_up(tmp_path_factory.mktemp("spaces"), TEXT, "spaces is ready: 2 routers") as running:
        for tenant in ("acme", "globex"):
            running.wait_for(f"VhostPolicy/{tenant} is active on 2/2")
        yield running


def connect(up: Up, user: str, vhost: str, ordinal: int = 0) -> RawClient:
    raw = RawClient(urlsplit(up.url(f"spaces-{ordinal}")).port or 0)
    assert raw.login("SCRAM-SHA-256", user, PASSWORDS[user]).code == 0
    raw.open(sasl=False, hostname=vhost)
    return raw


def message(body: bytes) -> bytes:
    """A message with a body of a few bytes."""
    return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body


@pytest.mark.parametrize(("tenant", "other"), [("acme", "globex"), ("globex", "acme")])
def test_the_same_address_is_another_one_for_each_tenant(up: Up, tenant: str, other: str) -> None:
    with (
        connect(up, f"{tenant}-app", f"{tenant}.example") as sender,
        connect(up, f"{tenant}-app", f"{tenant}.example", 1) as consumer,
        connect(up, f"{other}-app", f"{other}.example", 1) as stranger,
    ):
        for raw in (sender, consumer, stranger):
            raw.begin()
        stranger.attach_receiver("orders", credit=1)
        stranger.attach_receiver(f"{tenant}.example/orders", credit=1)  # an address of its own space
        consumer.attach_receiver("orders", credit=1)
        for raw, receiver, body in ((sender, consumer, b"first"), (stranger, stranger, b"second")):
            raw.transfer(raw.attach_sender("orders"), message(body))
            assert receiver.delivery()[1].endswith(body)  # the stranger gets its own one, and not the first


@pytest.mark.parametrize("vhost", ["globex.example", "$management", "127.0.0.1", ""])
def test_a_client_cannot_choose_the_space_of_another(up: Up, vhost: str) -> None:
    with RawClient(urlsplit(up.url("spaces-1")).port or 0) as raw:
        assert raw.login("SCRAM-SHA-256", "acme-app", PASSWORDS["acme-app"]).code == 0
        raw.open(sasl=False, hostname=vhost)
        frame, _ = raw.frame()
        assert isinstance(frame, Close)
        assert frame.error is not None


@pytest.mark.parametrize("address", ["$management", "_topo/0/spaces-1/$management", "_local/$management"])
def test_addresses_of_routers_are_refused(up: Up, address: str) -> None:
    with connect(up, "acme-app", "acme.example") as raw:
        raw.begin()
        source, target = Terminus(kind="source"), Terminus(kind="target", address=address)
        raw.put(Attach(name="s", handle=0, role=False, source=source, target=target, initial_delivery_count=0))
        assert raw.expect(Detach).error is not None
