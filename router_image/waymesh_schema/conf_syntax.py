"""The syntax of *.conf files: text to named sections of untyped attributes, each with its line.

name {                 # opens a section; `#` starts a comment
    attribute: value   # to the end of the line, no quotes
    groups: {
        ...            # JSON when it begins with a quoted key, else nested lines of the same form
    }
}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from . import json_text
from .errors import ConfigError, Problem
from .model import camel_case

HASH_BELONGS = frozenset(("pattern", "bindingKey", "hostname"))
"""Attributes in whose values `#` is a character like any other; a comment begins with a `#` after a blank."""
PATTERN_LISTS = frozenset(("sourcePattern", "targetPattern"))
"""Attributes of user groups that are patterns, but in whose values `#` starts a comment, as in Dispatch."""
ALWAYS_JSON = frozenset(("openProperties", "linkProperties"))
"""Attributes whose braces hold JSON."""
MAPS = ALWAYS_JSON | {"groups", "userConnectionRates", "sslProfilesByHost"}
"""Attributes whose braces hold JSON, or lines with a name and a value each. Braces of others hold only such lines."""

_OPEN = re.compile(r"([\w.-]+)\s*\{")
_ATTRIBUTE = re.compile(r"([^\s:{}]+)\s*:\s*(.*)", re.DOTALL)
_WORD = re.compile(r"[^\w.-]")
_COMMENT_AFTER_VALUE = re.compile(r"(?<=\S)\s+#")
_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"?|#[^\n]*|[{}]')


@dataclass(slots=True)
class Section:
    """One section as written: its attributes by written name, the line it opens at, and the lines of its attributes.

    `lines` also holds those of nested lines, with the names of the maps before the attribute: `groups.admin.users`.
    """

    name: str
    line: int
    attributes: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def parse(text: str, filename: str, problems: list[Problem]) -> list[Section]:
    """The sections of the text in order, up to what cannot be read. Errors are appended to `problems`."""
    return _Parser(text, filename, problems).sections()


def _uncommented(line: str) -> str:
    head, colon, value = line.partition(":")
    if colon and "#" not in head and camel_case(head.strip()) in HASH_BELONGS:
        return f"{head.strip()}: {_COMMENT_AFTER_VALUE.split(value.strip(), maxsplit=1)[0]}"
    return line.partition("#")[0].strip()


def _shown(line: str) -> str:
    """How an error shows a line that is not understood: without what may be a password."""
    if "password" in line.lower():
        return f"{_WORD.split(line, maxsplit=1)[0]!r} and more"
    return repr(line[:60])


class _Parser:
    """Reads lines one after the other; `_next` is the index of the line to read next."""

    def __init__(self, text: str, filename: str, problems: list[Problem]) -> None:
        self._lines = text.removeprefix("\ufeff").split("\n")
        self._filename = filename
        self._problems = problems
        self._next = 0

    def sections(self) -> list[Section]:
        found: list[Section] = []
        try:
            while (line := self._content()) is not None:
                opening = _OPEN.fullmatch(line)
                if opening is None:
                    raise self._error(f"expected `name {{`, not {_shown(line)}")
                found.append(self._section(opening[1]))
        except ConfigError as error:  # where the next section begins is not known
            self._problems += error.problems
        return found

    def _section(self, name: str) -> Section:
        section = Section(name, self._next)
        while (line := self._content()) != "}":
            if line is None:
                raise ConfigError.at(self._filename, section.line, f"{name}: is not closed by `}}`")
            key, value = self._attribute(line, name)
            if key in section.attributes:
                self._problems += self._error(f"{name} {key}: is given twice").problems
            section.lines[key] = self._next
            section.attributes[key] = self._value(key, value, section)
        return section

    def _value(self, key: str, value: str, into: Section) -> Any:
        if camel_case(key) in MAPS and value.startswith("{") and (value != "{" or self._json_follows(key)):
            return self._json(key, into.name)
        return self._nested(key, into) if value == "{" else value

    def _nested(self, key: str, into: Section) -> dict[str, Any]:
        """The lines up to the brace that closes the one just read, as a map of maps and strings."""
        first, section = self._next, into.name
        stack: list[dict[str, Any]] = [{}]
        path = [key]
        while stack:
            line = self._content()
            if line is None:
                raise ConfigError.at(self._filename, first, f"{section} {key}: is not closed by `}}`")
            if line.removesuffix(",") == "}":
                last = stack.pop()
                path.pop()
                continue
            name, value = self._attribute(line.removesuffix(","), section)
            if name in stack[-1]:
                raise self._error(f"{section} {key}: {name} is given twice")
            stack[-1][name] = {} if value == "{" else value
            into.lines[".".join((*path, name))] = self._next
            if camel_case(name) in PATTERN_LISTS and self._looks_cut(value):
                raise self._error(f"{section} {key}: {name}: `#` starts a comment here; write {key} as JSON, in quotes")
            if value == "{":
                stack.append(stack[-1][name])
                path.append(name)
                if len(stack) > json_text.MAX_DEPTH:
                    raise self._error(f"{section} {key}: nested more than {json_text.MAX_DEPTH} deep")
        return last

    def _looks_cut(self, value: str) -> bool:
        """Whether the `#` of the line just read, if there is one, is more likely part of the value than a comment."""
        before, hash_sign, _ = self._lines[self._next - 1].partition("#")
        return bool(hash_sign) and (not value or not before[-1].isspace())

    def _json_follows(self, key: str) -> bool:
        """Whether the next line with content begins JSON."""
        if camel_case(key) in ALWAYS_JSON:
            return True
        for line in self._lines[self._next :]:
            content = line.partition("#")[0].strip()
            if content:
                return content.startswith(('"', "}"))
        return False

    def _json(self, key: str, section: str) -> Any:
        """The JSON from the brace on the line just read up to the brace that balances it."""
        first = self._next
        rest = "\n".join(self._lines[first - 1 :])
        start = rest.index("{", rest.index(":"))
        text, end = self._balanced(rest, start)
        if text is None:
            raise ConfigError.at(self._filename, first, f"{section} {key}: is not closed by `}}`")
        self._next = first + rest.count("\n", 0, end)
        tail = rest[end:].partition("\n")[0].partition("#")[0].strip()
        if tail:
            raise self._error(f"{section} {key}: {tail[:60]!r} follows the closing brace")
        try:
            return json_text.load(json_text.without_trailing_commas(text))
        except json_text.JsonError as error:
            raise ConfigError.at(self._filename, first + error.line - 1, f"{section} {key}: {error.reason}") from None

    @staticmethod
    def _balanced(text: str, start: int) -> tuple[str | None, int]:
        """The text from the brace at `start` to the one that balances it, without comments, and where it ends."""
        depth, kept, position = 0, [], start
        for token in _JSON_TOKEN.finditer(text, start):
            comment = token[0].startswith("#")
            kept.append(text[position : token.start() if comment else token.end()])
            position = token.end()
            depth += {"{": 1, "}": -1}.get(token[0], 0)
            if depth == 0 and not comment:
                return "".join(kept), position
        return None, len(text)

    def _attribute(self, line: str, section: str) -> tuple[str, str]:
        match = _ATTRIBUTE.fullmatch(line)
        if match is None:
            raise self._error(f"{section}: expected `attribute: value` or `}}`, not {_shown(line)}")
        return match[1], match[2]

    def _content(self) -> str | None:
        """The next line that holds more than blanks and comments, without them; None at the end."""
        while self._next < len(self._lines):
            line = _uncommented(self._lines[self._next])
            self._next += 1
            if line:
                return line
        return None

    def _error(self, reason: str) -> ConfigError:
        return ConfigError.at(self._filename, self._next, reason)
