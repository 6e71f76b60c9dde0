"""What a closed client connection is allowed: nothing."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import core_hub, core_of
from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_router.core.access import CLOSED
from waymesh_router.core.attaching import Refusal


def test_a_closed_connection_attaches_nothing() -> None:
    hub = core_hub()
    hub.peer().open().begin().send(frames.attach_receiver())
    (link,) = core_of(hub).links.values()
    with pytest.raises(Refusal) as refused:
        CLOSED.attach(link, Attach("a", 0, role=True, source=Terminus("source", address="q")))
    assert refused.value.condition == UNAUTHORIZED_ACCESS


def test_a_closed_connection_has_no_right_and_no_dry_run_carries_out_its_requests() -> None:
    CLOSED.closed()
    assert not CLOSED.may_update_admin_status()
    assert not CLOSED.may_create_link_route("a.#")
    assert not CLOSED.may_route_all()
    assert not CLOSED.may_receive_reserved("_local/box")
    assert not CLOSED.limits_management()
    assert not CLOSED.only_would_deny("READ")


def test_the_right_to_management_of_a_closed_connection_is_decided_anew_for_each_request() -> None:
    assert CLOSED.in_group()
