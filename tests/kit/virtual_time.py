"""An event loop with virtual time, which advances only when the loop is idle: waiting costs nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Instead of waiting for the next timer it goes there. For stories without threads and sockets."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Whatever is ready; `timeout` (seconds) goes by at once."""
        assert timeout is not None, "nothing is under way that could ever end"
        self.now += max(timeout, 0.0)
        return super().select(0)


class _VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` with the loop's time as the only one."""
    with asyncio.Runner(loop_factory=_VirtualTimeLoop) as runner:
        return runner.run(story)
