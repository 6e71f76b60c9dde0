"""Tables of `waymesh stat` about access policy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.client.fake_server import FakeServer, agent_answer
from waymesh_operator.cli.main import run_command
from waymesh_router.management.adapters import EntityAdapter, TableEntities
from waymesh_router.management.agent import Agent
from waymesh_schema.entities import entity_type

pytestmark = pytest.mark.engine_independent

VHOSTS: dict[str, list[dict[str, Any]]] = {
    "policy": [{"identity": "policy/0", "maxConnections": 9, "enableVhostPolicy": True, "connectionsCurrent": 3}],
    "vhost": [
        {
            "identity": f"vhost/{name}",
            "hostname": name,
            "maxConnections": 5,
            "allowUnknownUser": False,
            "groups": {"staff": {"users": "ann,bob", "sources": "*", "sourcePattern": None}},
        }
        for name in ("w", "v")
    ],
    "vhostStats": [
        {
            "identity": "vhostStats/v",
            "hostname": "v",
            "connectionsApproved": 4,
            "senderDenied": 2,
            "perUserState": {"bob": 1, "ann": 2},
            "perHostState": {"10.0.0.1": 3},
        }
    ],
}


def rows_of(name: str) -> EntityAdapter:
    rows = [{"name": row["identity"], **row} for row in VHOSTS[name]]
    columns = {key: lambda row, _now, key=key: row[key] for key in rows[0]}
    return TableEntities(entity_type(name), lambda: rows, columns)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--policy", [["Policy", "Statistics"], ["Maximum", "Connections", "9"], ["Current", "Connections", "3"]]),
        (
            "--vhosts",
            [["Vhosts"], ["v", "5", "False"], ["w", "5", "False"]],
        ),
        (
            "--vhostgroups",
            [
                ["Vhost", "Groups"], ["v", "staff"], ["w", "staff"],
                ["Vhost", "'w'", "UserGroup", "'staff'"], ["attr", "value"], ["users", "ann,bob"], ["sources", "*"],
                ["Vhost", "'v'", "UserGroup", "'staff'"],
            ],
        ),
        (
            "--vhoststats",
            [
                ["Vhost", "Stats"], ["v", "4", "2"],
                ["Vhost", "User", "Stats"], ["vhost", "user", "connections"], ["v", "ann", "2"], ["v", "bob", "1"],
                ["Vhost", "Host", "Stats"], ["vhost", "host", "connections"], ["v", "10.0.0.1", "3"],
            ],
        ),
    ],
)  # fmt: skip
def test_tables_of_policy(capsys: pytest.CaptureFixture[str], option: str, expected: list[list[str]]) -> None:
    with FakeServer(agent_answer(Agent({name: rows_of(name) for name in VHOSTS}))) as server:
        assert run_command(["stat", option, "-b", server.url]) == 0
        lines = words(capsys.readouterr().out)
        places = [lines.index(line) for line in expected]
        assert places == sorted(places)
        assert not any("sourcePattern" in line for line in lines)
        assert run_command(["stat", option, "-o", "json", "-b", server.url]) == 0
        assert json.loads(capsys.readouterr().out)
        assert run_command(["stat", option, "--csv", "-b", server.url]) == 0
        assert '","' in capsys.readouterr().out
