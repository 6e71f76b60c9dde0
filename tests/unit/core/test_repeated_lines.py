"""Lines that say the same again."""

from __future__ import annotations

import pytest

from waymesh_router.events.repeats import AGAIN_S, RepeatedLines

pytestmark = pytest.mark.engine_independent


def test_equal_lines_are_written_once_a_minute_with_their_number() -> None:
    lines = RepeatedLines()
    assert lines.left_out("refused", 0.0) == 0
    assert [lines.left_out("refused", second) for second in (1.0, 2.0, AGAIN_S - 1)] == [None] * 3
    assert lines.left_out("refused", AGAIN_S) == 3
    assert lines.left_out("refused", AGAIN_S + 1) is None
    assert lines.left_out("no route", AGAIN_S + 2) == 0
