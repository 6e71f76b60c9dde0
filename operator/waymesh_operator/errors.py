"""Errors of the operator, and problems in manifests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from waymesh_schema.text import one_line


class WaymeshError(Exception):
    """An error that a command reports to its user in one line, without a traceback."""


def no_cluster(error: Exception) -> WaymeshError:
    """Return the error for an unusable kubeconfig, in one line: parsers' messages have several."""
    reason = " ".join(str(error).split())
    return WaymeshError(f"cannot find a cluster: {reason}; for routers on this machine: waymesh up")


class LocalError(WaymeshError):
    """Local mode cannot do what was requested: a lock is held, a program is missing, no port is free."""


class LiveError(WaymeshError):
    """A router did not answer, or refused a management request (`refused` is its reason). A retry may succeed."""

    def __init__(self, message: str, *, refused: str = "") -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a manifest: its position (lines count from 1, 0 is the whole file), its subject, and the reason."""

    file: str
    line: int
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        what = " ".join(part for part in (self.subject, self.field) if part)
        return one_line(f"{place}: {what}: {self.message}" if what else f"{place}: {self.message}")


class ManifestError(WaymeshError):
    """Invalid manifests; `problems` holds all errors, in the order of files and lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class KubeError(WaymeshError):
    """The API server refused a request, or could not be reached (`status` 0). A retry may succeed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def missing(self) -> bool:
        """Whether there is no such object, or no such kind."""
        return self.status == 404

    @property
    def lasting(self) -> bool:
        """Whether the API server refused the object itself, or the right to write it: a retry does not help."""
        return self.status in (400, 403, 422)

    @property
    def conflict(self) -> bool:
        """Whether another writer was faster, or owns a field."""
        return self.status == 409


class NotOurs(KubeError):
    """An object with this name exists already, and the Router does not own it."""


class NamespaceEnding(KubeError):
    """The namespace is being deleted: objects can no longer be created in it, and existing ones are being deleted."""
