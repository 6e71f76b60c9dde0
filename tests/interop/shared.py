"""Routers that the tests of one file share, and names for addresses so that no two tests meet.

Addresses that begin with `balanced`, `closest` or `multicast` are distributed that way.
"""

from __future__ import annotations

import itertools

import proton

from tests.kit.clients import Client
from tests.kit.mesh import CONVERGE_S, Mesh, address_counts
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

DISTRIBUTIONS = ("balanced", "closest", "multicast")
ADDRESSES = "".join(section("address", prefix=name, distribution=name) for name in DISTRIBUTIONS)

_numbers = itertools.count()


def fresh(distribution: str = "balanced") -> str:
    """An address that nobody has used yet."""
    return f"{distribution}.{next(_numbers)}"


def patient_port(router: RouterProcess, **attributes: object) -> int:
    """The port of one more listener, with these attributes, that closes no connection for its silence: a raw client
    sends no empty frames while it waits."""
    port = free_port()
    values = {"host": "127.0.0.1", "port": str(port), "idleTimeoutSeconds": 0, **attributes}
    with ManagementClient(router.url) as client:
        client.create("listener", values, name=f"patient/{port}")
    return port


def wait_consumers(router: RouterProcess, address: str, local: int = 0, remote: int = 0) -> None:
    """Until the router knows that many local consumers and that many remote routers with consumers."""
    wait_until(
        lambda: address_counts(router, f"M0{address}") == (local, remote),
        CONVERGE_S,
        lambda: f"{address} on {router.name}: {address_counts(router, 'M0' + address)}, not {(local, remote)}",
    )


def wait_spread(mesh: Mesh, address: str, *consumers: int) -> None:
    """Until each router of the mesh knows of all consumers; `consumers`: how many each router has."""
    having = [number for number, count in enumerate(consumers) if count]
    for number, router in enumerate(mesh.routers):
        wait_consumers(router, address, consumers[number], len([other for other in having if other != number]))


def transport_of(client: Client) -> proton.Transport:
    """The transport of an open connection; in the client's thread, see `Client.call`."""
    transport = client.connection.transport
    assert transport is not None
    return transport
