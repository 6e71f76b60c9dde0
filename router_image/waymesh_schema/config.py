"""Reading configuration files, *.conf or JSON: entries checked against the table, in the order of processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import conf_syntax, json_text
from .conf_syntax import Section
from .entities import ENTITY_TYPES, entity_type
from .errors import ConfigError, SchemaError
from .loglevels import LOG_MODULES
from .model import EntityType
from .validate import validate_create

__all__ = ["PROCESSING_ORDER", "ConfigEntry", "ConfigError", "parse_conf", "parse_json", "read_config"]

PROCESSING_ORDER = (
    "log", "router", "telemetry", "policy", "sslProfile", "authServicePlugin", "router.config.address",
    "router.config.linkRoute", "router.config.autoLink", "vhost", "listener", "connector",
)  # fmt: skip
"""Short names of the types that a file may hold, in the order in which their entities are created."""

_REFERENCES = {"sslProfile": "sslProfile"}


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One entity to create: its type, all its attributes (see validate_create), and where it stands.

    `line` is 0 for an entity that the file does not hold and that has its defaults.
    """

    type: EntityType
    attributes: dict[str, Any]
    line: int = 0
    filename: str = field(default="", compare=False)


def read_config(path: str | Path, *more: str | Path) -> list[ConfigEntry]:
    """The entities of files read as one, and of the policyDir they name, in processing order.

    A file is JSON when its name ends in `.json`; with `.gz` behind that, or behind `.conf`, it is compressed.
    Raises ConfigError, also for a file that cannot be read.
    """
    entries: list[ConfigEntry] = []
    for filename in map(str, (path, *more)):
        sections = _json_sections if filename.removesuffix(".gz").endswith(".json") else conf_syntax.parse
        entries += [_entry(section, filename) for section in sections(_read(filename), filename)]
    for entry in [entry for entry in entries if entry.type.name == "policy"]:
        entries += _policy_folder(entry)
    return _complete(entries, str(path))


def parse_conf(text: str, filename: str) -> list[ConfigEntry]:
    """The entities of the text of a *.conf file in processing order, missing singletons added; raises ConfigError."""
    return _complete([_entry(section, filename) for section in conf_syntax.parse(text, filename)], filename)


def parse_json(text: str, filename: str) -> list[ConfigEntry]:
    """The same of the text of a JSON file, a list of `[entityName, {attributes}]`; raises ConfigError."""
    return _complete([_entry(section, filename) for section in _json_sections(text, filename)], filename)


def _read(filename: str) -> str:
    try:
        data = Path(filename).read_bytes()
        return (_uncompressed(filename, data) if filename.endswith(".gz") else data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(filename, 0, f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise ConfigError(filename, 0, f"cannot be read: {error.strerror}") from None


def _uncompressed(filename: str, data: bytes) -> bytes:
    import gzip  # late: most routers start without it
    import zlib

    try:
        return gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigError(filename, 0, f"is not a gzip file: {error}") from None


def _json_sections(text: str, filename: str) -> list[Section]:
    lines = text.removeprefix("\ufeff").split("\n")
    bare = "\n".join("" if line.lstrip().startswith("#") else line for line in lines)
    found: list[Section] = []
    try:
        for line, element in json_text.elements(bare):
            match element:
                case [str(name), dict(attributes)]:
                    found.append(Section(name, line, attributes))
                case _:
                    raise ConfigError(filename, line, "expected `[entityName, {attributes}]`")
    except json_text.JsonError as error:
        raise ConfigError(filename, error.line, error.reason) from None
    return found


def _entry(section: Section, filename: str) -> ConfigEntry:
    try:
        entity = entity_type(section.name)
    except SchemaError as error:
        raise ConfigError(filename, section.line, str(error)) from None
    if not entity.configurable:
        raise ConfigError(filename, section.line, f"{section.name}: cannot be in a configuration file")
    try:
        attributes = validate_create(entity, section.attributes)
    except SchemaError as error:
        raise ConfigError(filename, _line_of(error.attribute, entity, section), str(error)) from None
    return ConfigEntry(entity, attributes, section.line, filename)


def _line_of(attribute: str, entity: EntityType, section: Section) -> int:
    """The line of an attribute by its written or present name, perhaps with `.` and more; else that of the section."""
    wanted = attribute.partition(".")[0]
    lines = [line for name, line in section.lines.items() if wanted in (name, entity.attribute_name(name))]
    return lines[-1] if lines else section.line


def _policy_folder(policy: ConfigEntry) -> list[ConfigEntry]:
    folder = policy.attributes["policyDir"]
    if not folder:
        return []
    if not Path(folder).is_dir():
        raise ConfigError(policy.filename, policy.line, f"policy policyDir: {folder} is not a folder")
    found: list[ConfigEntry] = []
    for path in sorted(Path(folder).glob("*.json")):
        for section in _json_sections(_read(str(path)), str(path)):
            if section.name != "vhost":
                raise ConfigError(str(path), section.line, f"{section.name}: a policy folder may only contain vhosts")
            found.append(_entry(section, str(path)))
    return found


def _complete(entries: list[ConfigEntry], filename: str) -> list[ConfigEntry]:
    _check_unique(entries)
    _check_references(entries)
    present = {entry.type.name for entry in entries}
    for name in PROCESSING_ORDER:
        if ENTITY_TYPES[name].singleton and name not in present:
            entries.append(ConfigEntry(ENTITY_TYPES[name], validate_create(ENTITY_TYPES[name], {}), 0, filename))
    modules = {entry.attributes["module"] for entry in entries if entry.type.name == "log"}
    log = ENTITY_TYPES["log"]
    missing = [{"module": module} for module in LOG_MODULES if module not in modules]
    entries += [ConfigEntry(log, validate_create(log, attributes), 0, filename) for attributes in missing]
    return sorted(entries, key=lambda entry: PROCESSING_ORDER.index(entry.type.name))


def _check_unique(entries: Sequence[ConfigEntry]) -> None:
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
                raise ConfigError(entry.filename, entry.line, f"{what} already exists at {where}")


def _check_references(entries: Sequence[ConfigEntry]) -> None:
    names = {(entry.type.name, entry.attributes["name"]) for entry in entries}
    for entry in entries:
        for attribute, target in _REFERENCES.items():
            value = entry.attributes.get(attribute)
            if value is not None and (target, value) not in names:
                reason = f"{entry.type.name} {attribute}: there is no {target} named {value!r}"
                raise ConfigError(entry.filename, entry.line, reason)
