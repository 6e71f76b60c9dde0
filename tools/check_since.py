"""Checks what has changed since a revision: ruff and mypy, and the tests of the changed folders that start no process.

`python tools/check_since.py REV`; called by `make check-since REV=…`. Exit status 0 when all passed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit.changes import changed_files  # noqa: E402  tests/ is no package that is installed

WITHOUT_PROCESSES = "not e2e and not interop and not brokers and not cluster and not spark and not processes"
PLACES = {
    "router_image/waymesh_amqp": ["spec", "unit/amqp_codec"],
    "router_image/waymesh_client": ["unit/client"],
    "router_image/waymesh_schema": ["unit/schema"],
    "router_image/waymesh_upload": ["unit/upload"],
    "router_image/waymesh_router/certificates": ["unit/runtime"],
    "router_image/waymesh_router/clients": ["unit/core", "unit/management", "unit/policy", "unit/runtime"],
    "router_image/waymesh_router/connections": ["unit/core", "unit/runtime"],
    "router_image/waymesh_router/core": ["unit/core"],
    "router_image/waymesh_router/events": ["unit/core", "unit/runtime"],
    "router_image/waymesh_router/log": ["unit/core"],
    "router_image/waymesh_router/memory": ["unit/core", "unit/runtime"],
    "router_image/waymesh_router/peers": ["unit/core", "unit/runtime"],
    "router_image/waymesh_router/management": ["unit/management"],
    "router_image/waymesh_router/policy": ["unit/policy"],
    "router_image/waymesh_router/routing": ["unit/routing"],
    "router_image/waymesh_router/runtime": ["unit/runtime"],
    "router_image/waymesh_router/telemetry": ["unit/telemetry"],
    "router_image/waymesh_router": ["unit/core"],
    "operator/waymesh_operator": ["unit/operator", "operator", "reconcile"],
    "spark/waymesh_analytics": ["unit/analytics"],
    "crds": ["unit/operator", "helm"],
    "helm": ["helm"],
    "docs": ["docs"],
    "README.md": ["docs"],
    "CHANGELOG.md": ["docs"],
    "CONTRIBUTING.md": ["docs"],
}
"""Where the tests of a folder are, below tests/. The first entry that a path begins with counts."""
ALWAYS = ["architecture"]
SHARED = ("tests/kit/", "tests/conftest.py")
"""What all tests use: the tests of the kit stand for them here."""


def tests_of(path: Path) -> list[str]:
    """Files and folders of tests for a changed file; a test file for itself."""
    name = path.as_posix()
    if path.name.startswith("test_") and path.suffix == ".py":
        return [name] if (ROOT / path).exists() else []
    if name.startswith(SHARED):
        return ["tests/unit/kit"]
    if path.parts[:1] == ("tests",):
        return [path.parent.as_posix()] if (ROOT / path.parent).is_dir() else []
    return next((own_tests(path, found) for place, found in PLACES.items() if name.startswith(place)), [])


def own_tests(path: Path, folders: list[str]) -> list[str]:
    """The test files that are named after a module, or its folder, as tests/unit/core has them; else the folders."""
    found = [
        file
        for folder in folders
        for file in (ROOT / "tests" / folder).glob("test_*.py")
        if file.stem.endswith((f"_{path.stem}", f"_{path.parent.name}_{path.stem}"))
    ]
    return [file.relative_to(ROOT).as_posix() for file in found] or [f"tests/{folder}" for folder in folders]


def commands(revision: str) -> list[list[str]]:
    """What is to run, cheapest first."""
    changed = changed_files(revision)
    program = str(ROOT / ".venv" / "bin" / "python")
    sources = [path.as_posix() for path in changed if path.suffix == ".py" and (ROOT / path).exists()]
    tests = sorted({test for path in changed for test in tests_of(path)} | {f"tests/{name}" for name in ALWAYS})
    pytest = [program, "-m", "pytest", "-q", "-n", "2", "-m", WITHOUT_PROCESSES, *tests]
    ruff = [[program, "-m", "ruff", "check", *sources]] if sources else []
    return [*ruff, [program, "-m", "mypy"], pytest]


def main() -> int:
    """Runs all, and names what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="a commit, a branch, HEAD~3 …")
    revision = parser.parse_args().revision
    known = subprocess.run(["git", "rev-parse", "--verify", "-q", f"{revision}^{{commit}}"], cwd=ROOT, check=False,
                           stdout=subprocess.DEVNULL)  # fmt: skip
    if known.returncode != 0:
        print(f"check-since: git knows no commit {revision}", file=sys.stderr)
        return 2
    failed = []
    for command in commands(revision):
        print("check-since:", " ".join(Path(word).name if word.startswith("/") else word for word in command))
        sys.stdout.flush()
        if subprocess.run(command, cwd=ROOT, check=False).returncode not in (0, 5):  # 5: no test of this kind
            failed.append(command[2])
    if failed:
        print(f"check-since: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
