"""The program that brings definitions up to date, against an API server of a few lines."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.architecture.tree import REPO
from tests.kit.scripts import load_script

pytestmark = pytest.mark.engine_independent

PROGRAM = "helm/waymesh/files/update_definitions.py"
NAME = "routers.waymesh.io"
LABEL = "waymesh.io/definitions"
NUMBER, DIGEST = "4", "aba5b5351e9f38eb"
"""The number of the definitions in crds/, and the digest of what they say: a change raises the number."""


@pytest.fixture
def program() -> ModuleType:
    """The program as a module of its own for each test."""
    return load_script(PROGRAM)


class Server:
    """Definitions by name. Each PUT that names an old version, and as many as `conflicts` says, are refused."""

    def __init__(self, program: ModuleType, conflicts: int = 0) -> None:
        self.refusal = program.ApiError
        self.conflicts = conflicts
        self.held: dict[str, dict[str, Any]] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        name = path.rpartition("/")[2]
        if method == "POST":
            self._hold(body)
        elif name not in self.held:
            raise self.refusal(404, "no such definition")
        elif method == "PUT":
            if self.conflicts or body["metadata"]["version"] != self.held[name]["metadata"]["version"]:
                self.conflicts -= 1
                raise self.refusal(409, "the definition was changed")
            self._hold(body)
        return self.held[body["metadata"]["name"] if method == "POST" else name]

    def _hold(self, body: dict[str, Any]) -> None:
        version = body["metadata"].get("version", 0) + 1
        established = {"conditions": [{"type": "Established", "status": "True"}]}
        kept = body | {"metadata": body["metadata"] | {"version": version}, "status": established}
        self.held[body["metadata"]["name"]] = kept


def definition(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": NAME}, "spec": spec}


def numbered(number: int, **spec: Any) -> dict[str, Any]:
    found = definition(**spec)
    found["metadata"]["labels"] = {"waymesh.io/definitions": str(number)}
    return found


def served(monkeypatch: pytest.MonkeyPatch, program: ModuleType, conflicts: int = 0) -> Server:
    """A server in the place of the real one."""
    server = Server(program, conflicts)
    monkeypatch.setattr(program, "call", server.call)
    return server


def run(program: ModuleType, folder: Path, wanted: dict[str, Any]) -> None:
    (folder / "router.json").write_text(json.dumps(wanted))
    program.main(folder)


def test_a_missing_definition_is_created(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = served(monkeypatch, program)
    run(program, tmp_path, definition(new=1))
    assert server.held[NAME]["spec"] == {"new": 1}
    assert capsys.readouterr().out == f"{NAME}: created\n"


def test_an_old_definition_is_replaced_as_a_whole_and_keeps_its_annotations(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = served(monkeypatch, program, conflicts=1)
    server.call("POST", "", {"metadata": {"name": NAME, "annotations": {"by": "hand"}}, "spec": {"old": 1}})
    run(program, tmp_path, definition(new=1))
    assert server.held[NAME]["spec"] == {"new": 1}
    assert server.held[NAME]["metadata"]["annotations"] == {"by": "hand"}
    assert capsys.readouterr().out == f"{NAME}: updated\n"


def test_a_definition_that_others_always_change_is_an_error(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = served(monkeypatch, program, conflicts=program.TRIES)
    server.call("POST", "", definition(old=1))
    with pytest.raises(program.ApiError, match="409"):
        run(program, tmp_path, definition(new=1))
    assert server.held[NAME]["spec"] == {"old": 1}


def test_an_older_chart_keeps_a_newer_definition_unless_it_is_told_otherwise(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = served(monkeypatch, program)
    server.call("POST", "", numbered(10, new=1))
    run(program, tmp_path, numbered(9, old=1))
    assert server.held[NAME]["spec"] == {"new": 1}
    told = f"{NAME}: kept, it is newer (10, this chart has 9; crds.allowDowngrade)"
    assert capsys.readouterr().out.strip() == told
    program.main(tmp_path, allow_downgrade=True)
    assert server.held[NAME]["spec"] == {"old": 1}
    assert server.held[NAME]["metadata"]["labels"] == {"waymesh.io/definitions": "9"}


def test_a_definition_without_a_number_is_older(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = served(monkeypatch, program)
    server.call("POST", "", definition(old=1))
    run(program, tmp_path, numbered(1, new=1))
    assert server.held[NAME]["spec"] == {"new": 1}
    assert server.held[NAME]["metadata"]["labels"] == {"waymesh.io/definitions": "1"}


def test_all_definitions_have_the_same_number() -> None:
    found = [yaml.safe_load(path.read_text()) for path in sorted((REPO / "crds").glob("*.yaml"))]
    numbers = {body["metadata"]["labels"]["waymesh.io/definitions"] for body in found}
    assert numbers == {NUMBER}
    specs = [body["spec"] for body in found]
    digest = hashlib.sha256(json.dumps(specs, sort_keys=True).encode()).hexdigest()[:16]
    assert digest == DIGEST, f"raise {LABEL} in crds/, run `make chart`, and write the number and {digest} here"
