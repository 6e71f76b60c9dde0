"""Management access of clients, and no access to files of the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.shared import fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh, StartRouter
from tests.kit.outcomes import Sent
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from waymesh_client.errors import ClientError, ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

UNAUTHORIZED = "amqp:unauthorized-access"
PLACES = (
    "$management",
    "/$management",
    "amqp:/$management",
    "//$management",
    "amqp:/amqp:/_topo/0/A/$management",
    "amqp://somewhere:1/$management",
    "_local/$management",
    "_topo/0/A/$management",
    "amqp:/_topo/0/A/$management",
    "amqps://x/_topo/0/A/$management",
    "_topo/all/A/$management",
    "_topo/0/all/$management",
    "_edge/A/$management",
)
"""All the ways to write the management of router A."""
SECRET = "the contents of a mounted Secret"


class Ports:
    """A router A with listeners for clients without management, for people, and for an operator."""

    def __init__(self, start_router: StartRouter) -> None:
        numbers = {name: free_port() for name in ("clients", "people", "operator")}
        more: dict[str, dict[str, Any]] = {"clients": {"management": "none", "stripAnnotations": "no"}, "people": {}}
        more["operator"] = {"managementFiles": True}
        text = "".join(
            section("listener", name=name, host="127.0.0.1", port=port, **more[name]) for name, port in numbers.items()
        )
        self.router: RouterProcess = start_router("A", text)
        self.router.ports.extend(numbers.values())
        self.router.wait_listening()
        self.clients, self.people, self.operator = (f"amqp://127.0.0.1:{port}" for port in numbers.values())


@pytest.fixture
def ports(start_router: StartRouter) -> Ports:
    return Ports(start_router)


def request(to: str | None = None) -> proton.Message:
    """An UPDATE that would have the router drain, and needs no reply-to that exists."""
    properties = {"operation": "UPDATE", "type": "router", "name": "router/A"}
    message = proton.Message(properties=properties, body={"draining": True}, reply_to="nobody")
    if to is not None:
        message.address = to
    return message


def refused(sent: Sent) -> bool:
    return sent.outcome() == "rejected" and str(sent.condition).startswith(UNAUTHORIZED)


def draining(ports: Ports) -> bool:
    with ManagementClient(ports.people) as client:
        return bool(client.read("router")["draining"])


@pytest.mark.parametrize("place", PLACES)
def test_links_to_and_from_the_management_are_refused(ports: Ports, place: str) -> None:
    with Client(ports.clients) as client:
        assert UNAUTHORIZED in str(client.sender(place, wait=False).wait_detached())
        assert UNAUTHORIZED in str(client.receiver(place, wait=False).wait_detached())


def test_messages_of_anonymous_senders_to_the_management_are_rejected(ports: Ports) -> None:
    with Client(ports.clients) as client:
        sender = client.sender(None)
        for place in PLACES:
            for _ in "ab":  # the second time the address is known to the link
                sent = sender.send(request(place))
                assert refused(sent), place
        sent = sender.send(request(fresh()))
        assert sent.outcome() == "released"
        message = request(fresh())
        message.annotations = {proton.symbol("x-opt-qd.to"): "_topo/0/A/$management"}
        assert refused(sender.send(message))
    assert not draining(ports)


def test_requests_and_replies_between_clients_go_on(ports: Ports) -> None:
    with Client(ports.clients) as client:
        replies = client.receiver(None, 1, dynamic=True)
        sent = client.sender(None).send(proton.Message(address=replies.address, body="reply"))
        received = replies.next()
        assert received.body == "reply"
        received.accept()
        assert sent.outcome() == "accepted"


def test_the_management_of_another_router_is_out_of_reach_too(start_mesh: StartMesh) -> None:
    mesh = start_mesh(2, extra=section("listener", name="guarded", host="127.0.0.1", port=0, management="none"))
    listening = re.search(r"Listening on 127\.0\.0\.1:(\d+) \(normal\) as guarded", mesh["A"].log)
    assert listening is not None
    place = "_topo/0/B/$management"
    with Client(f"amqp://127.0.0.1:{listening[1]}") as client:
        assert UNAUTHORIZED in str(client.sender(place, wait=False).wait_detached())
        assert refused(client.sender(None).send(request(f"amqp:/{place}")))
    with ManagementClient(mesh["A"].url, router="B") as client:
        assert client.read("router")["id"] == "B"


def test_a_secret_of_the_router_does_not_leave(ports: Ports, tmp_path: Path) -> None:
    secret, out, taken = tmp_path / "secret", tmp_path / "out.log", free_port()
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    to_us = {"host": "127.0.0.1", "port": str(taken), "saslMechanisms": "PLAIN", "saslUsername": "u"}
    profile = {"certFile": str(secret), "privateKeyFile": str(secret)}
    tries: list[Callable[[ManagementClient], object]] = [
        lambda client: client.create("connector", {**to_us, "saslPassword": f"file:{secret}"}, name="thief"),
        lambda client: client.create("connector", {**to_us, "saslPassword": "env:HOME"}, name="thief"),
        lambda client: client.create("sslProfile", profile, name="thief"),
        lambda client: client.create("sslProfile", {"password": f"file:{secret}"}, name="thief"),
        lambda client: client.create("listener", {"port": "0", "trustedCertsFile": str(secret)}, name="thief"),
        lambda client: client.create("listener", {"port": "0", "managementFiles": True}, name="thief"),
        lambda client: client.update({"outputFile": str(out)}, "log", name="log/DEFAULT"),
        lambda client: client.update({"path": str(tmp_path / "telemetry")}, "telemetry"),
    ]
    with ManagementClient(ports.people) as client:
        for act in tries:
            with pytest.raises(ManagementError, match="configuration file") as raised:
                act(client)
            assert raised.value.status == 400
        assert client.create("connector", {**to_us, "saslPassword": "pass:x"}, name="mine")["name"] == "mine"
        names = [row["name"] for kind in ("connector", "sslProfile", "listener") for row in client.query(kind)]
    assert "thief" not in names
    assert not out.exists()
    assert not (tmp_path / "telemetry").exists()
    with ManagementClient(ports.operator) as client:
        assert client.create("connector", {**to_us, "saslPassword": f"file:{secret}"}, name="operator")
        client.update({"outputFile": str(out)}, "log", name="log/AGENT")
    assert out.exists()


def test_whoever_may_manage_another_router_names_no_files_there(start_mesh: StartMesh, tmp_path: Path) -> None:
    """A right at one router's listener is none at the others."""
    mesh = start_mesh(2)
    with ManagementClient(mesh["A"].url, router="B") as client:
        with pytest.raises(ManagementError, match="configuration file"):
            client.update({"outputFile": str(tmp_path / "log")}, "log", name="log/DEFAULT")
    assert not (tmp_path / "log").exists()


def test_what_comes_from_a_container_is_no_management(ports: Ports) -> None:
    autolink = {"address": "/$management", "direction": "in", "phase": 0, "containerId": "c"}
    with ManagementClient(ports.people) as client, pytest.raises(ManagementError, match="own management"):
        client.create("autoLink", autolink)


def test_management_is_said_to_be_refused(ports: Ports) -> None:
    with ManagementClient(ports.clients) as client, pytest.raises(ClientError, match="management is not allowed"):
        client.query("router")
