"""Configurations that qdrouterd accepts. The items of docs/compatibility-items.md."""

from __future__ import annotations

import pytest

from tests.simulation.full.network import Network
from waymesh_router.management.errors import ManagementError
from waymesh_router.runtime.transport.addresses import peer_text
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

TERMS = {"name": "mesh2", "host": "0.0.0.0", "port": "5000", "role": "inter-router"}


@pytest.mark.parametrize("kind", ["listener", "connector"])
def test_compat_24_a_standalone_router_takes_no_inter_router_connections(kind: str) -> None:
    network = Network()
    router = network.router("A")
    text = router.configuration().replace("mode: interior\n", "mode: standalone\n")
    plain = "".join(part + "}\n" for part in text.split("}\n") if part and "inter-router" not in part)
    router.configuration = lambda: plain  # type: ignore[method-assign]
    router.start()
    with pytest.raises(ManagementError, match="role='standalone' not allowed to connect"):
        router.router.agent.configure(kind, TERMS)
    assert router.router.agent.configure(kind, TERMS | {"role": "normal"})
    router.crash()
    lines = "".join(f"{name}: {value}\n" for name, value in TERMS.items())
    router.configuration = lambda: f"{plain}{kind} {{\n{lines}}}\n"  # type: ignore[method-assign]
    with pytest.raises(Exception, match="role='standalone' not allowed to connect"):
        router.start()


@pytest.mark.parametrize("identity", ["with blank", "tab\there", "bell\a", "x" * 128, "ü" * 64, ""])
def test_compat_24_router_ids_that_are_refused(identity: str) -> None:
    with pytest.raises(SchemaError):
        validate_create(entity_type("router"), {"id": identity, "mode": "interior"})
    assert validate_create(entity_type("router"), {"id": "x" * 127, "mode": "interior"})["id"] == "x" * 127


def test_compat_20_ipv6_peers_are_shown_without_brackets() -> None:
    assert peer_text(("::1", 5672, 0, 0)) == "::1:5672"
    assert peer_text(("127.0.0.1", 5672)) == "127.0.0.1:5672"
