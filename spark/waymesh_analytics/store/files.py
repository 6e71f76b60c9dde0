"""The file operations that the store needs, as a protocol: manifests and claims are tested without Spark."""

from __future__ import annotations

from typing import Protocol


class Files(Protocol):
    """A root folder. All paths are relative to it."""

    def full(self, path: str) -> str:
        """The full path, for messages."""

    def exists(self, path: str) -> bool:
        """Whether the path is a file or a folder."""

    def names(self, path: str) -> list[str]:
        """The sorted names of a folder's entries; empty if the folder does not exist."""

    def read_text(self, path: str) -> str:
        """The content of a UTF-8 file."""

    def write_new(self, path: str, text: str) -> None:
        """Create a file atomically: a reader sees nothing or all of it. Raises FileExistsError."""

    def put(self, path: str, text: str) -> None:
        """Write a file in place: it always exists, but a reader may see only a part of it."""

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with its content; does nothing if the path does not exist."""
