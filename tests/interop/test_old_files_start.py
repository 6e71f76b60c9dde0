"""Files of Qpid Dispatch start; what is read differently keeps out whom it kept out: with clients of a live router."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.outcomes import DEADLINE_S
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, accepts, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


OfFile = Callable[[str, int], RouterProcess]


@pytest.fixture
def of_file(tmp_path: Path) -> Iterator[OfFile]:
    """Start a router of a whole file, which listens on a port."""
    routers: list[RouterProcess] = []

    def start(text: str, port: int) -> RouterProcess:
        routers.append(RouterProcess(tmp_path, "A", text, [port]))
        return routers[-1].start()

    yield start
    for router in routers:
        router.stop()


def logged(router: RouterProcess, text: str) -> None:
    """Wait until the router has logged the text."""
    wait_until(lambda: text in router.log, DEADLINE_S, f"the line {text!r}")


def listening(start: StartRouter, extra: str = "", **attributes: object) -> tuple[RouterProcess, str]:
    """A router of a file with one more listener, and the URL of that."""
    port = free_port()
    router = start("A", extra + section("listener", name="old", host="127.0.0.1", port=port, **attributes))
    wait_until(lambda: accepts("127.0.0.1", port), DEADLINE_S, "the listener")
    return router, f"amqp://127.0.0.1:{port}"


def test_tenants_whose_annotations_should_not_be_stripped(start_router: StartRouter) -> None:
    """`x-opt-qd.to` of a client would be a way out of its space."""
    router, url = listening(start_router, multiTenant=True, stripAnnotations="no")
    logged(router, "stripAnnotations: in is used instead of no")
    with Client(url, virtual_host="a.example") as tenant, Client(router.url) as other:
        outside, inside = other.receiver("x", 1), other.receiver("a.example/x", 1)
        message = proton.Message(body="1", annotations={proton.symbol("x-opt-qd.to"): "x"})
        tenant.sender("x").send(message)
        assert inside.next().body == "1"
        assert outside.arrived.empty()


def test_plain_without_tls_is_not_offered(start_router: StartRouter) -> None:
    router, url = listening(start_router, saslMechanisms="plain", authenticatePeer=True)
    logged(router, "PLAIN is not offered without TLS, unless allowInsecurePlain: yes")
    logins: list[dict[str, Any]] = [{"allowed_mechs": "ANONYMOUS"}, {"user": "u", "password": "p"}]
    for login in logins:
        with Client(url, wait=False, **login) as client:
            assert client.wait_ended()
            assert not client.opened.is_set()


@pytest.mark.parametrize("mechanisms", ["DIGEST-MD5 anonymous", "digest-md5 Anonymous"])
def test_mechanisms_of_cyrus_beside_others(start_router: StartRouter, mechanisms: str) -> None:
    router, url = listening(start_router, saslMechanisms=mechanisms)
    logged(router, "saslMechanisms: DIGEST-MD5: not supported; left with ANONYMOUS")
    with Client(url, allowed_mechs="ANONYMOUS") as client:
        client.sender("x")
    with Client(url, wait=False, user="u", password="p", allowed_mechs="DIGEST-MD5") as client:
        assert client.wait_ended()


def test_settings_that_are_warnings_in_files_are_errors_in_requests(start_router: StartRouter) -> None:
    router = start_router("A")
    port = str(free_port())
    refused: list[tuple[dict[str, Any], str]] = [
        ({"multiTenant": True, "stripAnnotations": "no"}, "clients could leave the space of their vhost"),
        ({"saslMechanisms": "PLAIN"}, "PLAIN needs an sslProfile, or allowInsecurePlain: yes"),
        ({"saslMechanisms": "DIGEST-MD5 ANONYMOUS"}, "saslMechanisms: DIGEST-MD5: supported are"),
    ]
    with ManagementClient(router.url) as management:
        for attributes, reason in refused:
            with pytest.raises(ManagementError, match=reason):
                management.create("listener", {"host": "127.0.0.1", "port": port, **attributes}, name="l")


def test_a_router_of_a_mesh_without_an_id_gets_a_random_one(of_file: OfFile) -> None:
    port = free_port()
    router = of_file(section("router", mode="interior") + section("listener", host="127.0.0.1", port=port), port)
    logged(router, "A.conf:1: router id: is not set in mode interior: a random one is used")
    with ManagementClient(router.url) as management:
        (row,) = management.query("router")
    assert row["id"].startswith("Interior_")


def test_a_vhost_with_an_empty_host_name(of_file: OfFile) -> None:
    """It is for clients that send none; with an empty defaultVhost, others stay out."""
    port = free_port()
    text = section("router", mode="standalone") + section("listener", host="127.0.0.1", port=port)
    text += section("policy", enableVhostPolicy=True, defaultVhost="")
    group = '{"$default": {"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": true}}'
    for name in ("", "127.0.0.1"):  # the latter for management
        text += section("vhost", hostname=name, allowUnknownUser=True, groups=group)
    router = of_file(text, port)
    with Client(router.url, virtual_host="") as client:
        receiver = client.receiver("x", 1)
        client.sender("x").send("m")
        assert receiver.next().body == "m"
        with Client(router.url, virtual_host="other", wait=False) as other:
            assert str(other.wait_ended()).startswith("amqp:unauthorized-access")
        with ManagementClient(router.url) as management:
            rows = {row["id"]: row["connectionsCurrent"] for row in management.query("vhostStats")}
        assert rows == {"": 1, "127.0.0.1": 1}


def test_vhosts_with_overlapping_patterns(of_file: OfFile) -> None:
    """The first one wins: clients of the second one's name get no more than the first one allows."""
    port = free_port()
    text = section("router", mode="standalone") + section("listener", host="127.0.0.1", port=port)
    text += section("policy", enableVhostPolicy=True, enableVhostNamePatterns=True, defaultVhost="")
    for name, sources in (("*.example", "first"), ("*/example", "*")):
        group = f'{{"$default": {{"remoteHosts": "*", "sources": "{sources}"}}}}'
        text += section("vhost", hostname=name, allowUnknownUser=True, groups=group)
    router = of_file(text, port)
    logged(router, "vhost */example: is left out, because its pattern is that of vhost *.example")
    for name in ("a.example", "a/example", "*/example"):
        with Client(router.url, virtual_host=name) as client:
            client.receiver("first")
            assert str(client.receiver("second", wait=False).wait_detached()).startswith("amqp:unauthorized-access")


