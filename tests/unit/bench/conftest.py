"""The compiled tools, for all tests of this folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bench.tools import Tools, build_tools


@dataclass(frozen=True)
class Run:
    """How a run of the load generator ended."""

    code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        """The result line."""
        return next(event for event in self.events if event["event"] == "result")


Loadgen = Callable[[str], Run]


@pytest.fixture(scope="session")
def tools() -> Tools:
    return build_tools()


@pytest.fixture(scope="session")
def loadgen(tools: Tools) -> Loadgen:
    def run(arguments: str) -> Run:
        command = [str(tools.loadgen), *arguments.split()]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
        return Run(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)

    return run
