"""Reading configuration files, *.conf or JSON: entries checked against the table, in the order of processing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import conf_syntax, json_text
from .conf_syntax import Section
from .entities import ENTITY_TYPES, entity_type
from .errors import ConfigError, Problem, SchemaError
from .former_types import counterpart
from .leniency import LOGS_OF_OTHERS
from .loglevels import LOG_MODULES
from .model import EntityType, camel_case
from .operator_names import of_operator
from .unused import unused
from .validate import clamped, examine, renamed, validate_create

__all__ = [
    "PROCESSING_ORDER", "ConfigEntry", "ConfigError", "parse_conf", "parse_json", "policy_files", "read_config",
    "read_policy_folder",
]  # fmt: skip

PROCESSING_ORDER = (
    "log", "router", "telemetry", "policy", "sslProfile", "tokenProfile", "authServicePlugin",
    "router.config.address", "router.config.linkRoute", "router.config.autoLink", "router.config.exchange",
    "router.config.binding", "vhost", "listener", "connector",
)  # fmt: skip
"""Short names of the types that a file may hold, in the order in which their entities are created."""

_REFERENCES = {"sslProfile": "sslProfile", "tokenProfile": "tokenProfile", "saslPlugin": "authServicePlugin"}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One entity to create: its type, all its attributes (see validate_create), and its position in the file.

    `line` is 0 for an entity that is not in the file and has its defaults. `warnings`: about settings that do not apply
    as written. `created`: False if only warnings are left of a section.
    """

    type: EntityType
    attributes: dict[str, Any]
    line: int = 0
    filename: str = field(default="", compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    created: bool = True


def read_config(path: str | Path, *more: str | Path) -> list[ConfigEntry]:
    """The entities of files read as one, and of the policyDir they name, in processing order.

    A file is JSON when its name ends in `.json`; with `.gz` behind that, or behind `.conf`, it is compressed.
    Raises ConfigError with all errors, including those of files that cannot be read.
    """
    reader = _Reader()
    for filename in map(str, (path, *more)):
        reader.read(filename)
    for entry in [entry for entry in reader.entries if entry.type.name == "policy"]:
        reader.read_policy_folder(entry)
    return reader.complete(str(path))


def read_policy_folder(policy: ConfigEntry) -> list[ConfigEntry]:
    """The vhosts of the files in the folder that a policy entity names; raises ConfigError with all errors."""
    reader = _Reader()
    reader.read_policy_folder(policy)
    reader.problems += _repeated(reader.entries)
    if reader.problems:
        raise ConfigError(*reader.problems)
    return reader.entries


def policy_files(folder: str) -> list[str]:
    """The paths of the files in a policyDir that are read. Raises OSError if the folder cannot be read: it may contain
    vhosts."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json"))


def parse_conf(text: str, filename: str) -> list[ConfigEntry]:
    """The entities of the text of a *.conf file in processing order, missing singletons added; raises ConfigError."""
    reader = _Reader()
    reader.take(conf_syntax.parse(text, filename, reader.problems), filename)
    return reader.complete(filename)


def parse_json(text: str, filename: str) -> list[ConfigEntry]:
    """The same of the text of a JSON file, a list of `[entityName, {attributes}]`; raises ConfigError."""
    reader = _Reader()
    reader.take(json_sections(text, filename, reader.problems), filename)
    return reader.complete(filename)


class _Reader:
    """Collects the entities of several files, and all errors in them."""

    def __init__(self) -> None:
        self.entries: list[ConfigEntry] = []
        self.problems: list[Problem] = []

    def read(self, filename: str) -> None:
        """Take the entities of a file."""
        sections = json_sections if filename.removesuffix(".gz").endswith(".json") else conf_syntax.parse
        try:
            text = _read(filename)
        except ConfigError as error:
            self.problems += error.problems
        else:
            self.take(sections(text, filename, self.problems), filename)

    def take(self, sections: Iterable[Section], filename: str) -> None:
        """Take the entities of sections."""
        for section in sections:
            try:
                self.entries.append(_entry(section, filename))
            except ConfigError as error:
                self.problems += error.problems

    def read_policy_folder(self, policy: ConfigEntry) -> None:
        """Take the vhosts of the files in policyDir."""
        folder = policy.attributes["policyDir"]
        if not folder:
            return
        try:
            paths = policy_files(folder)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            reason = "is not a folder" if missing else f"cannot be read: {error.strerror}"
            self.problems.append(Problem(policy.filename, policy.line, f"policy policyDir: {folder} {reason}"))
            return
        for path in paths:
            try:
                sections = json_sections(_read(path), path, self.problems)
            except ConfigError as error:
                self.problems += error.problems
                continue
            for section in sections:
                if section.name != "vhost":
                    reason = f"{section.name}: a policy folder may only contain vhosts"
                    self.problems.append(Problem(path, section.line, reason))
            self.take([section for section in sections if section.name == "vhost"], path)

    def complete(self, filename: str) -> list[ConfigEntry]:
        """All entities in processing order, missing singletons added. Raises ConfigError."""
        self.problems += _repeated(self.entries)
        if not self.problems:  # what seems to be missing may be among what could not be read
            self.problems += _without_target(self.entries)
        if self.problems:
            raise ConfigError(*self.problems)
        return _complete(self.entries, filename)


def _read(filename: str) -> str:
    try:
        data = Path(filename).read_bytes()
        return (_uncompressed(filename, data) if filename.endswith(".gz") else data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError.at(filename, 0, f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise ConfigError.at(filename, 0, f"cannot be read: {error.strerror}") from None


def _uncompressed(filename: str, data: bytes) -> bytes:
    import gzip  # late: most routers start without it
    import zlib

    try:
        return gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigError.at(filename, 0, f"is not a gzip file: {error}") from None


def json_sections(text: str, filename: str, problems: list[Problem]) -> list[Section]:
    """The sections of the text. Errors are appended to `problems`."""
    lines = text.removeprefix("\ufeff").split("\n")
    bare = "\n".join("" if line.lstrip().startswith("#") else line for line in lines)
    found: list[Section] = []
    try:
        for line, element in json_text.elements(bare):
            match element:
                case [str(name), dict(attributes)]:
                    found.append(Section(name, line, attributes))
                case _:
                    problems.append(Problem(filename, line, "expected `[entityName, {attributes}]`"))
    except json_text.JsonError as error:
        problems.append(Problem(filename, error.line, error.reason))
    return found


def _entry(section: Section, filename: str) -> ConfigEntry:
    try:
        section, former = counterpart(section)
        entity = entity_type(section.name)
    except SchemaError as error:
        raise ConfigError.at(filename, section.line, str(error)) from None
    if not entity.configurable:
        raise ConfigError.at(filename, section.line, f"{section.name}: cannot be in a configuration file")
    without_effect = _log_of_others(entity, section)
    if without_effect:
        none = {"name": None, "module": None}
        return ConfigEntry(entity, none, section.line, filename, (without_effect,), created=False)
    # What the operator writes is read strictly.
    notes = None if of_operator(section.attributes) else list[str]()
    attributes, errors = examine(entity, section.attributes, notes)
    if errors:
        places = [(_line_of(error.attribute, entity, section), error) for error in errors]
        raise ConfigError(*(Problem(filename, line, str(error)) for line, error in places))
    written = section.attributes
    deprecated, beyond = renamed(entity, written), clamped(entity, written, attributes)
    warnings = (*former, *deprecated, *beyond, *unused(entity, written, attributes), *(notes or ()))
    return ConfigEntry(entity, attributes, section.line, filename, warnings)


def _log_of_others(entity: EntityType, section: Section) -> str:
    """The warning about a section that sets a log module which this router does not have; "" for another section."""
    module = section.attributes.get("module")
    if entity.name != "log" or module not in LOGS_OF_OTHERS or of_operator(section.attributes):
        return ""
    return f"log module: {module}: this router does not have it: the section has no effect"


def _line_of(attribute: str, entity: EntityType, section: Section) -> int:
    """The line of an attribute by its written or present name, in a map with the names of the maps before it.

    Of what has no line of its own: that of the map that holds it, else that of the section.
    """
    lines: dict[str, int] = {}
    for written, line in section.lines.items():
        first, *names = written.split(".")
        names[-1:] = map(camel_case, names[-1:])  # those before it are names of the user's
        lines[written] = lines[".".join((entity.attribute_name(first) or first, *names))] = line
    while attribute not in lines and "." in attribute:
        attribute = attribute.rpartition(".")[0]
    return lines.get(attribute, section.line)


def _complete(entries: list[ConfigEntry], filename: str) -> list[ConfigEntry]:
    present = {entry.type.name for entry in entries}
    for name in PROCESSING_ORDER:
        if ENTITY_TYPES[name].singleton and name not in present:
            entries.append(ConfigEntry(ENTITY_TYPES[name], validate_create(ENTITY_TYPES[name], {}), 0, filename))
    modules = {entry.attributes["module"] for entry in entries if entry.type.name == "log"}
    log = ENTITY_TYPES["log"]
    missing = [{"module": module} for module in LOG_MODULES if module not in modules]
    entries += [ConfigEntry(log, validate_create(log, attributes), 0, filename) for attributes in missing]
    return sorted(entries, key=lambda entry: PROCESSING_ORDER.index(entry.type.name))


def _repeated(entries: Iterable[ConfigEntry]) -> Iterator[Problem]:
    seen: dict[tuple[str, str, Any], ConfigEntry] = {}
    for entry in entries:
        keys = [(name, entry.attributes.get(name)) for name, a in entry.type.attributes.items() if a.unique]
        if entry.type.singleton:
            keys.append(("", entry.type.name))
        for name, value in keys:
            if value is None:
                continue
            first = seen.setdefault((entry.type.name, name, value), entry)
            if first is not entry:
                what = f"{entry.type.name} {name}: {value!r}" if name else f"{entry.type.name}:"
                where = f"line {first.line}" + (f" of {first.filename}" if first.filename != entry.filename else "")
                yield Problem(entry.filename, entry.line, f"{what} already exists at {where}")


def _without_target(entries: Sequence[ConfigEntry]) -> Iterator[Problem]:
    names = {(entry.type.name, entry.attributes["name"]) for entry in entries}
    for entry in entries:
        for attribute, target in _REFERENCES.items():
            value = entry.attributes.get(attribute)
            if value is not None and (target, value) not in names:
                reason = f"{entry.type.name} {attribute}: there is no {target} named {value!r}"
                yield Problem(entry.filename, entry.line, reason)
