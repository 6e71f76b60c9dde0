"""Counts the steps of a piece of work, instead of the time that it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def steps(work: Callable[[], object]) -> int:
    """The number of calls of Python and built-in functions. Compiled functions do not count: tests that pass on both
    engines find work that is too long with the interpreted one."""
    count = 0

    def on_event(_frame: Any, event: str, _function: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines(work: Callable[[], object]) -> int:
    """The number of lines of Python that run: it grows with loops that call nothing, too. Compiled functions do not
    count, as for `steps`."""
    count = 0

    def on_event(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return on_event

    before = sys.gettrace()
    sys.settrace(on_event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
