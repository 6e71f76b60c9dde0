"""`waymesh import`: convert old configurations to manifests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from waymesh_operator.errors import WaymeshError
from waymesh_operator.migration.source import Source, read_source
from waymesh_operator.migration.translate import Translation, translate
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import check


def run_import(files: Sequence[Path], name: str, out: Path | None) -> int:
    """Print or write manifests; report what has no counterpart on stderr. Returns 0. Raises WaymeshError.

    All configuration files together become one mesh; each Interconnect becomes a separate one.
    """
    sources = [source for file in files for source in read_source(_read(file), str(file))]
    meshes = [[source] for source in sources if source.name] or [sources]
    if any(source.name for source in sources) and not all(source.name for source in sources):
        raise WaymeshError("translate configuration files and Interconnect resources in separate runs")
    found = [translate(mesh, name) for mesh in meshes]
    text = "---\n".join(_text(mesh, translation) for mesh, translation in zip(meshes, found))
    documents, problems = parse_text(text, "manifests")
    check(documents, load_crds())
    if problems:
        raise WaymeshError("\n".join(map(str, problems)))
    for translation in found:
        for note in translation.notes:
            print(f"waymesh: {note}", file=sys.stderr)
    if out is None:
        sys.stdout.write(text)
        return 0
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WaymeshError(f"{out}: {error.strerror}") from None
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WaymeshError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _text(sources: Sequence[Source], translation: Translation) -> str:
    """Return the manifests as YAML, with comments on their sources and on what is missing."""
    places = ", ".join(Path(source.place.partition(":")[0]).name for source in sources)
    comments = [f"# Made from {places} by `waymesh import`."]
    comments += [f"# {Path(place).name}:{note}" for place, _, note in (n.partition(":") for n in translation.notes)]
    manifests = yaml.safe_dump_all(translation.manifests, sort_keys=False, allow_unicode=True, width=120)
    return "\n".join(comments) + "\n" + manifests
