"""A target that is made anew now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

RUNS = 40
"""Inputs that one core meets before it is thrown away: what they leave is found, and a fresh start stays cheap."""


class Target(Protocol):
    """A core and its peers. `run` raises for a finding; `first` chooses how far the connection has got before."""

    def run(self, first: int, data: bytes) -> None: ...


T = TypeVar("T", bound=Target)


class Renewed(Generic[T]):
    """Gives inputs to a target, which is made anew after RUNS of them, and after a finding."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._runs = 0
        self.target = make()

    def __call__(self, data: bytes) -> None:
        if not data:
            return
        if self._runs == RUNS:
            self._renew()
        try:
            self.target.run(data[0], data[1:])
        except BaseException:
            self._renew()
            raise
        self._runs += 1

    def _renew(self) -> None:
        self._runs = 0
        self.target = self._make()
