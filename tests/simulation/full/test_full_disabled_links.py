"""UPDATE of a router.link with adminStatus disabled: the link is detached, its deliveries end, others stay."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.network import SimRouter
from tests.simulation.full.routes import BOTH, Scene
from waymesh_amqp.message import Message
from waymesh_router.management.errors import FORBIDDEN, OK

FORCED = "amqp:link:detach-forced"


def ask(router: SimRouter, operation: str, body: dict[str, Any], **properties: Any) -> tuple[int, Any]:
    request = Message(reply_to="r", application_properties={"operation": operation, **properties}, body=body)
    reply = router.router.agent.handle(request, router.world.now)
    router.wake()
    return reply.application_properties["statusCode"], reply.body


def links(router: SimRouter, **wanted: Any) -> list[str]:
    rows = router.router.agent.adapters["router.link"].rows(router.world.now)
    return [row["identity"] for row in rows if wanted.items() <= row.items()]


def disable(router: SimRouter, identity: str) -> None:
    status, row = ask(router, "UPDATE", {"adminStatus": "disabled"}, type="router.link", identity=identity)
    assert (status, row["adminStatus"]) == (OK, "disabled")


@pytest.fixture
def scene() -> Scene:
    return Scene("AB", BOTH)


def test_a_link_is_detached_and_what_waits_for_it_goes_back(scene: Scene) -> None:
    receiver, sender = scene.receiver("orders"), scene.sender("orders")
    scene.client.send(sender, message())
    scene.until(lambda: len(receiver.got) == 1)
    [identity] = links(scene.first, owningAddr="M0orders", linkDir="out")
    disable(scene.first, identity)
    scene.until(lambda: receiver.gone and len(sender.outcomes) == 1)
    assert receiver.condition == FORCED
    assert not sender.gone
    assert links(scene.first, owningAddr="M0orders", linkDir="out") == []


def test_a_routed_link_is_detached_on_both_sides(scene: Scene) -> None:
    sender = scene.sender()
    [identity] = links(scene.first, owningAddr="Cb2", linkDir="in")
    [other] = links(scene.first, owningAddr="Cb2", linkDir="out")
    assert links(scene.first, peer=other) == [identity]
    disable(scene.first, identity)
    scene.until(lambda: sender.gone and not links(scene.last, owningAddr="Cb2"))
    assert sender.condition == FORCED
    assert links(scene.first, owningAddr="Cb2") == []


def test_links_between_routers_cannot_be_disabled(scene: Scene) -> None:
    for kind in ("router-control", "inter-router"):
        for identity in links(scene.first, linkType=kind):
            body = {"adminStatus": "disabled"}
            assert ask(scene.first, "UPDATE", body, type="router.link", identity=identity)[0] == FORBIDDEN
