"""The table of docs/management.md: how a running router handles each attribute of each entity type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.management_table import BEGIN, END, PAGE, TableRouter, table

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


def test_the_table_of_management_says_what_a_router_does(tmp_path: Path) -> None:
    written = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    router = TableRouter(tmp_path)
    with router as client:
        found = table(router, client)
    assert written.splitlines() == found.splitlines(), "write it anew: python -m tests.interop.management_table"
