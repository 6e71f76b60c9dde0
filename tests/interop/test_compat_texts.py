"""Texts and statuses that scripts for qdrouterd look for. The items of docs/compatibility-items.md from 27 on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.certificates import Authority
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, accepts, section, standalone
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Attach, Detach, Terminus
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

STANDALONE = "role='standalone' not allowed to connect to or accept connections from other routers."
EXTRA = (
    section("log", module="AGENT", enable="debug+")
    + section("log", module="PROTOCOL", enable="trace+")
    + section("log", module="MESSAGE", enable="trace+")
    + section("policy", enableVhostNamePatterns=True)
)


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    router = standalone(tmp_path_factory.mktemp("texts"), extra=EXTRA)
    router.start()
    yield router
    router.stop()


@pytest.fixture
def management(router: RouterProcess) -> Iterator[ManagementClient]:
    with ManagementClient(router.url) as client:
        yield client


def refusal(
    client: ManagementClient, operation: str, kind: str, body: Mapping[str, Any] | None = None, **ids: str
) -> tuple[int, str]:
    """Status and text of a request that must fail."""
    with pytest.raises(ManagementError) as raised:
        client.operation(operation, {} if body is None else dict(body), type=f"org.apache.qpid.dispatch.{kind}", **ids)
    return raised.value.status, raised.value.description


@pytest.mark.parametrize("kind", ["listener", "connector"])
@pytest.mark.parametrize("role", ["edge", "inter-router"])
def test_compat_27_roles_of_a_standalone_router(management: ManagementClient, kind: str, role: str) -> None:
    body = {"host": "127.0.0.1", "port": str(free_port()), "role": role}
    status, text = refusal(management, "CREATE", kind, body, name=f"{kind}-{role}")
    assert (status, STANDALONE in text) == (400, True)


def test_compat_27_roles_of_an_edge_router(tmp_path: Path) -> None:
    port = free_port()
    listener = section("listener", host="127.0.0.1", port=port)
    router = RouterProcess(tmp_path, "E", section("router", id="E", mode="edge") + listener, [port])
    router.start()
    try:
        with ManagementClient(router.url) as client:
            for role in ("edge", "inter-router"):
                body = {"host": "127.0.0.1", "port": str(free_port()), "role": role}
                status, text = refusal(client, "CREATE", "listener", body, name=role)
                assert status == 400
                assert f"role='{role}' only allowed with router mode='interior'" in text
    finally:
        router.stop()


def last_line(folder: Path, *entities: str) -> str:
    """What a router writes last that does not start with this file."""
    router = RouterProcess(folder, "S", "".join(entities), [])
    router.launch()
    wait_until(lambda: not router.alive())
    last = router.log.splitlines()[-1]
    assert last.startswith(f"Exception: Cannot load configuration file {router.config_path}: ")
    return last


def test_compat_27_roles_in_a_file(tmp_path: Path) -> None:
    listener = section("listener", port="0", role="inter-router")
    assert STANDALONE in last_line(tmp_path, section("router", id="S"), listener)


@pytest.mark.parametrize(
    ("identity", "words"), [("a b", "AttributeError"), ("x" * 128, "exceeds the maximum allowed length")]
)
def test_compat_31_router_ids(tmp_path: Path, identity: str, words: str) -> None:
    assert words in last_line(tmp_path, section("router", id=identity, mode="interior"))


@pytest.mark.parametrize(("role", "value"), [("normal", "7"), ("inter-router", '{"a": 1}')])
def test_compat_38_open_properties(tmp_path: Path, role: str, value: str) -> None:
    listener = section("listener", port="0", role=role, openProperties=value)
    assert "openProperties" in last_line(tmp_path, section("router", id="S", mode="interior"), listener)


@pytest.mark.parametrize("distribution", ["balanced", "unavailable"])
def test_compat_28_a_coordinator_without_a_link_route(tmp_path: Path, distribution: str) -> None:
    port = free_port()
    text = section("router", id="S", mode="standalone", defaultDistribution=distribution)
    router = RouterProcess(tmp_path, "S", text + section("listener", host="127.0.0.1", port=port), [port])
    router.start()
    try:
        with RawClient(port) as client:
            client.open()
            client.begin()
            client.put(Attach("tx", 0, False, target=Terminus(kind="coordinator"), initial_delivery_count=0))
            assert client.expect(Attach).target is None
            error = client.expect(Detach).error
            assert error is not None
            assert (error.description or "").startswith(
                "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured "
                "to use transactions."
            )
    finally:
        router.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_compat_29_a_connector_that_fails(router: RouterProcess, management: ManagementClient, host: str) -> None:
    port = free_port()
    words = f"Connection to {host}:{port} failed"
    management.create("connector", {"host": host, "port": str(port), "role": "route-container"}, name=f"to {host}")
    try:
        wait_until(lambda: words in str(management.read("connector", name=f"to {host}")["connectionMsg"]))
        assert re.search(rf"SERVER \(\w+\) .*{re.escape(words)}", router.log)
    finally:
        management.operation("DELETE", {}, type="org.apache.qpid.dispatch.connector", name=f"to {host}")


def test_compat_30_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    """The router starts."""
    certificate = Authority(tmp_path, "ca").issue("server", {"CN": "server"})
    profile = section(
        "sslProfile", name="p", certFile=certificate.cert, privateKeyFile=certificate.key, caCertFile="/nowhere/ca.pem"
    )
    secured = section("listener", host="127.0.0.1", port=free_port(), sslProfile="p")
    router = standalone(tmp_path, extra=profile + secured)
    router.start()
    router.stop()
    assert "SERVER (error) SSL CA configuration failed" in router.log


@pytest.mark.parametrize("kind", ["autoLink", "linkRoute"])
def test_compat_32_connection_and_container_id(management: ManagementClient, kind: str) -> None:
    place = {"address": "a"} if kind == "autoLink" else {"prefix": "a"}
    body = {**place, "direction": "in", "connection": "c", "containerId": "d"}
    status, text = refusal(management, "CREATE", f"router.config.{kind}", body, name="both")
    assert (status, "Both connection and containerId cannot be specified" in text) == (400, True)


def test_compat_33_entities_that_do_not_exist(management: ManagementClient) -> None:
    status, text = refusal(management, "READ", "listener", identity="nobody")
    assert (status, "Not Found" in text) == (404, True)
    status, text = refusal(management, "UPDATE", "connection", {"adminStatus": "deleted"}, identity="987654")
    assert (status, "Bad Request" in text) == (400, True)
    (row, *_) = management.query("connection")
    for identity in (row["identity"], "987654"):
        status, text = refusal(management, "DELETE", "connection", identity=identity)
        assert (status, "Forbidden" in text) == (403, True)


def test_compat_34_the_log(management: ManagementClient) -> None:
    management.node_operation("GET-LOG")
    rows = management.node_operation("GET-LOG")
    assert any(row[0] == "AGENT" and row[1] == "debug" and "get-log" in row[2] for row in rows)
    status, text = refusal(management, "UPDATE", "log", {"outputFile": ""}, identity="log/ERROR")
    assert (status, "CError: Configuration: Failed to open log file ''" in text) == (500, True)
    row = management.read("log", identity="log/AGENT")
    assert set(row) == {"name", "identity", "type", "module", "enable"}
    assert (row["identity"], row["enable"]) == ("log/AGENT", "debug+")


def test_compat_35_frames(router: RouterProcess, management: ManagementClient) -> None:
    management.query("listener")
    wait_until(lambda: re.search(r"PROTOCOL \(trace\) \[C\d+\]:FRAME:0 <- @open", router.log) is not None)


def test_compat_36_the_version_of_annotations(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path, 2, extra=section("log", module="ROUTER", enable="debug+"))
    mesh.start()
    mesh.stop()
    for router in mesh.routers:
        assert "ROUTER (debug) Remote router annotations version: 1" in router.log


def test_compat_37_a_pattern_of_vhosts_that_cannot_be_used(management: ManagementClient) -> None:
    management.create("vhost", {"hostname": "*.one"}, name="first")
    status, text = refusal(management, "CREATE", "vhost", {"hostname": "*.one."}, name="second")
    assert (status, "PolicyError: Policy '*.one.' is invalid:" in text) == (500, True)


def test_compat_39_a_query_without_a_type(management: ManagementClient) -> None:
    for row in management.query():
        kind = row["type"].removeprefix("org.apache.qpid.dispatch.").removeprefix("org.amqp.")
        assert kind not in ("router.link", "router.address")
        if kind == "connection":
            assert row["identity"].isdigit()
        else:
            assert row["identity"].startswith(f"{kind}/")


def test_compat_39_a_listener_of_management_is_deleted(management: ManagementClient) -> None:
    port = free_port()
    made = management.create("listener", {"host": "127.0.0.1", "port": str(port)}, name="short-lived")
    assert accepts("127.0.0.1", port)
    management.operation("DELETE", {}, type="org.apache.qpid.dispatch.listener", identity=made["identity"])
    wait_until(lambda: not accepts("127.0.0.1", port))


def test_compat_42_a_second_listener_on_one_address(router: RouterProcess, management: ManagementClient) -> None:
    body = {"host": "127.0.0.1", "port": str(router.port)}
    status, text = refusal(management, "CREATE", "listener", body, name="second")
    assert (status, "Address already in use" in text) == (400, True)
    wait_until(lambda: re.search(r"SERVER \(error\) .*Address already in use", router.log) is not None)
    assert accepts("127.0.0.1", router.port)


def test_compat_41_replies_have_the_former_names(management: ManagementClient) -> None:
    auto = {"address": "queue", "direction": "in", "containerId": "broker"}
    made = management.create("router.config.autoLink", auto, name="auto")
    assert (made["dir"], made["direction"], made["addr"], made["address"]) == ("in", "in", "queue", "queue")
    route = {"prefix": "queue", "direction": "out", "containerId": "broker"}
    made = management.create("router.config.linkRoute", route, name="route")
    assert (made["dir"], made["direction"]) == ("out", "out")
    assert management.read("router.config.linkRoute", name="route")["dir"] == "out"


def test_an_autolink_tells_that_its_connector_has_another_role(management: ManagementClient) -> None:
    auto = {"address": "queue", "direction": "in", "connection": "broker"}
    management.create("router.config.autoLink", auto, name="of-a-client")
    assert management.read("router.config.autoLink", name="of-a-client")["lastError"] is None
    connector = {"host": "127.0.0.1", "port": str(free_port())}
    management.create("connector", {**connector, "role": "normal"}, name="broker")
    told = management.read("router.config.autoLink", name="of-a-client")["lastError"]
    assert told == "broker has role normal; only connections with role route-container are used"
    rows = management.query("router.config.autoLink", ["name", "lastError"])
    assert {"name": "of-a-client", "lastError": told} in rows
    management.delete("connector", name="broker")
    management.create("connector", {**connector, "role": "route-container"}, name="broker")
    assert management.read("router.config.autoLink", name="of-a-client")["lastError"] is None


def test_a_profile_is_created_where_management_may_name_files(management: ManagementClient, tmp_path: Path) -> None:
    certificate = Authority(tmp_path, "ca").issue("server", {"CN": "server"})
    files = {"certFile": str(certificate.cert), "privateKeyFile": str(certificate.key)}
    made = management.create("sslProfile", files, name="made")
    assert made["identity"] == "sslProfile/made"
    status, text = refusal(management, "CREATE", "sslProfile", {"certFile": "/nowhere/cert.pem"}, name="bad")
    assert (status, "/nowhere/cert.pem" in text) == (400, True)
