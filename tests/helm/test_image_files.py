"""The Dockerfiles, as far as they can be checked without a container engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.architecture.tree import REPO, pyproject

pytestmark = pytest.mark.engine_independent

FILES = {"Dockerfile": ["operator", "analytics"], "router_image/Dockerfile": ["router"]}
COMPILERS = re.compile(r"\b(gcc|g\+\+|build-essential|libc6-dev|cmake|python3-dev)\b")


@dataclass
class Stage:
    """One stage: what it starts from, what it is called, its instructions."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def words(self, instruction: str) -> list[str]:
        """The arguments of all instructions of one kind."""
        return [text for kind, text in self.steps if kind == instruction]


def stages(path: str) -> list[Stage]:
    """The stages of a Dockerfile, continued lines joined, comments dropped."""
    text = re.sub(r"^\s*#.*\n", "", (REPO / path).read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Stage] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        kind, _, rest = line.partition(" ")
        if kind == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name))
        elif found:
            found[-1].steps.append((kind, rest.strip()))
    return found


def final(path: str, target: str) -> list[Stage]:
    """The stage of a target and those that it is built on, in that order."""
    by_name = {stage.name: stage for stage in stages(path)}
    chain = [by_name[target]]
    while chain[-1].base in by_name:
        chain.append(by_name[chain[-1].base])
    return chain


@pytest.mark.parametrize("path", FILES)
def test_every_copied_source_exists(path: str) -> None:
    names = {stage.name for stage in stages(path)}
    for stage in stages(path):
        for text in stage.words("COPY"):
            origin = re.search(r"--from=(\S+)", text)
            if origin:
                assert origin[1] in names, text
                continue
            *sources, _ = text.split()
            assert sources
            assert all((REPO / source).exists() for source in sources), text


@pytest.mark.parametrize(("path", "target"), [(path, target) for path, names in FILES.items() for target in names])
def test_final_stage_is_small_and_without_rights(path: str, target: str) -> None:
    chain = final(path, target)
    assert "slim" in chain[-1].base
    steps = [text for stage in chain for text in stage.words("RUN")]
    assert not [text for text in steps if COMPILERS.search(text)]
    users = [text for stage in chain for text in stage.words("USER")]
    assert users
    assert users[0] == "10001:10001"


@pytest.mark.parametrize(("path", "target"), [(path, target) for path, names in FILES.items() for target in names])
def test_images_say_what_they_are_and_list_their_packages(path: str, target: str) -> None:
    chain = final(path, target)
    labels = " ".join(text for stage in chain for text in stage.words("LABEL"))
    for name in ("title", "description", "licenses", "base.name"):
        assert f"org.opencontainers.image.{name}=" in labels
    steps = [text for stage in stages(path) for text in stage.words("RUN") if "cyclonedx-py" in text]
    assert steps
    assert all("-o /made/share/waymesh/sbom.cdx.json" in text for text in steps)


@pytest.mark.parametrize("path", FILES)
def test_packages_are_pinned_and_extras_known(path: str) -> None:
    extras = set(pyproject()["project"]["optional-dependencies"])
    installs = [text for stage in stages(path) for text in stage.words("RUN") if "pip " in text]
    assert installs
    assert all("constraints.txt" in text for text in installs)
    named = {extra for text in installs for group in re.findall(r"\[([a-z,]+)\]", text) for extra in group.split(",")}
    assert named
    assert named <= extras


def test_context_leaves_out_what_is_built() -> None:
    lines = Path(REPO / ".dockerignore").read_text().split()
    assert {".git", ".venv", "build", "**/__pycache__", "**/*.so"} <= set(lines)
