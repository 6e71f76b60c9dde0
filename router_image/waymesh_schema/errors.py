"""Errors of the schema: one for a single entity's attributes, one for a configuration file."""

from __future__ import annotations

from typing import NamedTuple

from .text import one_line


class SchemaError(Exception):
    """An entity type or an attribute value that the schema refuses; its text is one line.

    `entity` is the short type name, `attribute` the attribute ("" when the error is of the entity as a whole).
    """

    def __init__(self, entity: str, attribute: str, reason: str) -> None:
        self.entity = entity
        self.attribute = attribute
        self.reason = reason
        super().__init__(one_line(f"{' '.join(part for part in (entity, attribute) if part)}: {reason}"))


class Problem(NamedTuple):
    """One error in a configuration file.

    `line` counts from 1; 0: the error belongs to the file and not to a line (it cannot be read).
    """

    filename: str
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.filename}:{self.line}" if self.line else self.filename
        return one_line(f"{place}: {self.reason}")


class ConfigError(Exception):
    """Errors in configuration files, which stop the start. The text has one line for each of `problems`."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems

    @classmethod
    def at(cls, filename: str, line: int, reason: str) -> ConfigError:
        """One error; see Problem."""
        return cls(Problem(filename, line, reason))
