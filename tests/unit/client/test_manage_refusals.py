"""What `waymesh manage` refuses, and lists of entities that fail midway."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from tests.unit.client.fake_server import FakeServer, agent_answer
from tests.unit.management.fake_router import Bench
from waymesh_operator.cli.main import run_command

pytestmark = pytest.mark.engine_independent

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def server(bench: Bench) -> Iterator[FakeServer]:
    with FakeServer(agent_answer(bench.agent)) as server:
        yield server


def fail(capsys: Capture, server: FakeServer, *argv: str) -> tuple[int, str]:
    status = run_command(["manage", *argv, "-b", server.url])
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


def test_a_list_that_fails_midway(
    server: FakeServer, capsys: Capture, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the entity, and how many are done."""
    maps: list[dict[str, str]] = [{"type": "listener", "name": f"l{n}", "port": str(7000 + n)} for n in range(5)]
    maps[2]["flavour"] = "sweet"

    def failure(operation: str, entities: list[dict[str, str]]) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(entities)))
        status, text = fail(capsys, server, operation, "--stdin")
        assert status == 1
        return text

    text = failure("create", maps)
    assert text.startswith("waymesh manage: entity 3 of 5 (listener l2): ")
    assert "flavour" in text
    assert text.endswith("; created before: 2, not tried: 2\n")
    assert bench.events == [("create", f"listener/:{7000 + n}:l{n}") for n in range(2)]
    text = failure("update", [{"identity": name, "enable": "info+"} for name in ("log/DEFAULT", "log/X\x1b")])
    assert text.startswith("waymesh manage: entity 2 of 2 (log/X\\x1b): ")
    assert text.endswith("; updated before: 1, not tried: 0\n")
    text = failure("delete", [{"type": "listener", "name": f"l{n}"} for n in range(4)])
    assert text.startswith("waymesh manage: entity 3 of 4 (listener l2): ")
    assert text.endswith("; deleted before: 2, not tried: 1\n")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["create", "--stdin"],
        ["create", "loose"],
        ["read", "a", "b"],
        ["get-mgmt-nodes", "x"],
        ["query", "--nonsense"],
        ["dance", "--body", "{"],
        ["dance", "--properties", "[]"],
        ["create", "type=vhost", "groups={"],
        ["read", "--stdin"],
        ["dance", "--stdin"],
        ["query", "--stdin"],
        ["query", "type=listener"],
        ["query", "--name", "x"],
        ["read", "log/DEFAULT", "enable=info+"],
        ["delete", "type=listener", "port=1"],
        ["read", "--name", "x", "--identity", "y"],
        ["create", "type=listener", "--body", "{}"],
        ["update", "log/DEFAULT", "--properties", '{"a": 1}'],
        ["create", "type=listener", "--identity", "x"],
        ["get-log", "5"],
        ["get-log", "--type", "listener"],
        ["get-mgmt-nodes", "--type", "listener"],
        ["get-types", "--type", "listener", "connector"],
        ["get-attributes", "listener", "connector"],
        ["get-schema", "--identity", "x"],
    ],
)
def test_wrong_usage_of_manage(
    argv: list[str], server: FakeServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))
    status, text = fail(capsys, server, *argv)
    assert status == 2
    assert "waymesh manage: " in text
    assert server.requests == []
