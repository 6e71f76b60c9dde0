"""The end of `waymesh-upload`."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from tests.kit.interrupted import run_interrupted
from waymesh_upload.command import Service
from waymesh_upload.uploader import Uploader

pytestmark = pytest.mark.engine_independent


class Store:
    """Takes everything."""

    def put(self, path: str, data: BinaryIO, size: int) -> None:
        """Does nothing."""


def test_a_signal_may_arrive_at_any_moment(tmp_path: Path) -> None:
    service = Service(Uploader(tmp_path, Store(), lambda: 0.0), 3600.0)
    run_interrupted(service.run, service.stop)
