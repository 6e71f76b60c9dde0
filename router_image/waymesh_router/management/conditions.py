"""Parses the application properties `where` and `orderBy` of a QUERY, a small subset of SQL-92.

    where:   deliveryCount > 0 AND (owningAddr LIKE 'M0orders%' OR linkDir IN ('in')) AND NOT peer IS NULL
    orderBy: deliveryCount DESC, identity

As in SQL, a comparison with an absent value is neither true nor false, and only rows whose condition is true are
returned.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from waymesh_router.management.errors import bad_request
from waymesh_schema.model import BOOLEAN, INTEGER, LIST, MAP, NAMES, PROPERTIES, Attribute

MAX_CHARACTERS = 1000
MAX_NESTED = 40
_Test = Callable[[Sequence[Any]], "bool | None"]
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w.-]*)|(?P<sign><=|>=|<>|!=|[=<>(),]))"
)
_SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = frozenset({"AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "TRUE", "FALSE"})
_TEXT, _NUMBER, _YES_NO = "a text", "a number", "true or false"


class Columns:
    """The attributes that condition and order use. `names`: their names, in the order of the values in a row."""

    def __init__(self, known: Iterable[Mapping[str, Attribute]], renamed: Mapping[str, str]) -> None:
        """`known`: the attributes of each queried type; `renamed`: current names by former ones."""
        self.names: list[str] = []
        self._kinds: dict[str, set[str | None]] = {}
        for attributes in known:
            for name, attribute in attributes.items():
                self._kinds.setdefault(name, set()).add(_kind(attribute))
        self._renamed = renamed

    def find(self, place: str, written: str) -> tuple[int, str]:
        """Column and kind of an attribute. Raises ManagementError 400."""
        name = self._renamed.get(written, written)
        kinds = self._kinds.get(name)
        if kinds is None:
            raise bad_request(f"{place}: the queried types have no attribute '{written}'")
        if len(kinds) > 1:
            raise bad_request(f"{place}: '{written}' has different types in the queried types; give an entityType")
        kind = next(iter(kinds))
        if kind is None:
            raise bad_request(f"{place}: '{written}' is a list or a map, which cannot be compared")
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name), kind


def _kind(attribute: Attribute) -> str | None:
    if attribute.type in (LIST, MAP, NAMES, PROPERTIES):
        return None
    return {INTEGER: _NUMBER, BOOLEAN: _YES_NO}.get(attribute.type, _TEXT)


def _comparable(value: Any, kind: str) -> Any:
    return value if value is None or kind != _TEXT else str(value)


# where


def parse_where(text: Any, columns: Columns) -> _Test:
    """A test of the values of `columns`, whose result is None if it depends on an absent value. Raises ManagementError
    400."""
    return _Parser(_tokens("where", text), columns).whole()


def _tokens(place: str, text: Any) -> list[tuple[str, str]]:
    """Kind and text of each token."""
    if not isinstance(text, str):
        raise bad_request(f"'{place}' must be a string")
    if len(text) > MAX_CHARACTERS:
        raise bad_request(f"'{place}' has more than {MAX_CHARACTERS} characters")
    found = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise bad_request(f"{place}: cannot read {text[position:].strip()[:20]!r}")
        kind = str(match.lastgroup)
        token = match[kind]
        if kind == "name" and token.upper() in _WORDS:
            kind, token = "word", token.upper()
        found.append((kind, token))
        position = match.end()
    return found


class _Parser:
    """Reads one condition by recursive descent."""

    def __init__(self, tokens: list[tuple[str, str]], columns: Columns) -> None:
        self._tokens = [*tokens, ("end", "")]
        self._at = 0
        self._depth = 0
        self._columns = columns

    def whole(self) -> _Test:
        test = self._disjunction()
        if self._tokens[self._at][0] != "end":
            self._refuse("AND or OR")
        return test

    def _refuse(self, wanted: str) -> NoReturn:
        token = self._tokens[self._at][1]
        raise bad_request(f"where: {wanted} is expected " + (f"instead of {token!r}" if token else "at the end"))

    def _take(self, kind: str, wanted: str) -> str:
        found, token = self._tokens[self._at]
        if found != kind:
            self._refuse(wanted)
        self._at += 1
        return token

    def _accept(self, *tokens: str) -> str:
        """The next token if it is one of these words or signs, else ""."""
        kind, token = self._tokens[self._at]
        if kind not in ("word", "sign") or token not in tokens:
            return ""
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            self._refuse(token)

    def _disjunction(self) -> _Test:
        """Conditions joined by OR."""
        tests = [self._conjunction()]
        while self._accept("OR"):
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else _or(tests)

    def _conjunction(self) -> _Test:
        """Conditions joined by AND."""
        tests = [self._operand()]
        while self._accept("AND"):
            tests.append(self._operand())
        return tests[0] if len(tests) == 1 else _and(tests)

    def _operand(self) -> _Test:
        """A comparison, or a condition after NOT or in parentheses."""
        self._depth += 1
        if self._depth > MAX_NESTED:
            raise bad_request(f"where: more than {MAX_NESTED} levels of NOT and parentheses")
        if self._accept("NOT"):
            test = _not(self._operand())
        elif self._accept("("):
            test = self._disjunction()
            self._expect(")")
        else:
            test = self._comparison()
        self._depth -= 1
        return test

    def _comparison(self) -> _Test:
        name = self._take("name", "an attribute")
        column, kind = self._columns.find("where", name)
        if self._accept("IS"):
            wanted = not self._accept("NOT")
            self._expect("NULL")
            return lambda row: (row[column] is None) == wanted
        negated = bool(self._accept("NOT"))
        if self._accept("LIKE"):
            test = self._like(name, column, kind)
        elif self._accept("IN"):
            test = self._in(name, column, kind)
        elif negated:
            self._refuse("LIKE or IN")
        else:
            sign = self._accept(*_SIGNS) or self._refuse("a comparison")
            if kind == _YES_NO and sign not in ("=", "!=", "<>"):
                raise bad_request(f"where: '{name}' is true or false and has no order")
            test = _compared(column, kind, _SIGNS[sign], self._value(name, kind))
        return _not(test) if negated else test

    def _like(self, name: str, column: int, kind: str) -> _Test:
        if kind != _TEXT:
            raise bad_request(f"where: '{name}' is {kind}; LIKE compares texts")
        matches = like(self._value(name, kind)).fullmatch
        return _compared(column, kind, lambda value, _: matches(value) is not None, None)

    def _in(self, name: str, column: int, kind: str) -> _Test:
        self._expect("(")
        values = {self._value(name, kind)}
        while self._accept(","):
            values.add(self._value(name, kind))
        self._expect(")")
        return _compared(column, kind, lambda value, wanted: value in wanted, values)

    def _value(self, name: str, kind: str) -> Any:
        """Read a value of the attribute's kind. Raises ManagementError 400."""
        found, token = self._tokens[self._at]
        if found == "word" and token in ("TRUE", "FALSE"):
            value: Any = token == "TRUE"
            given = _YES_NO
        elif found == "number":
            value, given = (float(token) if "." in token else int(token)), _NUMBER
        elif found == "text":
            value, given = token[1:-1].replace("''", "'"), _TEXT
        else:
            self._refuse("a value")
        if given != kind:
            hint = "; write texts in single quotes" if kind == _TEXT else ""
            raise bad_request(f"where: '{name}' is {kind} and cannot be compared with {token}{hint}")
        self._at += 1
        return value


