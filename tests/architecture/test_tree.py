"""The tree does not depend on one machine, and its names follow the rules."""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.architecture.tree import REPO, pyproject, python_files, text_of, tracked

pytestmark = pytest.mark.engine_independent

# Taken apart so that this file does not trip over itself.
REGISTRIES = [name + ".org" for name in ("pypi", "pythonhosted", "npmjs", "proxy.golang", "deb.debian")]
MACHINE_PATHS = [f"/{folder}/" for folder in ("work", "root", "opt/wheels", "usr/local/go")]
LOCK_FILES = {"yarn.lock", "poetry.lock", "uv.lock", "Pipfile.lock", "pdm.lock"}
NPM_LOCK_FILES = {"package-lock.json", "npm-shrinkwrap.json"}
SKIPS = re.compile(r"pytest\.(?:skip|importorskip)\(|mark\.(?:skip|skipif|xfail)\b")


def test_no_registry_host_and_no_path_of_a_machine() -> None:
    found = [
        f"{path}: {word}"
        for path in tracked()
        for word in [*REGISTRIES, *MACHINE_PATHS]
        if re.search(rf"(?<![\w.~]){re.escape(word)}", text_of(path))
    ]
    assert not found, "\n".join(found)


def test_no_lock_file() -> None:
    assert not [path for path in tracked() if path.name in LOCK_FILES]


def test_npm_lock_files_name_no_registry() -> None:
    """npm checks hashes by them; without `resolved` it asks the registry that the machine is configured for."""
    locks = [path for path in tracked() if path.name in NPM_LOCK_FILES]
    assert not [str(path) for path in locks if re.search(r'"resolved"|://', text_of(path))]


def test_nothing_built_is_tracked() -> None:
    assert not [path for path in tracked() if path.suffix in {".so", ".pyc", ".whl", ".o"}]


def test_base_names_of_test_files_are_unique() -> None:
    counts = Counter(path.name for path in tracked() if path.name.startswith("test_"))
    assert not [name for name, count in counts.items() if count > 1]


def test_no_test_is_skipped() -> None:
    here = Path(__file__).resolve().relative_to(REPO)
    tests = [path for path in python_files() if path.parts[0] == "tests" and path != here]
    assert not [str(path) for path in tests if SKIPS.search(text_of(path))]


def pins() -> dict[str, str]:
    """constraints.txt as normalised name -> version."""
    lines = [line for line in text_of(Path("constraints.txt")).splitlines() if line and not line.startswith("#")]
    found = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!]+)", line)
        assert match, f"constraints.txt: not a plain name==version: {line}"
        found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found


def test_every_direct_dependency_is_pinned() -> None:
    project = pyproject()["project"]
    extras = project["optional-dependencies"]
    # analytics joins when the environment that `make setup` builds has it
    requirements = [r for extra, group in extras.items() if extra != "analytics" for r in group]
    names = [re.split(r"[\[<>=!~; ]", r, maxsplit=1)[0] for r in [*project["dependencies"], *requirements]]
    pinned = pins()
    missing = {name for name in names if re.sub(r"[-_.]+", "-", name).lower() not in pinned} - {project["name"]}
    assert not missing, f"run `make constraints`: {sorted(missing)}"


def test_wheels_have_the_bundle_of_the_console_and_none_of_its_sources() -> None:
    (left_out,) = pyproject()["tool"]["setuptools"]["exclude-package-data"].values()
    package = Path("router_image/waymesh_router")
    sources = [str(path.relative_to(package)) for path in tracked() if path.is_relative_to(package / "console")]
    assert sources
    for path in sources:
        assert any(fnmatch(path, pattern) for pattern in left_out), path
    for name in ("index.html", "console.js", "console.css.gz", "icon.svg", "sbom.cdx.json", "licences.txt", "digest"):
        assert not any(fnmatch(f"console/bundle/{name}", pattern) for pattern in left_out), name
