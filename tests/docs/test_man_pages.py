"""The man pages in docs/man are current, and agree with the help texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.scripts import load_script
from waymesh_schema.entities import ENTITY_TYPES

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).resolve().parents[2]
MAN = REPO / "docs" / "man"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    pages: dict[str, str] = load_script("tools/man_pages.py").pages()
    return pages


def test_the_pages_in_the_repository_are_up_to_date(made: dict[str, str]) -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in MAN.iterdir()}
    assert kept == made, "run `python tools/man_pages.py`"


def test_each_attribute_that_can_be_configured_is_described(made: dict[str, str]) -> None:
    sections = made["waymesh-router.conf.5"].split("\n.SS ")
    by_entity = {section.partition("\n")[0]: section.split("\n") for section in sections[1:]}
    configurable = {e.name: e for e in ENTITY_TYPES.values() if e.configurable and not e.refused}
    assert by_entity.keys() == configurable.keys()
    for name, entity in configurable.items():
        wanted = {a.name for a in entity.attributes.values() if a.create} - {"name", "identity", "type"}
        assert {line.removeprefix(".B ") for line in by_entity[name] if line.startswith(".B ")} == wanted


def test_a_page_holds_no_text_that_roff_takes_for_a_request(made: dict[str, str]) -> None:
    requests = {".\\\"", ".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".I", ".nf", ".fi"}
    for name, page in made.items():
        assert page.isascii(), name
        for line in page.split("\n"):
            if line[:1] in (".", "'"):
                assert line.split()[0] in requests, (name, line)


@pytest.mark.parametrize("option", ["\\-\\-connections", "\\-\\-linkroutes", "\\-\\-sasl\\-mechanisms"])
def test_the_page_of_a_command_names_its_options(made: dict[str, str], option: str) -> None:
    assert option in made["waymesh-stat.1"]
