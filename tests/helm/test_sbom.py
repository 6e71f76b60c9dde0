"""The bill of materials names what is installed."""

from __future__ import annotations

import re
from email.message import Message
from importlib.metadata import distributions

import pytest

from tests.architecture.tree import REPO
from tools.sbom import bill, licences

pytestmark = pytest.mark.engine_independent


def canonical(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_pinned_package_has_version_and_licence() -> None:
    lines = (REPO / "constraints.txt").read_text().splitlines()
    pinned = {canonical(name): version for name, _, version in (line.partition("==") for line in lines) if version}
    # Those of analytics are there after `make analytics` only.
    installed = {canonical(found.metadata["Name"]) for found in distributions()}
    wanted = {name: version for name, version in pinned.items() if name in installed}
    assert {"kopf", "kubernetes", "python-qpid-proton", "isal"} <= set(wanted)
    components = {part["name"]: part for part in bill("waymesh", "1", distributions())["components"]}
    assert {name: components[name]["version"] for name in wanted} == wanted
    assert not [name for name in wanted if not components[name]["licenses"]]


def test_the_same_packages_give_the_same_bill() -> None:
    first, second = (bill("waymesh", "1", distributions()) for _ in range(2))
    assert first == second
    assert "waymesh" not in {part["name"] for part in first["components"]}
    assert bill("waymesh", "2", distributions())["serialNumber"] != first["serialNumber"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("License-Expression", "MIT OR Apache-2.0"), ("License", "MIT")], [{"expression": "MIT OR Apache-2.0"}]),
        ([("License", "MIT"), ("Classifier", "License :: OSI Approved :: BSD")], [{"license": {"name": "MIT"}}]),
        (
            [("License", "Permission is granted\nto all"), ("Classifier", "License :: OSI Approved :: MIT License")],
            [{"license": {"name": "MIT License"}}],
        ),
        ([("Classifier", "Typing :: Typed")], []),
    ],
)
def test_licences_come_from_the_most_exact_place(
    headers: list[tuple[str, str]], expected: list[dict[str, object]]
) -> None:
    metadata = Message()
    for name, value in headers:
        metadata[name] = value
    assert licences(metadata) == expected
