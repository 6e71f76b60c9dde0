"""Configuration in several files, compressed or not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from waymesh_schema.conf_syntax import parse
from waymesh_schema.config import ConfigError, read_config
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.errors import Problem
from waymesh_schema.model import MAP

pytestmark = pytest.mark.engine_independent

SHARED = [["address", {"name": "a", "prefix": "orders"}], ["listener", {"name": "clients", "sslProfile": "p"}]]
OWN = [["router", {"id": "mesh-0", "mode": "interior"}], ["sslProfile", {"name": "p"}]]


def write(path: Path, entities: object) -> Path:
    data = json.dumps(entities).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def test_files_are_read_as_one_in_processing_order(tmp_path: Path) -> None:
    shared = write(tmp_path / "shared.json.gz", SHARED)
    own = write(tmp_path / "mesh-0.json", OWN)
    entries = [entry for entry in read_config(shared, own) if entry.line]
    assert [entry.type.name for entry in entries] == ["router", "sslProfile", "router.config.address", "listener"]
    assert [Path(entry.filename).name for entry in entries] == [own.name, own.name, shared.name, shared.name]
    assert sum(entry.type.name == "router" for entry in read_config(shared, own)) == 1


def test_compressed_conf(tmp_path: Path) -> None:
    path = tmp_path / "a.conf.gz"
    path.write_bytes(gzip.compress(b"router {\n id: A\n}\n"))
    assert next(e for e in read_config(path) if e.type.name == "router").attributes["id"] == "A"


def test_what_is_in_two_files_is_refused_with_both_places(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one.json", OWN), write(tmp_path / "other.json", OWN)
    with pytest.raises(ConfigError, match="already exists") as raised:
        read_config(one, other)
    assert str(one) in str(raised.value)
    assert str(raised.value).startswith(f"{other}:1")


BROKEN = {
    "empty": b"",
    "not compressed": b"[]",
    "cut off": gzip.compress(b"[]" * 1000)[:-9],
    "wrong sum": gzip.compress(b"[]")[:-8] + bytes(8),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_gzip_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as raised:
        read_config(path)
    assert str(raised.value).startswith(str(path))


MAPS = {
    attribute.name
    for kind in ENTITY_TYPES.values()
    for attribute in kind.attributes.values()
    if kind.configurable and attribute.type == MAP and attribute.create
}


@pytest.mark.parametrize("name", sorted(MAPS))
def test_a_map_is_written_as_json_in_one_line_or_in_several(name: str) -> None:
    for text in ('{"a.example": "b"}', '{\n  "a.example": "b"\n }'):
        problems: list[Problem] = []
        (section,) = parse(f"x {{\n {name}: {text}\n}}", "t", problems)
        assert (section.attributes, problems) == ({name: {"a.example": "b"}}, [])
