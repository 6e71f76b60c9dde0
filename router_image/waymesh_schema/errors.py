"""Errors of the schema: one for a single entity's attributes, one for a configuration file."""

from __future__ import annotations

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


class ConfigError(Exception):
    """A configuration file that stops the start; its text is `file:line: entity attribute: reason`.

    `line` counts from 1; 0 means that the error belongs to the file and not to a line (it cannot be read, say).
    """

    def __init__(self, filename: str, line: int, reason: str) -> None:
        self.filename = filename
        self.line = line
        self.reason = reason
        super().__init__(one_line(f"{filename}:{line}: {reason}" if line else f"{filename}: {reason}"))
