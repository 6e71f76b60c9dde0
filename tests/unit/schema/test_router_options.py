"""Command line of the router."""

from __future__ import annotations

from pathlib import Path

import pytest

from waymesh_router.runtime.options import DEFAULT_CONFIG, INSTALLED_CONFIG, USAGE, Options, UsageError, parse_options
from waymesh_schema.config import read_config

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Options()),
        ("-c a.conf", Options(config=("a.conf",))),
        ("-ca.conf", Options(config=("a.conf",))),
        ("--config a.conf", Options(config=("a.conf",))),
        ("--config=a.conf", Options(config=("a.conf",))),
        ("--conf a.conf", Options(config=("a.conf",))),
        ("-c a --config b -c c", Options(config=("a", "b", "c"))),
        ("-I /some/where -c a", Options(config=("a",))),
        ("--include /some/where", Options()),
        ("-d", Options(daemon=True)),
        ("--daemon -P p.pid -U qd", Options(daemon=True, pidfile="p.pid", user="qd")),
        ("--daemon --pidfile p.pid --user qd", Options(daemon=True, pidfile="p.pid", user="qd")),
        ("-T -c a", Options(test_hooks=True, config=("a",))),
        ("--test-hooks", Options(test_hooks=True)),
        ("--check --strict", Options(check=True, strict=True)),
        ("--check -c a", Options(check=True, config=("a",))),
        ("--dump --url amqp://h:1", Options(dump=True, url="amqp://h:1")),
        ("--drain", Options(drain=True)),
        ("--drain --timeout 20 --url amqp://h:1", Options(drain=True, timeout_s=20, url="amqp://h:1")),
        ("-v", Options(version=True)),
        ("--version", Options(version=True)),
        ("-h", Options(help=True)),
        ("--help", Options(help=True)),
        ("-dvh", Options(daemon=True, version=True, help=True)),
    ],
)
def test_options(line: str, expected: Options) -> None:
    assert parse_options(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("-x", "option -x not recognized"),
        ("--nonsense", "option --nonsense not recognized"),
        ("-c", "option -c requires argument"),
        ("--config", "option --config requires argument"),
        ("--daemon=yes", "option --daemon must not have an argument"),
        ("a.conf", "unexpected arguments: a.conf"),
        ("-d one -c x two", "unexpected arguments: one two"),
        ("--drain --timeout 1.5", "--timeout: '1.5' is not a number of seconds"),
        ("--check --dump", "--check, --dump cannot be combined"),
        ("--timeout 5", "--timeout requires --drain"),
        ("--dump --timeout 5", "--timeout requires --drain"),
        ("-d --url amqp://h:1", "--url requires --drain or --dump"),
        ("--check -d", "-d has no effect with --check"),
        ("--drain -c a.conf", "-c has no effect with --drain"),
        ("--dump --pidfile p", "--pidfile has no effect with --dump"),
        ("--strict", "--strict requires --check"),
        ("--user=", "--user must not be empty"),
        ("--pidfile=", "--pidfile must not be empty"),
        ("-- -c", "unexpected arguments: -c"),
    ],
)
def test_refused_command_lines_say_why_and_how(line: str, reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options(line.split())
    assert str(raised.value) == f"waymesh-router: {reason}\n{USAGE}"


@pytest.mark.parametrize("exists", [True, False])
def test_the_files_without_config(exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be read, or whose target is gone, is not replaced by an open router."""
    place = tmp_path / "qdrouterd.conf"
    if exists:
        place.symlink_to("gone")
    monkeypatch.setattr("waymesh_router.runtime.options.DEFAULT_CONFIG", str(place))
    assert parse_options([]).files == (str(place) if exists else INSTALLED_CONFIG,)
    assert parse_options(["-c", "a"]).files == ("a",)


def test_the_installed_file_is_for_clients_of_this_machine() -> None:
    (listener,) = [entry.attributes for entry in read_config(INSTALLED_CONFIG) if entry.type.name == "listener"]
    assert (listener["host"], listener["port"], listener["role"]) == ("127.0.0.1", "amqp", "normal")


def test_the_usage_names_every_option_and_the_default() -> None:
    for option in ("-c, --config", "-I, --include", "-d, --daemon", "-P, --pidfile", "-U, --user", "-v, --version"):
        assert option in USAGE
    assert DEFAULT_CONFIG in USAGE
