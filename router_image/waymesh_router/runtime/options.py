"""Command line of `waymesh-router`, with the options of qdrouterd."""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_CONFIG = "/etc/qpid-dispatch/qdrouterd.conf"

DEFAULT_URL = "amqp://127.0.0.1:55673"
"""The management listener of a router in a pod, on loopback."""

USAGE = f"""\
Usage: waymesh-router [options]

  -c, --config PATH    configuration file, *.conf or *.json, perhaps with .gz behind (default
                       {DEFAULT_CONFIG}); several are read in order as one
  -I, --include PATH   accepted for compatibility and ignored
  -d, --daemon         run in the background
  -P, --pidfile PATH   write the process id to this file once the router listens
  -U, --user NAME      run as this user once the router listens
      --check          do not start a router: read the configuration and the files it names, and tell all
                       errors; exit code 0 if there are none
      --dump           do not start a router: print the configuration of the one at --url as a file
                       (*.json) that a router can be started with
      --drain          do not start a router: have the one at --url hand its clients over to others, and
                       wait until that is done
      --timeout S      with --drain: seconds for deliveries to be settled (default: what the router has)
      --url URL        with --drain, --dump: where the router listens (default {DEFAULT_URL})
  -v, --version        print the version and exit
  -h, --help           print this text and exit
"""

_SHORT = "c:I:dP:U:vh"
_LONG = (
    "config=", "include=", "daemon", "pidfile=", "user=", "check", "dump", "drain", "timeout=", "url=", "version",
    "help",
)  # fmt: skip


_ACTIONS = ("--check", "--dump", "--drain")
_USED_BY = {
    ("-c", "--config"): ("", "--check"),
    ("-d", "--daemon"): ("",),
    ("-P", "--pidfile"): ("",),
    ("-U", "--user"): ("",),
    ("--timeout",): ("--drain",),
    ("--url",): ("--drain", "--dump"),
}
"""Options, and the actions that use them; "" is to run a router. All others would ignore them."""


class UsageError(Exception):
    """An invalid command line. Its text, reason and usage, is printed to stderr; the exit code is 1."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed command line. With `version` or `help`, that is printed to stdout, and the exit code is 0."""

    config: tuple[str, ...] = (DEFAULT_CONFIG,)
    daemon: bool = False
    pidfile: str | None = None
    user: str | None = None
    check: bool = False
    dump: bool = False
    drain: bool = False
    timeout_s: int | None = None
    url: str = DEFAULT_URL
    version: bool = False
    help: bool = False


def parse_options(argv: Sequence[str]) -> Options:
    """The options in `argv`, which excludes the program's name; except for --config, the last of several wins.

    Raises UsageError.
    """
    try:
        given, arguments = getopt.gnu_getopt(list(argv), _SHORT, list(_LONG))
    except getopt.GetoptError as error:
        raise UsageError(f"waymesh-router: {error.msg}\n{USAGE}") from None
    if arguments:
        raise UsageError(f"waymesh-router: unexpected arguments: {' '.join(arguments)}\n{USAGE}")
    found = {name.lstrip("-"): value for name, value in given}

    def text(*names: str) -> str | None:
        return next((value for name, value in reversed(given) if name.lstrip("-") in names), None)

    def asked(*names: str) -> bool:
        return any(name in found for name in names)

    if not asked("v", "version", "h", "help"):
        _refuse_unused(given)
    return Options(
        config=tuple(value for name, value in given if name in ("-c", "--config")) or (DEFAULT_CONFIG,),
        daemon=asked("d", "daemon"),
        pidfile=text("P", "pidfile"),
        user=text("U", "user"),
        check=asked("check"),
        dump=asked("dump"),
        drain=asked("drain"),
        timeout_s=_seconds(text("timeout")),
        url=text("url") or DEFAULT_URL,
        version=asked("v", "version"),
        help=asked("h", "help"),
    )


def _refuse_unused(given: Sequence[tuple[str, str]]) -> None:
    """Raises UsageError for an option that would have no effect."""
    actions = list(dict.fromkeys(name for name, _ in given if name in _ACTIONS))
    if len(actions) > 1:
        raise UsageError(f"waymesh-router: only one of {', '.join(actions)} is possible\n{USAGE}")
    action = actions[0] if actions else ""
    for name, value in given:
        users = next((users for names, users in _USED_BY.items() if name in names), (action,))
        if action not in users:
            of = f"has no effect with {action}" if "" in users else f"is only for {', '.join(users)}"
            raise UsageError(f"waymesh-router: {name} {of}\n{USAGE}")
        if name in ("-P", "--pidfile", "-U", "--user") and not value:
            raise UsageError(f"waymesh-router: {name} needs a value that is not empty\n{USAGE}")


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"waymesh-router: --timeout: {text!r} is no number of seconds\n{USAGE}")
    return int(text)
