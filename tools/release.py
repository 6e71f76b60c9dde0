"""Makes a release: `make release VERSION=0.2.0`.

Sets the version everywhere, checks CHANGELOG.md, and builds into dist/: wheel, sdist, chart, kubectl plugin with its
krew manifest, SBOM, images if this machine has a builder, notes, and checksums. It commits, tags and pushes nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
_NUMBER: Final = r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?"
VERSION: Final = re.compile(_NUMBER)
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "pyproject.toml": (rf'(?m)^(version = "){_NUMBER}(")',),
    "helm/waymesh/Chart.yaml": (rf"(?m)^(version: ){_NUMBER}()$", rf"(?m)^(appVersion: ){_NUMBER}()$"),
    "helm/waymesh/README.md": (rf"(kubectl-waymesh-v){_NUMBER}(\.tar\.gz)",),
    "router_image/waymesh_router/runtime/options.py": (rf'(?m)^(VERSION = "){_NUMBER}(")',),
    "examples/quickstart/analytics.yaml": (
        rf'(app\.kubernetes\.io/version: "?){_NUMBER}("?)',
        rf"(image: waymesh-[a-z]+:){_NUMBER}()",
    ),
    "examples/quickstart/clients.yaml": (rf"(image: waymesh-[a-z]+:){_NUMBER}()",),
    "examples/quickstart/store.yaml": (rf"(image: waymesh-[a-z]+:){_NUMBER}()",),
}
"""Where the version stands: file → patterns, each with what is before and behind it. A test finds other places."""
UNAVAILABLE: Final = 3
"""Exit code of a build that lacks a tool of this machine."""


class ReleaseError(Exception):
    """What prevents the release; shown without a traceback."""


def set_version(version: str, read: Callable[[str], str]) -> dict[str, str]:
    """The new texts of all files with the version. Raises ReleaseError if a place is not there any more."""
    texts = {}
    for name, patterns in PLACES.items():
        text = read(name)
        for pattern in patterns:
            text, count = re.subn(pattern, rf"\g<1>{version}\g<2>", text)
            if not count:
                raise ReleaseError(f"{name}: no version at {pattern}")
        texts[name] = text
    return texts


def dated(changelog: str, version: str, date: str) -> tuple[str, str]:
    """The change log with the section of the version dated, and that section. Raises ReleaseError."""
    heading = re.search(rf"(?m)^## {re.escape(version)} \((unreleased|\d{{4}}-\d\d-\d\d)\)$", changelog)
    if heading is None:
        raise ReleaseError(f"CHANGELOG.md has no section `## {version} (unreleased)`")
    following = re.search(r"(?m)^## ", changelog[heading.end() :])
    end = heading.end() + following.start() if following else len(changelog)
    section = changelog[heading.end() : end].strip()
    if not section:
        raise ReleaseError(f"CHANGELOG.md says nothing of {version}")
    return f"{changelog[: heading.start()]}## {version} ({date}){changelog[heading.end() :]}", section


def checksums(folder: Path) -> str:
    """SHA-256 of all files of a folder, as sha256sum writes them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def build(what: str, *command: str) -> bool:
    """Run a build; False if this machine lacks its tool. Raises ReleaseError if it fails."""
    print(f"release: {what}", flush=True)
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status not in (0, UNAVAILABLE):
        raise ReleaseError(f"{what}: `{' '.join(command)}` ended with status {status}")
    return status == 0


def release(version: str, date: str) -> list[str]:
    """Set the version and build everything; returns what was left out. Raises ReleaseError."""
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version such as 0.2.0 or 0.2.0-rc.1")
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True).stdout:
        raise ReleaseError("the working tree has changes: commit or remove them first")
    changelog, notes = dated((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version, date)
    texts = set_version(version, lambda name: (ROOT / name).read_text(encoding="utf-8"))
    for name, text in (texts | {"CHANGELOG.md": changelog}).items():
        (ROOT / name).write_text(text, encoding="utf-8")
    subprocess.run(["rm", "-rf", str(DIST)], check=True)
    DIST.mkdir()
    python = sys.executable
    isolated = ("--no-build-isolation", "--no-deps", "--quiet")
    build("wheel", python, "-m", "pip", "wheel", *isolated, "--wheel-dir", "dist", ".")
    build("sdist", python, "setup.py", "--quiet", "sdist", "--dist-dir", "dist")
    build("kubectl plugin", "make", "--no-print-directory", "plugin")
    build("SBOM", "make", "--no-print-directory", "sbom")
    without = [] if build("chart", "tools/chart_package.sh") else ["the chart: helm is missing"]
    if not build("images", "env", "ARCHITECTURES=amd64 arm64", "tools/images.sh"):
        without.append("the images: no docker, podman or buildah is on this machine")
    (DIST / "NOTES.md").write_text(f"# Waymesh {version}\n\n{notes}\n", encoding="utf-8")
    (DIST / "SHA256SUMS").write_text(checksums(DIST), encoding="utf-8")
    return without


def main() -> int:
    """Read the arguments and make the release; returns the exit code: 0, or 1 for what prevents it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--date", required=True, help="of the release, YYYY-MM-DD")
    arguments = parser.parse_args()
    try:
        without = release(arguments.version, arguments.date)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for what in without:
        print(f"release: left out: {what}")
    print(f"release: {arguments.version} is in dist/: look at `git diff`, commit, tag v{arguments.version}, upload it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
