"""What can go wrong in a benchmark run."""

from __future__ import annotations


class BenchError(Exception):
    """A scenario could not be measured, or messages were lost, duplicated, reordered or corrupt."""


class UnsupportedError(BenchError):
    """The scenario does not apply to this router (it starts no process, gives credit without a consumer, …)."""
