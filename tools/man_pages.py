"""Writes the man pages into docs/man, from the entity tables and the declared commands: `python tools/man_pages.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from waymesh_operator.cli.main import app
from waymesh_router.runtime.options import USAGE
from waymesh_schema.docs import default_text, meaning_text, type_text
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.model import ENTITY_ATTRIBUTES, EntityType

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "man"

_CONFIGURATION = """\
A configuration file of waymesh-router(8) consists of sections. Each section creates one entity of the type that it \
names, with the attributes between the braces:

.nf
    listener {
        host: 0.0.0.0
        port: amqp
        authenticatePeer: no
    }
.fi

A comment starts with # and ends with its line. A file whose name ends in .json holds a list of pairs \
["listener", {"port": "amqp"}] instead.

Every section may also have a name. An attribute marked "updatable" can be changed over management while the router \
runs. What the router reports beside these attributes is shown by waymesh-manage(1).
"""

_FILES = """\
.TP
/etc/qpid-dispatch/qdrouterd.conf
The configuration file that is read when no --config is given; see waymesh-router.conf(5). If it does not exist, the
router is a standalone one for clients of this machine, on port 5672.
"""

_EXIT_CODES = "0 after an orderly stop, 1 if the command line or the configuration is refused or the router fails."


def pages() -> dict[str, str]:
    """The text of each page by its file name, as `waymesh-stat.1`."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("waymesh", [], resilient_parsing=True)
    shown = dict(_commands(root, context))
    found = {"waymesh-router.8": _router(), "waymesh-router.conf.5": _configuration(), "waymesh.1": _overview(shown)}
    for name, command in shown.items():
        own_context = command.make_context(name, [], context, resilient_parsing=True)
        found[f"waymesh-{name.replace(' ', '-')}.1"] = _command(name, command, own_context)
    return found


def _commands(group: Any, context: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The words and the command of each page, those of groups of commands included."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, context, f"{prefix}{name} ")
        elif not command.hidden:
            yield prefix + name, command


def _router() -> str:
    usage, _, options = USAGE.partition("\n\n")
    return "".join(
        [
            _head("waymesh-router", 8, "System administration", "AMQP 1.0 message router"),
            _section("Synopsis", f".B {_plain(usage.removeprefix('Usage: '))}\n"),
            _section("Description", _text("Routes AMQP 1.0 messages and links, alone or in a network of routers.")),
            _section("Options", f".nf\n{_plain(options)}.fi\n"),
            _section("Exit status", _text(_EXIT_CODES)),
            _section("Files", _FILES),
            _see_also("waymesh-router.conf(5)", "waymesh(1)", "waymesh-manage(1)", "waymesh-stat(1)"),
        ]
    )


def _configuration() -> str:
    entities = [entity for entity in ENTITY_TYPES.values() if entity.configurable and not entity.refused]
    return "".join(
        [
            _head("waymesh-router.conf", 5, "File formats", "configuration of waymesh-router"),
            _section("Description", _CONFIGURATION),
            _section("Sections", "".join(_entity(entity) for entity in entities)),
            _see_also("waymesh-router(8)", "waymesh-manage(1)"),
        ]
    )


def _overview(commands: dict[str, Any]) -> str:
    rows = [(f"waymesh-{name.replace(' ', '-')}", _first(command.help)) for name, command in commands.items()]
    listed = "".join(f".TP\n.BR {_plain(name)} (1)\n{_text(summary)}" for name, summary in rows)
    return "".join(
        [
            _head("waymesh", 1, "User commands", "run, plan, inspect and change meshes of AMQP 1.0 routers"),
            _section("Synopsis", ".B waymesh\n.I COMMAND\n[OPTIONS]\n"),
            _section("Commands", listed),
            _see_also("waymesh-router(8)", "waymesh-router.conf(5)"),
        ]
    )


def _command(name: str, command: Any, context: Any) -> str:
    paragraphs = command.help.replace("\b", "").split("\n\n")
    described = "".join(f".PP\n{_text(paragraph)}" for paragraph in paragraphs)
    parameters = [p for p in command.get_params(context) if not getattr(p, "hidden", False)]
    records = [record for record in (p.get_help_record(context) for p in parameters) if record]
    options = "".join(f".TP\n.B {_plain(flags)}\n{_text(meaning)}" for flags, meaning in records)
    pieces = " ".join(command.collect_usage_pieces(context))
    return "".join(
        [
            _head(f"waymesh-{name.replace(' ', '-')}", 1, "User commands", _first(command.help).rstrip(".")),
            _section("Synopsis", f".B waymesh {name}\n{_plain(pieces)}\n"),
            _section("Description", described),
            _section("Options", options),
            _see_also("waymesh(1)"),
        ]
    )


def _entity(entity: EntityType) -> str:
    lines = [f".SS {entity.name}\n", _text(entity.description)]
    if entity.aliases:
        lines.append(_text(f"Also written {', '.join(entity.aliases)}."))
    inherited = {attribute.name for attribute in ENTITY_ATTRIBUTES}
    for attribute in entity.attributes.values():
        if attribute.name in inherited or not attribute.create:
            continue
        default = default_text(attribute).replace("`", "")
        facts = [type_text(attribute), default if default in ("", "required") else f"default {default}"]
        facts.append("updatable" if attribute.update else "")
        lines.append(f".TP\n.B {_plain(attribute.name)}\n({_plain(', '.join(filter(None, facts)))})\n")
        lines.append(_text(meaning_text(attribute).replace("`", "")))
    return "".join(lines)


def _head(name: str, section: int, manual: str, summary: str) -> str:
    title = f'.TH {_plain(name.upper())} {section} "" "Waymesh" "{manual}"\n'
    return f".\\\" Generated by `python tools/man_pages.py`.\n{title}.SH NAME\n{_plain(name)} \\- {_plain(summary)}\n"


def _section(title: str, body: str) -> str:
    return f".SH {title.upper()}\n{body}"


def _see_also(*others: str) -> str:
    names = [other.partition("(") for other in others]
    lines = [f".BR {_plain(name)} ({section}" for name, _, section in names]
    return _section("See also", ",\n".join(lines) + "\n")


def _first(text: str) -> str:
    """The first sentence of a description."""
    paragraph = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return paragraph.split(". ")[0].rstrip(".") + "."


def _text(paragraph: str) -> str:
    return _plain(" ".join(paragraph.split())) + "\n"


def _plain(text: str) -> str:
    """`text` as roff prints it unchanged: escaped, with hyphens that can be copied, no line taken for a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n"))


def write(folder: Path) -> Iterator[Path]:
    """Write all pages, remove those that no longer exist; the files written."""
    folder.mkdir(exist_ok=True)
    found = pages()
    for stale in {path.name for path in folder.iterdir()} - set(found):
        (folder / stale).unlink()
    for name, text in found.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        yield path


if __name__ == "__main__":
    sys.stdout.writelines(f"{path.name}\n" for path in write(FOLDER))
