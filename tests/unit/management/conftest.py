"""Fixtures of the management tests."""

from __future__ import annotations

import pytest

from tests.unit.management.fake_router import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
