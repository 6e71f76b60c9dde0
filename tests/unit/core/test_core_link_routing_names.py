"""Names of routed links on their way to the container."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_routing import names

pytestmark = pytest.mark.engine_independent


def receiver(name: str = "sub", *capabilities: str, **source: Any) -> Attach:
    terminus = Terminus(kind="source", address="t", capabilities=[Symbol(c) for c in capabilities] or None, **source)
    return Attach(name=name, handle=0, role=True, source=terminus)


def sender(name: str = "out") -> Attach:
    return Attach(name=name, handle=0, role=False, target=Terminus(kind="target", address="t"))


def connection(role: str, container: str = "", taken: tuple[tuple[str, bool], ...] = ()) -> Any:
    return SimpleNamespace(
        uplink=False,
        edge_router=None,
        is_router=lambda: role == "inter-router",
        durable_names="",
        tenant="",
        role=role,
        remote=SimpleNamespace(container_id=container),
        settings=SimpleNamespace(container_id=container),
        names={key: SimpleNamespace(detach_with=lambda *_: None) for key in taken},
    )


@pytest.mark.parametrize(
    ("attach", "container", "name"),
    [
        (sender(), "client", "client.out"),
        (receiver(), "client", "client.sub"),
        (receiver(), "a|b", "a_b.sub"),
        (receiver("sub", names.GLOBAL), "client", "sub"),
    ],
)
def test_the_first_router_adds_the_client(attach: Attach, container: str, name: str) -> None:
    assert names.client_name(attach.name, container, attach) == name


@pytest.mark.parametrize(
    ("attach", "name"),
    [
        (sender(), "out@A"),
        (receiver(), "sub@A"),
        (receiver("sub", names.SHARED), "sub|A"),
        (receiver("sub|2", names.SHARED), "sub|2@A"),
        (receiver("sub", names.GLOBAL), "sub|A|"),
        (receiver("sub|2", names.GLOBAL), "sub|A|2"),
        (receiver("sub", durable=2), "sub"),
        (receiver("sub", expiry_policy=Symbol("never")), "sub"),
    ],
)
def test_the_last_router_adds_itself_except_to_durable_subscriptions(attach: Attach, name: str) -> None:
    assert names.router_name(attach.name, "A", attach) == name


@pytest.mark.parametrize(
    ("attach", "taken", "name"),
    [
        (sender(), (), "out"),
        (sender(), (("out", True),), "out#2"),
        (sender(), (("out", True), ("out#2", True)), "out#3"),
        (sender(), (("out", False),), "out"),
        (receiver("sub", names.SHARED), (("sub", False),), "sub|#2"),
        (receiver("sub|1", names.SHARED), (("sub|1", False),), "sub|1#2"),
    ],
)
def test_between_routers_a_name_changes_only_if_it_is_taken(
    attach: Attach, taken: tuple[tuple[str, bool], ...], name: str
) -> None:
    ours, upstream = connection("inter-router"), connection("inter-router", taken=taken)
    assert names.upstream_name(ours, upstream, attach, "A", None) == name


def test_a_durable_subscription_takes_its_name_from_the_connection_that_was_lost() -> None:
    upstream = connection("inter-router", taken=(("sub", False),))
    upstream.names["sub", False].detach_with = lambda *_: upstream.names.clear()
    assert names.upstream_name(connection("inter-router"), upstream, receiver("sub", durable=2), "A", None) == "sub"


def test_the_only_router_adds_client_and_itself() -> None:
    ours, upstream = connection("normal", "client"), connection("route-container", "shared")
    assert names.upstream_name(ours, upstream, sender(), "A", None) == "client.out@A"
    assert names.upstream_name(ours, connection("route-container", "A"), sender(), "A", None) == "client.out"
