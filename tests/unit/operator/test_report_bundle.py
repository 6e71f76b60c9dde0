"""`waymesh report-bundle` of a local mesh whose routers end, and whose files are removed, while it is made."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.ports import free_port
from waymesh_operator.cli.report_bundle import of_local, run_report_bundle
from waymesh_operator.places.local.mesh import LocalMesh
from waymesh_operator.places.local.state import StateFolder
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.names import OPERATORS

pytestmark = pytest.mark.engine_independent


def test_routers_that_are_gone_are_named_and_the_rest_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = StateFolder(tmp_path, Ref("default", "mesh"))
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.ports = {name: cast("Any", {OPERATORS: [0, free_port()]}) for name in ("mesh-0", "mesh-1")}
    folder.log("mesh-0").write_text("one\ntwo\nthree\n")
    folder.config("mesh-0").write_text('[["router", {"id"')  # half of it
    mesh = cast("LocalMesh", SimpleNamespace(folder=folder, routers=dict.fromkeys(folder.ports)))
    parts = {part.path: part.content for part in of_local([mesh], 2)}
    assert parts["logs/mesh-0.log"] == "two\nthree\n"
    gone = [path for path in parts if path != "logs/mesh-0.log"]
    assert sorted(gone) == [
        "configuration/mesh-0.error.txt",
        "configuration/mesh-1.error.txt",
        "logs/mesh-1.error.txt",
        "routers/mesh-0.error.txt",
        "routers/mesh-1.error.txt",
    ]
    assert run_report_bundle(of_local([mesh], 2), tmp_path / "x.tar.gz", datetime.now(UTC)) == 1
    assert capsys.readouterr().err.count("not read: ") == len(gone)
