"""Reads YAML files into plain values and keeps the line of every field for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from waymesh_operator.errors import Problem

Path_ = tuple[str | int, ...]
_DEEPEST = 64
_MOST_VALUES = 500_000
"""In one document. Aliases of aliases could stand for billions of values."""
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest: its file as the user wrote it, its value, and the line of each field by path."""

    file: str
    data: Any
    lines: Mapping[Path_, int]

    def line(self, path: Path_) -> int:
        """The line of a field, or of the nearest enclosing field if the file does not contain it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Loader(yaml.SafeLoader):
    """Loads YAML like Kubernetes: dates are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def manifest_files(paths: Iterable[Path]) -> tuple[list[Path], list[Problem]]:
    """The given files, and the manifests in the given folders (not in sub-folders), sorted by folder, each once."""
    files: list[Path] = []
    problems = []
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES and p.is_file())
            if not found:
                problems.append(Problem(str(path), 0, "", "", "no *.yaml, *.yml or *.json file in this folder"))
            files.extend(found)
        else:
            files.append(path)
    return list(dict.fromkeys(files)), problems


def read_files(paths: Iterable[Path]) -> tuple[list[Document], list[Problem]]:
    """Read all documents of the files and folders; also return problems."""
    files, problems = manifest_files(paths)
    documents: list[Document] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            problems.append(Problem(str(file), 0, "", "", f"cannot be read: {error.strerror}"))
        except UnicodeDecodeError:
            problems.append(Problem(str(file), 0, "", "", "is not UTF-8 text"))
        else:
            found, wrong = parse_text(text, str(file))
            documents.extend(found)
            problems.extend(wrong)
    if not documents and not problems:
        problems.append(Problem(", ".join(map(str, files)) or "no file", 0, "", "", "holds no manifest"))
    return documents, problems


def parse_text(text: str, file: str) -> tuple[list[Document], list[Problem]]:
    """The documents of one text; the items of a `List` count as documents."""
    documents: list[Document] = []
    reader = _Reader(file)
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            if node is not None:
                documents.extend(reader.documents(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        why = ", ".join(part for part in (error.context, error.problem) if part)
        reader.problems.append(Problem(file, line, "", "", f"not valid YAML: {why}"))
    except RecursionError:  # in the parser, which has no limit of its own
        reader.problems.append(Problem(file, 0, "", "", "not valid YAML: nested too deeply"))
    except yaml.YAMLError as error:
        reader.problems.append(Problem(file, 0, "", "", f"not valid YAML: {error}"))
    return documents, reader.problems


class _Reader:
    """Converts YAML nodes to values and notes their lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._constructor = _Loader("")

    def documents(self, node: yaml.Node) -> list[Document]:
        lines: dict[Path_, int] = {}
        data = self._value(node, (), lines)
        if data is None:
            return []
        if isinstance(data, dict) and data.get("kind") == "List" and isinstance(data.get("items"), list):
            return [Document(self.file, item, _below(lines, ("items", i))) for i, item in enumerate(data["items"])]
        return [Document(self.file, data, lines)]

    def _value(self, node: yaml.Node, path: Path_, lines: dict[Path_, int]) -> Any:
        lines.setdefault(path, node.start_mark.line + 1)
        if len(path) > _DEEPEST:
            raise yaml.MarkedYAMLError(problem="nested too deeply, or an alias of itself", problem_mark=node.start_mark)
        if len(lines) > _MOST_VALUES:
            problem = f"more than {_MOST_VALUES:,} values in one document"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, lines)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, i), lines) for i, item in enumerate(node.value)]
        try:
            return self._scalar(node)
        except ValueError as error:
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from None

    def _scalar(self, node: yaml.Node) -> Any:
        """The value of a scalar. In JSON, a character may be written as a surrogate pair, which YAML leaves as two.
        Raises ValueError, also for half a pair."""
        value = self._constructor.construct_object(node, deep=True)
        return value.encode("utf-16", "surrogatepass").decode("utf-16") if isinstance(value, str) else value

    def _mapping(self, node: yaml.MappingNode, path: Path_, lines: dict[Path_, int]) -> dict[str, Any]:
        written = {id(key) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"}
        own: set[str] = set()
        self._constructor.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            try:
                key = self._scalar(key_node)
            except ValueError as error:
                raise yaml.MarkedYAMLError(problem=str(error), problem_mark=key_node.start_mark) from None
            if not isinstance(key, str):
                self.problems.append(Problem(self.file, line, "", "", f"the name of a field must be text, not {key!r}"))
                continue
            if key in own:
                message = f"is given twice (first in line {lines[(*path, key)]})"
                self.problems.append(Problem(self.file, line, "", show_path((*path, key)), message))
            if id(key_node) in written:
                own.add(key)
            lines[(*path, key)] = line
            result[key] = self._value(value_node, (*path, key), lines)
        return result


def show_path(path: Path_) -> str:
    """A path as text: `spec.listeners[1].port`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _below(lines: Mapping[Path_, int], prefix: Path_) -> dict[Path_, int]:
    size = len(prefix)
    return {path[size:]: line for path, line in lines.items() if path[:size] == prefix}
