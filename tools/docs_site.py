"""Builds the documentation as a site in build/site: `make docs`.

All pages keep their places in the repository, so that their links hold. A file that a page links to is copied, a folder
gets a page that lists its files. The navigation is the table at the end of the README. A link that leads nowhere, and a
page that no link from the README reaches, are errors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "build" / "docs-source"
START: Final = PurePosixPath("README.md")
WITHOUT: Final = (".github/",)
"""Pages of these folders are for the forge, not for readers."""
ARCHITECTURE: Final = PurePosixPath("docs/architecture.md")
FOLDERS: Final = (
    "", "router_image/waymesh_router/", "router_image/", "operator/waymesh_operator/",
    "operator/waymesh_operator/places/kubernetes/", "spark/waymesh_analytics/",
)  # fmt: skip
"""Where that page's names of modules begin."""
_MODULE: Final = re.compile(r"`((?:[\w-]+/)+\w+\.py)`")
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r"^\| ([A-Z][A-Za-z ]+) \| (\[.*) \|$", re.MULTILINE)
_NAMED: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)\)")


def tracked(root: Path) -> list[str]:
    """The files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return listed.stdout.splitlines()


def links(page: PurePosixPath, text: str) -> Iterator[PurePosixPath]:
    """What a page links to inside of the repository, as paths from its top."""
    for target in _LINK.findall(_FENCE.sub("", text)):
        path = target.partition("#")[0]
        if path and "://" not in path and not path.startswith("mailto:"):
            yield normal(page.parent / path)


def normal(path: PurePosixPath) -> PurePosixPath:
    """A path without `..`; a path that leaves the repository keeps them."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)


def reached(pages: Mapping[PurePosixPath, str]) -> set[PurePosixPath]:
    """All that can be reached by links from the README: pages, files, folders."""
    found, todo = {START}, [START]
    while todo:
        page = todo.pop()
        new = set(links(page, pages.get(page, ""))) - found
        found |= new
        todo += new
    return found


def problems(pages: Mapping[PurePosixPath, str], files: Iterable[str]) -> list[str]:
    """Links that lead nowhere, and pages that nothing leads to."""
    there = {PurePosixPath(file) for file in files}
    there |= {parent for file in there for parent in file.parents}
    broken = [f"{page}: no {to}" for page, text in pages.items() for to in links(page, text) if to not in there]
    return sorted(broken) + [f"{page}: no page links to it" for page in sorted(pages.keys() - reached(pages))]


def navigation(readme: str) -> list[dict[str, Any]]:
    """The rows of the README's table of documents, for mkdocs."""
    rows = [(title, _NAMED.findall(cells)) for title, cells in _ROW.findall(readme.partition("## Documentation")[2])]
    found: list[dict[str, Any]] = [{"Waymesh": "README.md"}]
    for title, named in rows:
        pages = [{name[0].upper() + name[1:]: path} for name, path in named if path.endswith(".md")]
        found.append({title: pages})
    return found


def read_pages(root: Path, files: Iterable[str]) -> dict[PurePosixPath, str]:
    """The text of all pages, by path; the names of modules in the page on architecture are links."""
    names = [name for name in files if name.endswith(".md") and not name.startswith(WITHOUT)]
    pages = {PurePosixPath(name): (root / name).read_text(encoding="utf-8") for name in names}
    pages[ARCHITECTURE] = link_modules(pages[ARCHITECTURE], set(files))
    return pages


def link_modules(text: str, files: Container[str]) -> str:
    """The text with a link at each name of a module; the link of a module that does not exist leads nowhere."""

    def to_link(found: re.Match[str]) -> str:
        path = next((folder + found[1] for folder in FOLDERS if folder + found[1] in files), found[1])
        return f"[{found[0]}](../{path})"

    return _MODULE.sub(to_link, text)


def lay_out(pages: Mapping[PurePosixPath, str], files: Iterable[str]) -> None:
    """Write pages and what they link to below SOURCE."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    known = set(files)
    linked = {to for page, text in pages.items() for to in links(page, text)}
    folders = {to: "README.md" if to / "README.md" in pages else "index.md" for to in linked if str(to) not in known}
    for to in sorted(linked - folders.keys() - pages.keys()):
        _write(to, (ROOT / to).read_bytes())
    for folder in sorted(folder for folder, page in folders.items() if page == "index.md"):
        inside = sorted(file for file in known if PurePosixPath(file).parent == folder)
        rows = [f"- [{PurePosixPath(file).name}]({PurePosixPath(file).name})" for file in inside]
        _write(folder / "index.md", "\n".join([f"# {folder}", "", *rows, ""]).encode())
        for file in inside:
            _write(PurePosixPath(file), (ROOT / file).read_bytes())
    for page, text in pages.items():
        _write(page, _to_pages(page, text, folders).encode())


def _to_pages(page: PurePosixPath, text: str, folders: Mapping[PurePosixPath, str]) -> str:
    """The text with links to folders as links to their pages."""

    def to_page(found: re.Match[str]) -> str:
        target = found[1]
        of_folder = "" if "://" in target else folders.get(normal(page.parent / target), "")
        return found[0].replace(f"({target})", f"({target.rstrip('/')}/{of_folder})") if of_folder else found[0]

    return _LINK.sub(to_page, text)


def _write(path: PurePosixPath, data: bytes) -> None:
    (SOURCE / path).parent.mkdir(parents=True, exist_ok=True)
    (SOURCE / path).write_bytes(data)


def main() -> int:
    """Check, lay out and build; returns the exit code."""
    files = tracked(ROOT)
    pages = read_pages(ROOT, files)
    found = problems(pages, files)
    if found:
        print(*found, sep="\n", file=sys.stderr)
        return 1
    lay_out(pages, files)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings |= {"nav": navigation(pages[START]), "docs_dir": str(SOURCE), "site_dir": str(ROOT / "build" / "site")}
    made = ROOT / "build" / "mkdocs.yml"
    made.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(made)]
    # The theme is maintained until May 2027; its successor, Zensical, does not build these pages yet (0.0.73).
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if status == 0:
        print(f"docs: {len(pages)} pages in build/site: python3 -m http.server --bind 127.0.0.1 --directory build/site")
    return status


if __name__ == "__main__":
    sys.exit(main())
