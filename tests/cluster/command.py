"""Running programs: their output comes back, and a failure shows what they said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class CommandError(Exception):
    """A program ended with a status other than 0; `output` is what it wrote on stdout and stderr."""

    def __init__(self, argv: tuple[str, ...], status: int, stdout: str, stderr: str) -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr
        super().__init__(f"{' '.join(argv)}: status {status}\n{stderr or stdout}".rstrip())

    @property
    def output(self) -> str:
        """All that the program said."""
        return self.stdout + self.stderr


def run(
    *argv: str | Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 300,
) -> str:
    """The program's stdout; CommandError when it fails. `env` is added to this process's environment."""
    words = tuple(str(word) for word in argv)
    surroundings = {**os.environ, **(env or {})}
    done = subprocess.run(
        words, input=stdin, env=surroundings, cwd=cwd, timeout=timeout_s, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandError(words, done.returncode, done.stdout, done.stderr)
    return done.stdout
