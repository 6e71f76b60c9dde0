"""`waymesh up` with listeners with `tenancy` and `management: read`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.test_proton_management_read import NODE, Reader, drain
from tests.kit.local_mode import Up, mesh_up

pytestmark = pytest.mark.e2e

TEXT = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: shared}
spec:
  size: 1
  listeners:
  - {name: amqp, port: 5672}
  - {name: acme, port: 5673, management: read, tenancy: {mode: Fixed, vhost: acme.example}}
  - {name: tenants, port: 5674, management: read, tenancy: {mode: ByHostname}}
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with mesh_up(tmp_path, TEXT, "shared is ready: 1 router") as running:
        yield running


def reader(up: Up, listener: str, vhost: str, stack: ExitStack) -> Reader:
    made = Reader(up._url("shared-0", f"listener/{listener}"), virtual_host=vhost)
    stack.callback(made.client.close)
    return made


def names(made: Reader) -> list[str]:
    query = {"operation": "QUERY", "entityType": "router.address", **NODE}
    status, body = made.ask("$management", query, {"attributeNames": ["name"]})
    assert status == 200
    return [name for (name,) in body["results"]]


def test_tenants_of_a_mesh_have_spaces_and_see_their_own(up: Up) -> None:
    with ExitStack() as stack:
        fixed = reader(up, "acme", "any.example", stack)
        same, other = (reader(up, "tenants", f"{name}.example", stack) for name in ("acme", "globex"))
        mine, theirs = fixed.client.receiver("orders", 5), other.client.receiver("orders", 5)
        same.client.sender("orders").send("for acme")
        assert mine.next().body == "for acme"
        other.client.receiver("globex-only", 5)
        assert theirs.arrived.empty()
        assert (names(fixed), names(same)) == (["M0orders"], ["M0orders"])
        assert sorted(names(other)) == ["M0globex-only", "M0orders"]
        assert fixed.ask("$management", *drain("shared-0"))[0] == 403
        plain = Reader(up.url("shared-0"))
        stack.callback(plain.client.close)
        assert "amqp:unauthorized-access" in str(plain.client.sender("$management", wait=False).wait_detached())


def test_a_change_of_the_manifest_acts_on_the_running_router(up: Up) -> None:
    before = up.pids()
    up.edit("{mode: Fixed, vhost: acme.example}", "{mode: Fixed, vhost: other.example}")
    up.edit("port: 5672}", "port: 5672, management: read}")
    up.wait_for("update listener shared/listener/acme")
    up.wait_for("replace listener shared/listener/amqp")
    with up.client("shared-0") as manager:
        found = {row["name"].rpartition("/")[2]: row for row in manager.query("listener")}
    assert (found["acme"]["policyVhost"], found["acme"]["multiTenant"]) == ("other.example", True)
    assert (found["amqp"]["management"], found["amqp"]["multiTenant"]) == ("read", False)
    assert up.pids() == before
