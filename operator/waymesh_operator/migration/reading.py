"""Reads the files of a translation: qdrouterd.conf, *.json, and *.yaml with Interconnect resources; also with `.gz`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from waymesh_operator.errors import WaymeshError
from waymesh_schema import conf_syntax
from waymesh_schema.config import json_sections, policy_files
from waymesh_schema.errors import ConfigError, SchemaError
from waymesh_schema.errors import Problem as ConfigProblem
from waymesh_schema.former_types import counterpart

from .interconnect import interconnects
from .source import Entity, Source, entity_of

COMPRESSED = ".gz"


def read_source(file: Path) -> list[Source]:
    """The routers of a file: *.yaml and *.yml hold Interconnect resources, *.json a list of entities, all others are in
    the format of qdrouterd.conf. With `.gz` behind that it is compressed. Raises WaymeshError."""
    text, filename = _text(file), str(file)
    kind = filename.removesuffix(COMPRESSED)
    if kind.endswith((".yaml", ".yml")):
        return interconnects(text, filename)
    return [_source(_sections(text, filename, json=kind.endswith(".json")), filename)]


def _text(file: Path) -> str:
    try:
        data = file.read_bytes()
        return (_uncompressed(file, data) if file.name.endswith(COMPRESSED) else data).decode("utf-8")
    except OSError as error:
        raise WaymeshError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise WaymeshError(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _uncompressed(file: Path, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise WaymeshError(f"{file}: is not a gzip file: {error}") from None


def _sections(text: str, filename: str, *, json: bool) -> list[conf_syntax.Section]:
    problems: list[ConfigProblem] = []
    sections = (json_sections if json else conf_syntax.parse)(text, filename, problems)
    if problems:
        raise WaymeshError(str(ConfigError(*problems)))
    return list(sections)


def _source(sections: Sequence[conf_syntax.Section], filename: str) -> Source:
    entities = [_entity(section, filename) for section in sections]
    for policy in [entity for entity in entities if entity.type == "policy" and entity.text("policyDir")]:
        entities += _vhosts(policy.text("policyDir"))
    return Source(filename, entities)


def _entity(section: conf_syntax.Section, filename: str) -> Entity:
    """The entity of a section, converted if Qpid Dispatch 1.0 removed its type."""
    place = f"{filename}:{section.line}"
    try:
        present = counterpart(section)[0]
    except SchemaError as error:
        raise WaymeshError(f"{place}: {error}") from None
    return entity_of(present.name, present.attributes, place)


def _vhosts(folder: str) -> Iterator[Entity]:
    """The vhosts in a policyDir that can be read here; the translation notes one that cannot."""
    try:
        paths = policy_files(folder)
    except OSError:
        return
    for path in paths:
        for section in _sections(_text(Path(path)), path, json=True):
            yield _entity(section, path)
