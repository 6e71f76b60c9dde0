"""Work that waits for Spark more than it computes, done side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def together(work: Callable[[_Item], _Result], items: Iterable[_Item], at_once: int) -> list[_Result]:
    """The results in the order of the items. Raises the first error; what had not begun by then is left."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(work, items))
