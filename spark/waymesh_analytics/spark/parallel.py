"""Calls that mostly wait for Spark, run in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_parallel(call: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> list[_Result]:
    """The results in the order of the items. Raises the first error; calls not yet started are then skipped."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(call, items))
