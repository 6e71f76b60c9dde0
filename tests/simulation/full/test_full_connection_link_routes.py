"""Link routes that a connected container creates for itself, over the management of its own connection."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Broker
from tests.simulation.full.network import SimRouter
from tests.simulation.full.routes import Scene
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.states import OPENED
from waymesh_router.management.connection_link_routes import MAX_PER_CONNECTION

KIND = "router.connection.linkRoute"
REQUESTS = "here"
"""Source of the senders of a party."""
CONTAINERS = "listener {\nname: containers\nport: 7000\nrole: route-container\nmanagement: write\n}\n"


class Mesh(Scene):
    """Routers in a line; a container connected to the last one, by a listener."""

    def __init__(self, names: str = "A") -> None:
        super().__init__(names, CONTAINERS)
        self.container = self.joined()

    def joined(self) -> tuple[Broker, Any]:
        broker = Broker(self.network)
        broker.queues[REQUESTS] = deque()  # it looks for a queue behind each of its senders, also that of requests
        conn = broker.dial(self.last, 7000)
        self.until(lambda: conn.state == OPENED)
        session = conn.open_session()
        return broker, session

    def ask(self, party: Any, session: Any, operation: str, body: Any, **properties: Any) -> tuple[int, Any]:
        replies = party.receiver(session, "replies", 10, name=f"r{len(party.links)}")
        requests = party.sender(session, "$management", name=f"s{len(party.links)}")
        self.until(lambda: requests.link.credit > 0 and replies.attach is not None)
        asked = {"operation": operation, "type": KIND, **properties}
        request = Message(reply_to="replies", application_properties=asked, body=body, body_kind="value")
        party.send(requests, encode_message(request))
        self.until(lambda: bool(replies.got))
        answer = decode_message(replies.got[0].data)
        for link in (replies.link, requests.link):
            link.detach()
        party.wake()
        self.network.run(0.1)
        assert answer.application_properties is not None
        return int(answer.application_properties["statusCode"]), answer.body

    def create(self, pattern: str = "jobs.#", direction: str = "in", **over: Any) -> tuple[int, Any]:
        return self.ask(*self.container, "CREATE", {"pattern": pattern, "direction": direction, **over})

    def rows(self, router: SimRouter) -> list[dict[str, Any]]:
        return list(router.router.agent.adapters[KIND].rows(self.network.now))


@pytest.mark.parametrize("names", ["A", "AB"])
def test_links_anywhere_in_the_mesh_lead_to_the_container(names: str) -> None:
    mesh = Mesh(names)
    status, row = mesh.create(name="mine")
    assert status == 201
    assert (row["pattern"], row["direction"], row["containerId"]) == ("jobs.#", "in", mesh.container[0].name)
    assert [one["identity"] for one in mesh.rows(mesh.last)] == [row["identity"]]
    mesh.network.run(0.3)
    sender = mesh.sender("jobs.1")
    mesh.client.send(sender, message(b"x"))
    mesh.until(lambda: sender.outcomes == [(True, ACCEPTED)])
    assert list(mesh.container[0].queues["jobs.1"]) == [message(b"x")]


def test_it_leads_to_the_connection_that_made_it_alone() -> None:
    mesh = Mesh()
    other, _ = mesh.joined()
    assert mesh.create()[0] == 201
    for number in range(4):
        mesh.sender(f"jobs.{number}", name=f"to{number}")
    assert set(other.queues) == {REQUESTS}
    assert len(mesh.container[0].queues) == 5


@pytest.mark.parametrize("names", ["A", "AB"])
def test_it_ends_with_its_connection(names: str) -> None:
    mesh = Mesh(names)
    mesh.create()
    mesh.container[0].drop()
    mesh.network.run(0.5)
    assert mesh.rows(mesh.last) == []
    assert not [key for key in mesh.first.router.core.addresses if key.startswith("E")]
    assert len(mesh.last.router.core.linkroutes) == 0


def test_it_can_be_deleted() -> None:
    mesh = Mesh()
    _, row = mesh.create()
    assert mesh.ask(*mesh.container, "DELETE", {}, identity=row["identity"])[0] == 204
    assert mesh.rows(mesh.last) == []
    assert mesh.create()[0] == 201


@pytest.mark.parametrize(
    ("status", "attributes"),
    [
        (400, {"pattern": "///"}),
        (400, {"direction": "both"}),
        (400, {"containerId": "other"}),
        (400, {"connectionId": "1"}),
        (409, {}),
        (409, {"pattern": "other", "name": "mine"}),
    ],
)
def test_what_is_refused(status: int, attributes: dict[str, Any]) -> None:
    mesh = Mesh()
    assert mesh.create(name="mine")[0] == 201
    assert mesh.create(**attributes)[0] == status
    assert len(mesh.rows(mesh.last)) == 1


def test_other_directions_and_other_containers_are_no_duplicates() -> None:
    mesh = Mesh()
    assert (mesh.create()[0], mesh.create(direction="out")[0]) == (201, 201)
    mesh.container = mesh.joined()
    assert mesh.create()[0] == 201


def test_a_connection_has_at_most_256() -> None:
    mesh = Mesh()
    other = mesh.joined()
    agent, connection = mesh.last.router.agent, mesh.create("jobs.0")[1]["connectionId"]
    for number in range(1, MAX_PER_CONNECTION):
        agent.configure(KIND, {"pattern": f"jobs.{number}", "direction": "in"}, connection=connection)
    assert mesh.create("one.more") == (403, {})
    assert len(mesh.rows(mesh.last)) == MAX_PER_CONNECTION == 256
    assert mesh.ask(*other, "CREATE", {"pattern": "jobs.1", "direction": "in"})[0] == 201
    agent.adapters[KIND].delete(mesh.rows(mesh.last)[0]["identity"])
    assert mesh.create("one.more")[0] == 201


def test_clients_that_are_no_containers_are_refused() -> None:
    mesh = Mesh()
    assert mesh.ask(mesh.client, mesh.session, "CREATE", {"pattern": "jobs", "direction": "in"})[0] == 403
    assert mesh.rows(mesh.last) == []
