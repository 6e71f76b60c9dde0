"""`waymesh import`: convert old configurations to manifests."""

from __future__ import annotations

import os
import stat
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from waymesh_operator.errors import ManifestError, WaymeshError
from waymesh_operator.migration.names import Names
from waymesh_operator.migration.networks import networks
from waymesh_operator.migration.notes import Manifest, Translation
from waymesh_operator.migration.reading import read_source
from waymesh_operator.migration.source import Source
from waymesh_operator.migration.translate import translate
from waymesh_operator.resources.crds import load_crds
from waymesh_operator.resources.manifests import parse_text
from waymesh_operator.resources.validation import check

LOST = 3
"""Exit code if something that denies has no counterpart, and its loss is not accepted."""
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of `waymesh import`."""

    files: Sequence[Path]
    name: str = ""
    # None: standard output.
    out: Path | None = None
    accept_loss: bool = False
    # Folder for the Secrets; None: they are among the manifests.
    secrets_dir: Path | None = None


def run_import(options: ImportOptions) -> int:
    """Print or write manifests; report what has no counterpart on stderr. Returns 0, or LOST. Raises WaymeshError.

    The configuration files of a network become one Router; each Interconnect becomes a separate one.
    """
    found = _translated(options)
    _check(found)
    _report(translation for _, translation in found)
    lost = [line for _, translation in found for line in translation.lost]
    for line in lost:
        _tell(f"{'loss accepted' if options.accept_loss else 'lost'}: {line}")
    if lost and not options.accept_loss:
        _tell(
            f"nothing is written: {len(lost)} settings that deny something have no counterpart; with --accept-loss the "
            "manifests are written without them"
        )
        return LOST
    secrets = [item for _, translation in found for item in translation.manifests if item["kind"] == "Secret"]
    if options.secrets_dir is not None:
        _write_secrets(options.secrets_dir, secrets)
    elif secrets:
        names = ", ".join(secret["metadata"]["name"] for secret in secrets)
        _tell(f"the manifests have passwords in clear (Secret {names}); --secrets-dir writes them to separate files")
    left_out = [] if options.secrets_dir is None else secrets
    text = "---\n".join(_text(sources, translation, left_out) for sources, translation in found)
    if options.out is None:
        sys.stdout.write(text)
    else:
        _write(options.out, text, private=bool(secrets) and not left_out)
    return 0


def _translated(options: ImportOptions) -> list[tuple[Sequence[Source], Translation]]:
    sources = [source for file in options.files for source in read_source(file)]
    resources = [source for source in sources if source.name]
    if resources and len(resources) < len(sources):
        raise WaymeshError("translate configuration files and Interconnect resources in separate runs")
    meshes = [[source] for source in resources] or networks(sources)
    names: dict[str, Names] = defaultdict(Names)
    return [(mesh, translate(mesh, options.name, names[mesh[0].namespace])) for mesh in meshes]


def _check(found: Iterable[tuple[Sequence[Source], Translation]]) -> None:
    """Check the manifests as `kubectl apply` does. Errors name the place in the input. Raises WaymeshError."""
    for _, translation in found:
        documents, problems = parse_text(_yaml(translation.manifests), "manifests")
        if problems:
            raise ManifestError(problems)
        try:
            check(documents, load_crds())
        except ManifestError as error:
            lines = []
            for problem in error.problems:
                place = translation.place_of(problem.subject, problem.field) or problem.file
                lines.append(f"{place}: cannot be translated: {problem.subject} {problem.field}: {problem.message}")
            raise WaymeshError("\n".join(lines)) from None


def _report(found: Iterable[Translation]) -> None:
    for translation in found:
        for note in translation.notes:
            _tell(note)


def _tell(text: str) -> None:
    print(f"waymesh: {text}", file=sys.stderr)


def _text(sources: Sequence[Source], translation: Translation, left_out: Sequence[Manifest]) -> str:
    """Return the manifests as YAML, with comments on their sources and on what is missing."""
    places = ", ".join(Path(source.place.partition(":")[0]).name for source in sources)
    comments = [f"# Made from {places} by `waymesh import`."]
    comments += [f"# lost: {_short(line)}" for line in translation.lost]
    comments += [f"# {_short(line)}" for line in translation.notes]
    kept = [item for item in translation.manifests if item not in left_out]
    return "\n".join(comments) + "\n" + _yaml(kept)


def _short(line: str) -> str:
    """A note with the name of its file alone."""
    place, _, note = line.partition(":")
    return f"{Path(place).name}:{note}"


def _yaml(manifests: Iterable[Manifest]) -> str:
    return str(yaml.safe_dump_all(manifests, sort_keys=False, allow_unicode=True, width=120))


def _write_secrets(folder: Path, secrets: Sequence[Manifest]) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WaymeshError(f"{folder}: {error.strerror}") from None
    for name, secret in _named(secrets):
        _write(folder / f"{name}.yaml", _yaml([secret]), private=True)


def _named(secrets: Iterable[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for secret in secrets:
        metadata = secret["metadata"]
        yield ".".join(filter(None, (metadata.get("namespace"), metadata["name"]))), secret


def _write(file: Path, text: str, *, private: bool) -> None:
    """Write a file; a private one, which has passwords, only its owner may read, also if it existed."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY if private else 0o666)
        with open(descriptor, "w", encoding="utf-8") as opened:
            if private and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, _OWNER_ONLY)
            opened.write(text)
    except OSError as error:
        raise WaymeshError(f"{file}: {error.strerror}") from None
