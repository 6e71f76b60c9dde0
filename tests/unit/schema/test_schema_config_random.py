"""Random configuration texts: the reader returns entries or raises ConfigError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_schema.config import ConfigEntry, ConfigError, parse_conf, parse_json
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent

_PIECES = st.sampled_from(
    [
        "router",
        "listener",
        "vhost",
        "log",
        "address",
        " {",
        "{",
        "}",
        "\n",
        "\n}\n",
        ": ",
        "port",
        "groups: {",
        "openProperties: {",
        "pattern",
        "hostname",
        "id",
        "mode: interior",
        "name",
        "#",
        '"',
        '"a": ',
        "[",
        "]",
        ",",
        "1",
        "\\",
        "$default",
        "\t",
        "\r",
        "\u2028",
        "\ufeff",
        "é",
        "\ud800",
        "\0",
    ]
)
_FRAGMENTS = st.lists(_PIECES | st.text(max_size=4), max_size=40).map("".join)


def parsed(parse: Any, text: str) -> list[ConfigEntry] | ConfigError:
    try:
        return parse(text, "f")  # type: ignore[no-any-return]
    except ConfigError as error:
        return error


def check(parse: Any, text: str) -> None:
    found = parsed(parse, text)
    if isinstance(found, ConfigError):
        assert found.problems
        for problem in found.problems:
            assert str(problem).startswith("f:")
            assert 1 <= problem.line <= text.count("\n") + 1
            assert "\n" not in str(problem)
    else:
        for entry in found:
            assert validate_create(entry.type, entry.attributes) == entry.attributes


@settings(max_examples=400, deadline=None)
@given(_FRAGMENTS | st.text())
def test_any_text_gives_entries_or_an_error(text: str) -> None:
    check(parse_conf, text)
    check(parse_json, text)


_VALUES = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["in", "out", "yes", "amqp"])
)


@st.composite
def written(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    entity = ENTITY_TYPES[
        draw(st.sampled_from(["router", "listener", "connector", "router.config.address", "vhost", "log"]))
    ]
    names = st.sampled_from(sorted(entity.attributes))
    return entity.name, draw(st.dictionaries(names, _VALUES, max_size=5))


@settings(deadline=None)  # a loaded machine is no fault
@given(st.lists(written(), max_size=4))
def test_any_json_list_of_sections_gives_entries_or_an_error(sections: list[tuple[str, dict[str, Any]]]) -> None:
    check(parse_json, json.dumps(sections))
    check(parse_json, json.dumps(sections, indent=1))


_PLAIN = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="#{}"), min_size=1, max_size=12)


@settings(deadline=None)
@given(written(), st.data())
def test_conf_and_json_of_the_same_entity_give_the_same(
    section: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    name, attributes = section
    texts = {key: data.draw(_PLAIN) if isinstance(value, str) else str(value) for key, value in attributes.items()}
    conf = "\n".join([f"{name} {{", *(f"  {key}: {value}  # note" for key, value in texts.items()), "}"])

    def outcome(parse: Any, text: str) -> object:
        found = parsed(parse, text)
        if isinstance(found, ConfigError):
            return [problem.reason for problem in found.problems]
        return [(entry.type.name, entry.attributes) for entry in found]

    assert outcome(parse_conf, conf) == outcome(parse_json, json.dumps([[name, texts]]))


def test_errors_of_one_entity_tell_what_they_concern() -> None:
    error = SchemaError("listener", "port", "is odd")
    assert (error.entity, error.attribute, error.reason, str(error)) == (
        "listener",
        "port",
        "is odd",
        "listener port: is odd",
    )
    assert str(SchemaError("listener", "", "is odd")) == "listener: is odd"
