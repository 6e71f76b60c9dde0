"""Two tenants on a mesh of real routers, as examples/tenants.yaml has them: neither reaches anything of the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from proton import symbol
from proton.reactor import LinkOption

from tests.kit.clients import Client
from tests.kit.waiting import wait_until
from tests.reconcile.pods import AMQP, Pods
from waymesh_operator.places.kubernetes.context import ClusterContext, OperatorSettings
from waymesh_operator.places.kubernetes.desired import desired_cluster
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.router import Policy
from waymesh_operator.resources.validation import check
from waymesh_operator.routers.management import apply_entity, read_vhosts
from waymesh_operator.tls.rollover import TlsRequest, next_tls

pytestmark = pytest.mark.e2e

TEXT = (Path(__file__).parents[2] / "examples/tenants.yaml").read_text(encoding="utf-8").replace("shared", "mesh")
CHECKED = check(parse_text(TEXT, "tenants.yaml")[0], load_crds())
(RESOURCES,) = CHECKED.meshes.values()
TLS = next_tls(TlsRequest("mesh", "default"), {}, {}, datetime.now(UTC))
PASSWORDS = {user: data.decode() for user, data in CHECKED.secrets_of("default")["tenants-users"].items()}
TENANTS = [("acme", "globex"), ("globex", "acme")]
UNAUTHORIZED = "amqp:unauthorized-access"
EXEMPT = replace(RESOURCES.router, policy=Policy())


def desire(resources: Resources) -> DesiredState:
    context = ClusterContext(OperatorSettings("image"), CHECKED.secrets_of("default"), TLS)
    return desired_cluster(resources, context)


def boot(folder: Path, resources: Resources) -> Iterator[Pods]:
    made = Pods(folder, TLS, "PLAIN")  # this proton knows no SCRAM
    try:
        made.boot(desire(resources))
        with made.operator(0) as operator:
            wait_until(lambda: len(operator.query("router.node")) == 2, 60, "the routers see each other")
        yield made
    finally:
        for router in made.routers:
            router.stop()


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    yield from boot(tmp_path_factory.mktemp("tenants"), RESOURCES)


@pytest.fixture
def unrestricted(tmp_path: Path) -> Iterator[Pods]:
    yield from boot(tmp_path, replace(RESOURCES, router=EXEMPT))


def connect(pods: Pods, user: str, vhost: str | None, ordinal: int = 0, *, wait: bool = True) -> Client:
    options = {"virtual_host": vhost} if vhost is not None else {}
    return Client(
        f"amqp://127.0.0.1:{pods.ports[ordinal][AMQP]}",
        user=user,
        password=PASSWORDS[user],
        allowed_mechs="PLAIN",
        allow_insecure_mechs=True,
        wait=wait,
        **options,
    )


def denied(pods: Pods, user: str, vhost: str | None, ordinal: int = 0) -> bool:
    client = connect(pods, user, vhost, ordinal, wait=False)
    try:
        return UNAUTHORIZED in str(client.wait_ended())
    finally:
        client.close()


class Capability(LinkOption):
    """Attach with a capability of the terminus at the router."""

    def __init__(self, name: str) -> None:
        self._name = name

    def apply(self, link: object) -> None:
        terminus = link.source if link.is_receiver else link.target  # type: ignore[attr-defined]
        terminus.capabilities.put_object(symbol(self._name))


def apply(pods: Pods, ordinal: int, desired: DesiredState) -> None:
    """Have the operator carry out what one router lacks."""
    actions = pods.plan(ordinal, desired)
    with pods.operator(ordinal) as operator:
        for action in actions:
            apply_entity(operator, action)
    assert pods.plan(ordinal, desired) == []


@pytest.mark.parametrize("tenant", ["acme", "globex"])
def test_a_tenant_uses_its_own_addresses_over_the_mesh(pods: Pods, tenant: str) -> None:
    with connect(pods, f"{tenant}-app", f"{tenant}.example", 0) as one, connect(
        pods, f"{tenant}-app", f"{tenant}.example", 1
    ) as other:
        receiver = other.receiver(f"{tenant}/orders", 5)
        sender = one.sender(f"{tenant}/orders")
        sender.wait_credit()
        sent = sender.send("hello", wait=False)
        received = receiver.next()
        assert received.message.body == "hello"
        received.accept()
        assert sent is not None


def test_users_of_a_group_that_only_receives_cannot_send(pods: Pods) -> None:
    with connect(pods, "acme-report", "acme.example") as client:
        client.receiver("acme/orders")
        assert UNAUTHORIZED in str(client.sender("acme/orders", wait=False).wait_detached())


@pytest.mark.parametrize(("tenant", "other"), TENANTS)
def test_a_tenant_cannot_connect_to_another_host_name(pods: Pods, tenant: str, other: str) -> None:
    for vhost in (f"{other}.example", "unknown.example", "$management", "$default", "", None):
        for ordinal in (0, 1):
            assert denied(pods, f"{tenant}-app", vhost, ordinal), (vhost, ordinal)


@pytest.mark.parametrize(("tenant", "other"), TENANTS)
def test_a_tenant_cannot_attach_to_addresses_of_the_other_nor_of_routers(pods: Pods, tenant: str, other: str) -> None:
    addresses = (
        f"{other}/orders", other, f"{other}.orders", f"/{other}/orders", f"amqp:/{other}/orders",
        f"amqp://127.0.0.1/{other}/orders", f"_local/{other}/orders", f"_topo/0/mesh-1/{other}/orders",
        f"_topo/all/mesh-1/{other}/orders", f"{tenant}", "orders", "*", "#", "$management", "_local/$management",
        "_topo/0/mesh-1/$management", "$_management_internal", "qdrouter", "$displayname",
    )  # fmt: skip
    with connect(pods, f"{tenant}-app", f"{tenant}.example") as client:
        for address in addresses:
            assert client.sender(address, wait=False).wait_detached(), f"sender to {address}"
            assert client.receiver(address, wait=False).wait_detached(), f"receiver from {address}"


@pytest.mark.parametrize("tenant", ["acme", "globex"])
def test_a_tenant_has_none_of_the_rights_that_the_example_withholds(pods: Pods, tenant: str) -> None:
    own = f"{tenant}/orders"
    with connect(pods, f"{tenant}-app", f"{tenant}.example") as client:
        assert UNAUTHORIZED in str(client.receiver(None, wait=False, dynamic=True).wait_detached())
        assert UNAUTHORIZED in str(client.sender(None, wait=False).wait_detached())
        for capability in ("qd.waypoint_1", "qd.fallback"):
            options = [Capability(capability)]
            assert UNAUTHORIZED in str(client.receiver(own, wait=False, options=options).wait_detached()), capability
            assert UNAUTHORIZED in str(client.sender(own, wait=False, options=options).wait_detached()), capability
        client.sender(own)
        client.receiver(own)


def test_the_operator_manages_whatever_is_denied_and_counts_it(pods: Pods) -> None:
    desired = desire(RESOURCES)
    for ordinal in (0, 1):
        assert pods.plan(ordinal, desired) == []
        with pods.operator(ordinal) as operator:
            before = read_vhosts(operator)
            assert denied(pods, "globex-app", "acme.example", ordinal)
            with connect(pods, "acme-app", "acme.example", ordinal) as client:
                client.sender("globex/orders", wait=False).wait_detached()
                after = read_vhosts(operator)
            assert after.refused["acme.example"] == before.refused["acme.example"] + 1
            key = ("acme.example", "apps")
            assert after.denied[key] == before.denied[key] + 1
            assert after.connections["acme.example"] == 1


def test_a_policy_that_goes_and_comes_back_acts_on_running_routers(pods: Pods) -> None:
    acme, globex = RESOURCES.vhost_policies
    less = desire(replace(RESOURCES, vhost_policies=(globex,)))
    more = desire(replace(RESOURCES, vhost_policies=(replace(acme, aliases=("acme.test",)), globex)))
    for ordinal in (0, 1):
        apply(pods, ordinal, less)
        assert denied(pods, "acme-app", "acme.example", ordinal)
        connect(pods, "globex-app", "globex.example", ordinal).close()
        apply(pods, ordinal, more)
        connect(pods, "acme-app", "acme.test", ordinal).close()
        apply(pods, ordinal, desire(RESOURCES))
        assert denied(pods, "acme-app", "acme.test", ordinal)
        connect(pods, "acme-app", "acme.example", ordinal).close()


def test_enforcement_begins_and_ends_on_running_routers_without_locking_the_operator_out(unrestricted: Pods) -> None:
    pods = unrestricted
    connect(pods, "globex-app", "acme.example").close()
    for ordinal in (0, 1):
        apply(pods, ordinal, desire(RESOURCES))
        assert denied(pods, "globex-app", "acme.example", ordinal)
        connect(pods, "acme-app", "acme.example", ordinal).close()
        nobody = desire(replace(RESOURCES, vhost_policies=()))
        apply(pods, ordinal, nobody)
        assert denied(pods, "acme-app", "acme.example", ordinal)
        apply(pods, ordinal, desire(replace(RESOURCES, router=EXEMPT)))
        connect(pods, "globex-app", "acme.example", ordinal).close()


@pytest.mark.parametrize("enabled", [False, True])
def test_the_operator_gets_in_when_the_limits_let_no_client_in(unrestricted: Pods, enabled: bool) -> None:
    pods = unrestricted
    closed = replace(RESOURCES.router, policy=Policy(enabled, max_connections=0, max_message_size=10))
    apply(pods, 0, desire(replace(RESOURCES, router=closed)))
    client = connect(pods, "acme-app", "acme.example", wait=False)
    assert "amqp:resource-limit-exceeded" in str(client.wait_ended())
    client.close()
    apply(pods, 0, desire(RESOURCES))
    connect(pods, "acme-app", "acme.example").close()
