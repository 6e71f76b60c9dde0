"""Errors of the operator, and the problems that it finds in manifests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class WaymeshError(Exception):
    """What a command reports to its user in one line, without a trace."""


def no_cluster(error: Exception) -> WaymeshError:
    """What to report of a kubeconfig that cannot be used, in one line: parsers write several."""
    return WaymeshError(f"cannot find a cluster: {' '.join(str(error).split())}")


class LocalError(WaymeshError):
    """Local mode cannot do what is asked: a lock is held, a program is missing, a port cannot be had."""


class LiveError(WaymeshError):
    """A router did not answer, or refused a management request (`refused` is its reason). Later it may work."""

    def __init__(self, message: str, *, refused: str = "") -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a manifest: where it stands (line counts from 1, 0 is the whole file), on what, and why."""

    file: str
    line: int
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        what = " ".join(part for part in (self.subject, self.field) if part)
        return f"{place}: {what}: {self.message}" if what else f"{place}: {self.message}"


class ManifestError(WaymeshError):
    """Manifests that cannot be used; `problems` holds all that is wrong, in the order of files and lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class KubeError(WaymeshError):
    """The API server refused a request, or could not be asked (`status` 0). Trying again later may help."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def missing(self) -> bool:
        """Whether there is no such object, or no such kind."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """Whether somebody else was faster, or owns a field."""
        return self.status == 409


class NotOurs(KubeError):
    """An object of this name is there already, and the Router does not own it."""


class NamespaceEnding(KubeError):
    """Nothing can be made any more in a namespace that is being deleted; what is in it goes by and by."""