@pytest.mark.parametrize("group", ["$connector", "other"])
def test_a_vhost_of_a_connector_checks_the_links_of_its_peer(start_router: StartRouter, group: str) -> None:
    """The peer is a router that attaches autolinks. Without the group $connector, it may attach none."""
    port = free_port()
    links = [(address, direction) for address in ("open", "shut") for direction in ("in", "out")]
    text = section("listener", name="brokers", host="127.0.0.1", port=port, role="route-container")
    for address, direction in links:
        text += section("autoLink", name=f"{address} {direction}", address=address, direction=direction,
                        connection="brokers")  # fmt: skip
    peer = start_router("Z", text)
    text = section("policy", enableVhostPolicy=True)
    everything = '{"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": true}'
    text += section("vhost", hostname="$default", allowUnknownUser=True, groups=f'{{"$default": {everything}}}')
    rights = '{"sources": "open", "targets": "open"}'
    text += section("vhost", hostname="brokers", groups=f'{{"{group}": {rights}}}')
    text += section("connector", name="c", host="127.0.0.1", port=port, policyVhost="brokers")
    start_router("A", text)
    with ManagementClient(peer.url) as management:

        def states() -> dict[str, str]:
            return {row["name"]: row["operStatus"] for row in management.query("router.config.autoLink")}

        may = "active" if group == "$connector" else "failed"
        wanted = {"open in": may, "open out": may, "shut in": "failed", "shut out": "failed"}
        wait_until(lambda: states() == wanted, DEADLINE_S, lambda: str(states()))
