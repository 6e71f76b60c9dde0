"""`waymesh analyze`: the Spark job, which is a program of its own; the operator knows nothing of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


def run_analyze(words: Sequence[str]) -> int:
    """Run `python -m waymesh_analytics` with these words; returns its exit code. Ctrl-C reaches it too."""
    job = subprocess.Popen([sys.executable, "-m", "waymesh_analytics", *words])
    while True:
        try:
            return job.wait()
        except KeyboardInterrupt:
            continue  # the job ends by itself