def _compared(column: int, kind: str, holds: Callable[[Any, Any], bool], wanted: Any) -> _Test:
    def test(row: Sequence[Any]) -> bool | None:
        value = _comparable(row[column], kind)
        return None if value is None else bool(holds(value, wanted))

    return test


def _not(test: _Test) -> _Test:
    def negated(row: Sequence[Any]) -> bool | None:
        result = test(row)
        return None if result is None else not result

    return negated


def _or(tests: list[_Test]) -> _Test:
    def either(row: Sequence[Any]) -> bool | None:
        result: bool | None = False
        for test in tests:
            one = test(row)
            if one:
                return True
            if one is None:
                result = None
        return result

    return either


def _and(tests: list[_Test]) -> _Test:
    def every(row: Sequence[Any]) -> bool | None:
        result: bool | None = True
        for test in tests:
            one = test(row)
            if one is False:
                return False
            if one is None:
                result = None
        return result

    return every


def like(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a LIKE: % matches any text, _ one character.

    Each part between two % matches its first occurrence only, without backtracking: with many %, that would take very
    long.
    """
    first, *rest = ["".join("." if c == "_" else re.escape(c) for c in part) for part in pattern.split("%")]
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


# orderBy


class Order:
    """The order of rows; `key` returns the sort key of a row."""

    def __init__(self, text: Any, columns: Columns) -> None:
        """Raises ManagementError 400."""
        if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
            raise bad_request("'orderBy' must be a string: attributes separated by commas, with ASC or DESC if needed")
        self._parts: list[tuple[int, str, bool]] = []
        for part in text.split(","):
            name, *direction = part.split()[:3] or [""]
            if [word.upper() for word in direction] not in ([], ["ASC"], ["DESC"]):
                raise bad_request(f"orderBy: {part.strip()!r} is not an attribute, optionally followed by ASC or DESC")
            self._parts.append((*columns.find("orderBy", name), [word.upper() for word in direction] == ["DESC"]))

    def key(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Rows without a value come last in both directions."""
        parts = []
        for column, kind, descending in self._parts:
            value = _comparable(row[column], kind)
            parts.append((1, 0) if value is None else (0, _Descending(value) if descending else value))
        return tuple(parts)


class _Descending:
    """A sort key in descending order."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self._value == other._value)

    def __lt__(self, other: _Descending) -> bool:
        return bool(other._value < self._value)

    __hash__ = None  # type: ignore[assignment]
