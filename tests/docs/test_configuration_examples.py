"""Each example of a configuration in the documentation is accepted by the router."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import examples
from waymesh_schema.config import ConfigError, parse_conf

pytestmark = pytest.mark.engine_independent

BLOCK = re.compile(r"^```(?:conf)?\n(\w+ \{\n.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = examples(BLOCK)


@pytest.mark.parametrize(("page", "line", "text"), EXAMPLES, ids=[f"{page}:{line}" for page, line, _ in EXAMPLES])
def test_an_example_is_accepted(page: str, line: int, text: str) -> None:
    """But for entities that it refers to and that are described elsewhere."""
    try:
        parse_conf(text, page)
    except ConfigError as error:
        problems = [str(problem) for problem in error.problems if "there is no" not in str(problem)]
    else:
        problems = []
    assert problems == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10
