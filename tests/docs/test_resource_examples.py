"""Each example of resources in the documentation is accepted, and comes before the configuration file's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import examples, pages
from waymesh_operator.errors import ManifestError
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import check

pytestmark = pytest.mark.engine_independent

MANIFEST = re.compile(r"^```yaml\n((?:(?!```).*\n)*?apiVersion: waymesh.io/(?:(?!```).*\n)*)^```$", re.MULTILINE)
CONFIGURATION = re.compile(
    r"^```(?:conf)?\n(?:listener|router|policy|vhost|sslProfile|telemetry|exchange) \{\n", re.MULTILINE
)
WITHOUT_RESOURCE = {
    "audit.md", "console.md", "entities.md", "management.md", "migration.md", "old-settings.md", "rest.md",
}  # fmt: skip
"""Pages about the router's own files."""
CRDS = load_crds()
EXAMPLES = examples(MANIFEST)


@pytest.mark.parametrize(("page", "line", "text"), EXAMPLES, ids=[f"{page}:{line}" for page, line, _ in EXAMPLES])
def test_an_example_is_accepted(page: str, line: int, text: str) -> None:
    """But for resources that it refers to and that are described elsewhere."""
    documents, problems = parse_text(text, page)
    try:
        check(documents, CRDS)
    except ManifestError as error:
        problems += [problem for problem in error.problems if "there is no" not in str(problem)]
    assert problems == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_resources_come_before_the_configuration_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    configured = CONFIGURATION.search(text)
    if configured is not None and page.name not in WITHOUT_RESOURCE:
        manifest = MANIFEST.search(text)
        assert manifest is not None
        assert manifest.start() < configured.start()
