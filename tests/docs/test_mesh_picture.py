"""The picture of the README shows the mesh that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.mesh_picture import picture

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "mesh.svg"


@pytest.mark.engine_independent
def test_the_picture_is_that_of_a_running_mesh() -> None:
    assert picture() == PICTURE.read_text(encoding="utf-8")
