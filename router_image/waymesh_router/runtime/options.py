"""Command line of `waymesh-router`, with the options that users of qdrouterd know."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_CONFIG = "/etc/qpid-dispatch/qdrouterd.conf"

USAGE = f"""\
Usage: waymesh-router [options]

  -c, --config PATH    configuration file, *.conf or *.json (default {DEFAULT_CONFIG})
  -I, --include PATH   accepted for compatibility and ignored
  -d, --daemon         run in the background
  -P, --pidfile PATH   with -d: write the process id to this file
  -U, --user NAME      with -d: run as this user
  -v, --version        print the version and exit
  -h, --help           print this text and exit
"""

_SHORT = "c:I:dP:U:vh"
_LONG = ("config=", "include=", "daemon", "pidfile=", "user=", "version", "help")


class UsageError(Exception):
    """A command line that is refused. Its text, reason and usage, goes to stderr; the exit code is 1."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for. With `version` or `help` that is printed to stdout, and the exit code is 0."""

    config: str = DEFAULT_CONFIG
    daemon: bool = False
    pidfile: str | None = None
    user: str | None = None
    version: bool = False
    help: bool = False


def parse_options(argv: Sequence[str]) -> Options:
    """The options in `argv`, which does not hold the program's name; the last of several wins. Raises UsageError."""
    try:
        given, arguments = getopt.gnu_getopt(list(argv), _SHORT, list(_LONG))
    except getopt.GetoptError as error:
        raise UsageError(f"waymesh-router: {error.msg}\n{USAGE}") from None
    if arguments:
        raise UsageError(f"waymesh-router: unexpected arguments: {' '.join(arguments)}\n{USAGE}")
    found = {name.lstrip("-"): value for name, value in given}

    def text(short: str, long: str) -> str | None:
        return next((value for name, value in reversed(given) if name in ("-" + short, "--" + long)), None)

    def asked(short: str, long: str) -> bool:
        return short in found or long in found

    return Options(
        config=text("c", "config") or DEFAULT_CONFIG,
        daemon=asked("d", "daemon"),
        pidfile=text("P", "pidfile"),
        user=text("U", "user"),
        version=asked("v", "version"),
        help=asked("h", "help"),
    )
