"""Wall clocks of routers that jump, while their monotonic clocks are real."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.kit.built import cached, call, need

SOURCES = Path(__file__).with_name("preload")


def _library() -> Path:
    need("gcc", "gcc")
    words = ["gcc", "-shared", "-fPIC", "-O2", str(SOURCES / "clock.c"), "-lm", "-o"]
    return cached(SOURCES, lambda folder: call([*words, str(folder / "clock.so")], folder)) / "clock.so"


class Clock:
    """The wall clock of one process, and of those that it starts."""

    def __init__(self, path: Path) -> None:
        """`path`: of the file that tells the process how far it is off."""
        self._path = path
        self.set(0.0)

    def within(self) -> list[str]:
        """The words before the command of a process that has this clock."""
        return ["env", f"LD_PRELOAD={_library()}", f"WAYMESH_TEST_CLOCK={self._path}"]

    def set(self, offset_s: float) -> None:
        """Let it be so far off from now on."""
        mode = "r+b" if self._path.exists() else "wb"
        with self._path.open(mode) as file:  # not replaced: the process has it in its memory
            file.write(struct.pack("d", offset_s))
