"""`waymesh stat` and `waymesh manage`: options, output, exit status."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.ports import free_port
from tests.unit.client.fake_server import FakeServer, agent_answer
from tests.unit.management.fake_router import PREFIX, Bench
from waymesh_client.cli.manage import OPERATIONS
from waymesh_client.cli.views import EDGES
from waymesh_operator.cli import management
from waymesh_operator.cli.main import run_command
from waymesh_operator.cli.options import RouterOptions

pytestmark = pytest.mark.engine_independent

Capture = pytest.CaptureFixture[str]


def stat(words: Sequence[str]) -> int:
    return run_command(["stat", *words])


def manage(words: Sequence[str]) -> int:
    return run_command(["manage", *words])


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def server(bench: Bench) -> Iterator[FakeServer]:
    with FakeServer(agent_answer(bench.agent)) as server:
        yield server


# stat


def test_general_is_shown_by_default(server: FakeServer, capsys: Capture) -> None:
    assert stat(["-b", server.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Router Statistics"
    assert lines[1].split() == ["attr", "value"]
    assert [line.split() for line in lines if "Version" in line] == [["Version", "1.2.3"]]
    assert "  Uptime" in "\n".join(lines)


@pytest.mark.parametrize("command", [stat, manage])
def test_version_is_shown_without_a_router(command: Callable[[Sequence[str]], int], capsys: Capture) -> None:
    assert command(["--version"]) == 0
    assert capsys.readouterr().out == f"{version('waymesh')}\n"


@pytest.mark.parametrize("option", ["-l", "--links"])
def test_links(server: FakeServer, capsys: Capture, option: str) -> None:
    assert stat([option, "--bus", server.url, "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Router Links"
    assert lines[1].split()[:4] == ["type", "dir", "conn", "id"]
    assert len(lines) == 5


def test_empty_views(server: FakeServer, capsys: Capture) -> None:
    assert stat(["--autolinks", "-b", server.url]) == 0
    assert capsys.readouterr().out == "AutoLinks\nNo AutoLinks found\n"


def test_log(server: FakeServer, capsys: Capture) -> None:
    assert stat(["--log", "-b", server.url]) == 0
    assert capsys.readouterr().out.endswith("AGENT (info) hello\n")


def test_csv(server: FakeServer, capsys: Capture) -> None:
    assert stat(["-n", "--csv", "-b", server.url]) == 0
    assert capsys.readouterr().out.splitlines()[1] == '"router-id","next-hop","link"'


def test_json(server: FakeServer, capsys: Capture) -> None:
    assert stat(["-l", "-o", "json", "-b", server.url]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["linkName"] for row in rows] == ["link-0", "link-1", "link-2"]
    assert stat(["-o", "json", "-b", server.url]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "A"


def test_yaml(server: FakeServer, capsys: Capture) -> None:
    assert stat(["-l", "-o", "yaml", "-b", server.url]) == 0
    assert [row["linkName"] for row in yaml.safe_load(capsys.readouterr().out)] == ["link-0", "link-1", "link-2"]


@pytest.mark.parametrize("words", [["-o", "wide"], ["-v"], ["-v", "--csv"], ["-o", "wide", "--csv"]])
def test_more_columns(server: FakeServer, capsys: Capture, words: list[str]) -> None:
    assert stat(["-l", *words, "-b", server.url]) == 0
    heading = capsys.readouterr().out.splitlines()[1]
    assert heading.replace('"', "").replace(",", " ").split()[-3:] == ["admin", "oper", "name"]


def test_condition_and_order(server: FakeServer, capsys: Capture) -> None:
    words = ["--where", "linkName LIKE 'link-%' AND NOT linkName = 'link-1'", "--order-by", "linkName DESC"]
    assert stat(["-l", *words, "-o", "json", "-b", server.url]) == 0
    assert [row["linkName"] for row in json.loads(capsys.readouterr().out)] == ["link-2", "link-0"]
    assert stat(["-l", *words, "-o", "wide", "-b", server.url]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[3:]] == ["link-2", "link-0"]
    assert stat(["-l", "--where", "colour = 'red'", "-b", server.url]) == 1
    assert "colour" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--vhosts", "Vhosts\nNo Vhosts found\n"),
        ("--vhostgroups", "Vhost Groups\nNo Vhost Groups found\n"),
        ("--vhoststats", "Vhost Stats\nNo Vhost Stats found\n"),
        ("-p", "Policy Statistics\n"),
    ],
)
def test_policy_of_a_router_without_one(server: FakeServer, capsys: Capture, option: str, text: str) -> None:
    assert stat([option, "-b", server.url]) == 0
    assert capsys.readouterr().out == text


def test_watch_shows_it_again_until_it_is_interrupted(
    server: FakeServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("waymesh_client.cli.stat.time.sleep", pause)
    assert stat(["-n", "--watch", "2", "-b", server.url]) == 0
    assert pauses == [2.0] * 3
    assert capsys.readouterr().out.count("Routers in the Network") == 3


def test_all_routers(server: FakeServer, capsys: Capture) -> None:
    assert stat(["--all-routers", "-l", "-b", server.url]) == 0
    out = capsys.readouterr().out
    assert out.index("Router A\n\nRouter Links") < out.index("Router B\n\nRouter Links")
    assert server.addresses == ["$management", "_topo/0/A/$management", "_topo/0/B/$management"]
    assert stat(["--all-routers", "-o", "json", "-b", server.url]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"A", "B"}


def test_another_router(server: FakeServer) -> None:
    assert stat(["-r", "B", "-b", server.url]) == 0
    assert server.addresses == ["_topo/0/B/$management"]


def test_an_edge_router(server: FakeServer) -> None:
    assert stat(["-d", "E", "-b", server.url]) == 0
    assert server.addresses == ["_edge/E/$management"]


def test_edge_connections_are_those_with_that_role(server: FakeServer, capsys: Capture) -> None:
    assert stat(["-e", "-b", server.url]) == 0
    assert capsys.readouterr().out == "Edge Router Connections\nNo Edge Router Connections found\n"
    edge, client = {"role": "edge"}, {"role": "normal"}
    assert [row for row in (edge, client) if EDGES.belongs(row)] == [edge]
    cells = EDGES.table([{"active": True}, {"active": False}], verbose=False)[2]
    assert [line[-1] for line in cells] == ["yes", "no"]


def test_all_entities(server: FakeServer, capsys: Capture) -> None:
    assert stat(["--all-entities", "-b", server.url]) == 0
    out = capsys.readouterr().out
    places = [out.index(title) for title in ("Router Statistics", "Connections", "Router Links", "AutoLinks", "Vhosts")]
    assert places == sorted(places)
    assert stat(["--all-entities", "-o", "json", "-b", server.url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"general", "links", "vhoststats", "log"} <= set(found)


@pytest.mark.parametrize(
    "argv",
    [
        ["-l", "-c"],
        ["-l", "--all-entities"],
        ["--all-entities", "--where", "a = 1"],
        ["-r", "A", "-d", "E"],
        ["-d", "E", "--all-routers"],
        ["-r", "A", "--all-routers"],
        ["--limit", "0"],
        ["--limit", "x"],
        ["-t", "0"],
        ["--csv", "-o", "json"],
        ["-o", "xml"],
        ["--watch", "0"],
        ["--where", "a = 1"],
        ["--log", "--order-by", "a"],
        ["--nonsense"],
        ["-b", "http://x"],
        ["-b", "127.0.0.1:1", "--pod", "a-0"],
        ["-b", "127.0.0.1:1", "--context", "c"],
        ["-b", "127.0.0.1:1", "--namespace", "n"],
        ["--ssl-key", "k"],
        ["--ssl-trustfile", "ca", "--ssl-password", "p"],
        ["--ssl-certificate", "c", "--ssl-password", "p", "--ssl-password-file", "f"],
        ["--sasl-password", "p", "--sasl-password-file", "f"],
        ["-g", "--limit", "2"],
        ["--sasl-password-file", "/no/such/file"],
    ],
)
def test_wrong_usage_of_stat(argv: list[str], capsys: Capture) -> None:
    assert stat(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "waymesh stat: " in captured.err


def test_help(capsys: Capture) -> None:
    assert stat(["--help"]) == 0
    assert manage(["--help"]) == 0
    assert "--autolinks" in capsys.readouterr().out


@pytest.mark.parametrize("tool", [stat, manage])
def test_no_router(tool: Any, capsys: Capture) -> None:
    port = free_port()
    assert tool(["query", "-b", f"127.0.0.1:{port}"] if tool is manage else ["-b", f"127.0.0.1:{port}"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"127.0.0.1:{port}" in captured.err
    assert "refused" in captured.err


# manage


def run(capsys: Capture, server: FakeServer, *argv: str) -> Any:
    status = manage([*argv, "-b", server.url])
    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    return json.loads(captured.out) if captured.out else None


def fail(capsys: Capture, server: FakeServer, *argv: str) -> tuple[int, str]:
    status = manage([*argv, "-b", server.url])
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


def test_query(server: FakeServer, capsys: Capture) -> None:
    assert run(capsys, server, "query", "--type", "router.node", "id") == [{"id": "A"}, {"id": "B"}]
    assert run(capsys, server, "QUERY", "--type=router.node", "id", "cost") == [{"id": "A"}, {"id": "B"}]
    assert len(run(capsys, server, "query")) == 4  # without the links


def test_create_by_attributes(server: FakeServer, capsys: Capture, bench: Bench) -> None:
    created = run(capsys, server, "create", "type=listener", "port=5555", "host=127.0.0.1", "http=false")
    assert created["identity"] == "listener/127.0.0.1:5555"
    assert (created["port"], created["type"]) == ("5555", PREFIX + "listener")
    assert bench.events == [("create", "listener/127.0.0.1:5555")]


def test_create_by_options(server: FakeServer, capsys: Capture) -> None:
    created = run(capsys, server, "create", "--type", "listener", "--name=l", "port=5555", "linkCapacity=10")
    assert (created["name"], created["linkCapacity"]) == ("l", 10)
    assert run(capsys, server, "read", "--type", "listener", "--name", "l") == created
    assert run(capsys, server, "read", "--identity", created["identity"]) == created
    assert run(capsys, server, "read", created["identity"]) == created
    assert run(capsys, server, "delete", "--type", "listener", "--name", "l") is None


def test_update(server: FakeServer, capsys: Capture) -> None:
    assert run(capsys, server, "update", "log/DEFAULT", "enable=debug+")["enable"] == "debug+"
    assert run(capsys, server, "update", "--type=log", "--name", "log/DEFAULT", "enable=info+")["enable"] == "info+"
    assert run(capsys, server, "update", "name=log/DEFAULT", "enable=trace+")["enable"] == "trace+"


def test_standard_input(server: FakeServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = [{"type": "listener", "name": f"l{n}", "port": str(7000 + n)} for n in range(2)]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(maps)))
    assert [row["name"] for row in run(capsys, server, "create", "--stdin")] == ["l0", "l1"]
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "l2", "port": "7002"}'))
    assert run(capsys, server, "create", "--stdin", "--type", "listener")["name"] == "l2"


def test_descriptions(server: FakeServer, capsys: Capture) -> None:
    assert run(capsys, server, "get-mgmt-nodes") == ["amqp:/_topo/0/A/$management", "amqp:/_topo/0/B/$management"]
    assert list(run(capsys, server, "get-types", "--type", "listener")) == [PREFIX + "listener"]
    assert "port" in run(capsys, server, "get-attributes", "listener")[PREFIX + "listener"]
    assert "CREATE" in run(capsys, server, "get-operations", "listener")[PREFIX + "listener"]
    assert run(capsys, server, "get-annotations") == {}
    assert "listener" in run(capsys, server, "get-schema")["entityTypes"]
    assert run(capsys, server, "get-log", "limit=1") == [["AGENT", "info", "hello", "", 0, 1]]


def test_other_operations(server: FakeServer, capsys: Capture) -> None:
    assert "entityTypes" in run(capsys, server, "get-json-schema", "indent=1")
    run(capsys, server, "discover-mgmt-nodes", "--properties", '{"limit": 1}', "--body", '{"a": [1]}', "color=red")
    properties, body = server.request(-1)
    assert (properties["limit"], properties["color"], body) == (1, "red", {"a": [1]})


def test_properties_may_have_any_name(server: FakeServer, capsys: Capture) -> None:
    assert manage(["get-log", "type=listener", "limit=1", "-b", server.url]) == 1
    assert "not implemented (501)" in capsys.readouterr().err
    properties, _ = server.request(-1)
    assert (properties["operation"], properties["type"]) == ("GET-LOG", "listener")
    run(capsys, server, "get-json-schema", "body=b", "operation=o")
    properties, _ = server.request(-1)
    assert (properties["operation"], properties["body"]) == ("get-json-schema", "b")


def test_indent(server: FakeServer, capsys: Capture) -> None:
    assert manage(["get-mgmt-nodes", "--indent", "-1", "-b", server.url]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_refusals(server: FakeServer, capsys: Capture) -> None:
    status, text = fail(capsys, server, "read", "--identity", "router.node/X")
    assert (status, "router.node/X" in text, "404" in text) == (1, True, True)
    status, text = fail(capsys, server, "create", "type=listener", "flavour=sweet")
    assert (status, "flavour" in text) == (1, True)
    status, text = fail(capsys, server, "create", "port=1")
    assert (status, "type" in text) == (1, True)
    assert fail(capsys, server, "dance")[0] == 1


def test_password_files(server: FakeServer, tmp_path: Path, capsys: Capture) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    options = RouterOptions(sasl_username="u", sasl_password_file=str(secret))
    assert options.sasl().password == "hunter2"
    assert options.tls() is None
    options = RouterOptions(ssl_trustfile="ca", ssl_disable_peer_name_verify=True, ssl_password_file=str(secret))
    tls = options.tls()
    assert tls is not None
    assert (tls.ca, tls.verify, tls.verify_name, tls.key_password) == ("ca", True, False, "hunter2")


def test_every_operation_is_in_the_help() -> None:
    assert set(management.OPERATIONS) == set(OPERATIONS)
