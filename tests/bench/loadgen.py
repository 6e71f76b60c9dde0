"""Runs the compiled load generator and reads its JSON lines."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from tests.bench.errors import BenchError

RESULT_TIMEOUT_S = 90.0


class LoadGenerator:
    """One running load generator. Use as a context manager: what still runs at the end is killed."""

    def __init__(self, program: Path, arguments: Sequence[str], cores: frozenset[int] | None = None) -> None:
        self.arguments = list(arguments)
        self._process = subprocess.Popen(
            [str(program), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if cores:
            os.sched_setaffinity(self._process.pid, cores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def next_event(self, event: str) -> dict[str, Any]:
        """The next line with this event; raises BenchError when the load generator ends without it."""
        for line in _pipe(self._process.stdout):
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
            if found["event"] in ("error", "result"):
                raise BenchError(f"loadgen {' '.join(self.arguments)}: {found.get('message') or found.get('status')}")
        raise BenchError(f"loadgen {' '.join(self.arguments)}: ended without {event}")

    def result(self, timeout_s: float = RESULT_TIMEOUT_S) -> dict[str, Any]:
        """Waits for the end. Raises BenchError unless all is well with every message."""
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise BenchError(f"loadgen {' '.join(self.arguments)}: no end within {timeout_s:.0f} s") from None
        result = parse(out)
        if self._process.returncode != 0:
            raise BenchError(f"loadgen {' '.join(self.arguments)}: {describe(result, err)}")
        return result


def run(program: Path, arguments: Sequence[str], cores: frozenset[int] | None = None) -> dict[str, Any]:
    """Runs the load generator to its end and gives its result line."""
    with LoadGenerator(program, arguments, cores) as generator:
        return generator.result()


def parse(out: str) -> dict[str, Any]:
    """The result line of an output, with the text of an error line, if any, as `message`."""
    events = [json.loads(line) for line in out.splitlines()]
    result: dict[str, Any] = {}
    for event in events:
        if event["event"] == "result":
            result.update(event)
        elif event["event"] == "error":
            result["message"] = event["message"]
    return result


def describe(result: dict[str, Any], stderr: str) -> str:
    """In one line what was wrong with a run."""
    counts = ("lost", "duplicated", "reordered", "corrupt", "misrouted", "settled_twice", "unresolved")
    faults = [f"{name} {result[name]}" for name in counts if result.get(name)]
    return ", ".join([*faults, str(result.get("message") or stderr.strip())]).strip(", ")


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise BenchError("no output of the load generator")
    return stream
