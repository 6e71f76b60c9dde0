"""What the store asks of a file system. No Spark, so that the store's steps can be tested without it."""

from __future__ import annotations

from typing import Protocol


class Taken(Exception):
    """There is a file of that name already."""


class Files(Protocol):
    """A folder. All paths are relative to it."""

    def full(self, path: str) -> str:
        """The path as messages name it."""

    def exists(self, path: str) -> bool:
        """Whether there is something."""

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted; nothing where there is no folder."""

    def read_text(self, path: str) -> str:
        """A whole file as UTF-8."""

    def write_new(self, path: str, text: str) -> None:
        """Write a file that was not there: a reader sees nothing or all of it. Raises Taken."""

    def put(self, path: str, text: str) -> None:
        """Write a file in place: it is never away, but a reader may see a part of it."""

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing where there is none."""
