"""Documents are correct: links have targets, and commands exist."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.architecture.tree import REPO, make_targets, markdown_files, pyproject, text_of, tracked

pytestmark = pytest.mark.engine_independent

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
MAKE = re.compile(r"(?:`|^\s*\$?\s*)make ([a-z0-9-]+)", re.MULTILINE)
MAKE_RUN = re.compile(r"run: .*\bmake ([a-z-]+)")
COMMAND = re.compile(r"\.venv/bin/([\w.-]+)")
TOOLS = {"python", "pytest", "ruff", "mypy", "lint-imports", "qdstat", "qdmanage"}


def test_links_resolve() -> None:
    broken = []
    for document in markdown_files():
        for target in LINK.findall(CODE_BLOCK.sub("", text_of(document))):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (REPO / document.parent / target.partition("#")[0]).exists():
                broken.append(f"{document}: {target}")
    assert not broken, "\n".join(broken)


def test_make_targets_in_documents_exist() -> None:
    targets = make_targets()
    unknown = [f"{d}: make {t}" for d in markdown_files() for t in MAKE.findall(text_of(d)) if t not in targets]
    assert not unknown, "\n".join(unknown)


def test_the_workflow_runs_what_make_test_runs() -> None:
    recipe = re.search(r"(?m)^test: .*\n((?:\t.*\n)+)", text_of(Path("Makefile")))
    assert recipe
    wanted = {"lint", *re.findall(r"\btest-[a-z]+", recipe[1])}
    assert set(MAKE_RUN.findall(text_of(Path(".github/workflows/ci.yml")))) == wanted


def test_commands_in_documents_exist() -> None:
    known = TOOLS | set(pyproject()["project"]["scripts"])
    unknown = [f"{d}: {c}" for d in markdown_files() for c in COMMAND.findall(text_of(d)) if c not in known]
    assert not unknown, "\n".join(unknown)


def test_every_phony_target_is_explained() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", text_of(Path("Makefile")), flags=re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == make_targets()


def test_readme_is_short() -> None:
    assert text_of(Path("README.md")).count("\n") <= 150


def test_decisions_are_numbered_without_gaps() -> None:
    names = [path.name for path in tracked() if path.parent == Path("docs/decisions") and path.name != "README.md"]
    assert [int(name[:4]) for name in sorted(names)] == list(range(1, len(names) + 1))
    for name in names:
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name), name


def test_sources_are_cited_by_names_that_readers_know() -> None:
    """docs/references.md lists them; a number of somebody's private collection says nothing to a reader."""
    numbered = re.compile(r"\bseeds?\s+0\d", re.IGNORECASE)
    found = [str(path) for path in tracked() if numbered.search(text_of(path))]
    assert not found, "\n".join(found)


def test_each_question_about_the_source_is_answered_in_four_files() -> None:
    """The table "Where to look" of docs/architecture.md: each row names at most four files, and all of them exist."""
    section = text_of(Path("docs/architecture.md")).split("\n## Where to look\n")[1].split("\n## ")[0]
    answers = [row.split(" | ")[1] for row in section.splitlines() if row.startswith("| ")][1:]
    files = [set(re.findall(r"[\w/*]*\w+[\w*]*\.(?:py|ts)\b", answer)) for answer in answers]
    assert len(files) > 20
    assert [found for found in files if len(found) > 4] == []
    paths = {f"/{path}" for path in tracked()}
    assert [name for name in set().union(*files) if not any(fnmatch(path, f"*/{name}") for path in paths)] == []
