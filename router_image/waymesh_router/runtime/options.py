"""Command line of `waymesh-router`, with the options of qdrouterd."""

from __future__ import annotations

import getopt
import os
from collections.abc import Sequence
from dataclasses import dataclass

VERSION = "0.1.0"
"""The version of the distribution (verified by a test). Reading the metadata would take a tenth of the start time."""
DEFAULT_CONFIG = "/etc/qpid-dispatch/qdrouterd.conf"
INSTALLED_CONFIG = os.path.join(os.path.dirname(__file__), "default.conf")
"""The configuration without --config if there is no DEFAULT_CONFIG: a standalone router on loopback."""

DEFAULT_URL = "amqp://127.0.0.1:55673"
"""The management listener of a router in a pod, on loopback."""

USAGE = f"""\
Usage: waymesh-router [options]

  -c, --config PATH    configuration file: *.conf or *.json, optionally compressed (*.gz); default
                       {DEFAULT_CONFIG}, if it exists, else a standalone router
                       for clients of this machine, on port 5672; repeatable: several files are read in
                       order as one configuration
  -I, --include PATH   accepted for compatibility and ignored
  -T, --test-hooks     accepted for compatibility, with a warning: there are no test hooks
  -d, --daemon         run in the background
  -P, --pidfile PATH   write the process id to this file when the router listens
  -U, --user NAME      switch to this user when the router listens
      --check          check the configuration and the files that it refers to, and report all errors,
                       without starting a router; exit code 0 if there are none
      --strict         with --check: also exit with 1 if there are warnings, such as about settings that
                       have no effect or are read differently, for safety
      --dump           print the configuration of the running router at --url, as a configuration file
                       (*.json)
      --drain          drain the running router at --url, so that its clients move to other routers, and
                       wait for completion
      --timeout S      with --drain: time limit for settling deliveries, in seconds (default: the router's
                       drainTimeoutSeconds)
      --url URL        with --drain and --dump: URL of the router (default {DEFAULT_URL})
  -v, --version        print the version and exit
  -h, --help           print this help and exit
"""

_SHORT = "c:I:dP:U:vhT"
_LONG = (
    "config=", "include=", "daemon", "pidfile=", "user=", "check", "strict", "dump", "drain", "timeout=", "url=",
    "test-hooks", "version", "help",
)  # fmt: skip


_ACTIONS = ("--check", "--dump", "--drain")
_USED_BY = {
    ("-c", "--config"): ("", "--check"),
    ("-d", "--daemon"): ("",),
    ("-P", "--pidfile"): ("",),
    ("-U", "--user"): ("",),
    ("--strict",): ("--check",),
    ("--timeout",): ("--drain",),
    ("--url",): ("--drain", "--dump"),
}
"""The actions that use these options; "" stands for running a router. With any other action they are refused."""


class UsageError(Exception):
    """An invalid command line. Its text (the reason and the usage) is printed to stderr; the exit code is 1."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed command line. With `version` or `help`, the text is printed to stdout, and the exit code is 0."""

    config: tuple[str, ...] = ()
    daemon: bool = False
    pidfile: str | None = None
    user: str | None = None
    check: bool = False
    strict: bool = False
    dump: bool = False
    drain: bool = False
    timeout_s: int | None = None
    url: str = DEFAULT_URL
    test_hooks: bool = False
    version: bool = False
    help: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The configuration files to read."""
        return self.config or (DEFAULT_CONFIG if os.path.lexists(DEFAULT_CONFIG) else INSTALLED_CONFIG,)


def parse_options(argv: Sequence[str]) -> Options:
    """The options in `argv`, which does not include the program's name. If an option other than --config is repeated,
    its last value is used. Raises UsageError.
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

    def is_set(*names: str) -> bool:
        return any(name in found for name in names)

    if not is_set("v", "version", "h", "help"):
        _refuse_unused(given)
    return Options(
        config=tuple(value for name, value in given if name in ("-c", "--config")),
        daemon=is_set("d", "daemon"),
        pidfile=text("P", "pidfile"),
        user=text("U", "user"),
        check=is_set("check"),
        strict=is_set("strict"),
        dump=is_set("dump"),
        drain=is_set("drain"),
        timeout_s=_seconds(text("timeout")),
        url=text("url") or DEFAULT_URL,
        test_hooks=is_set("T", "test-hooks"),
        version=is_set("v", "version"),
        help=is_set("h", "help"),
    )


def _refuse_unused(given: Sequence[tuple[str, str]]) -> None:
    """Raises UsageError for an option that would have no effect."""
    actions = list(dict.fromkeys(name for name, _ in given if name in _ACTIONS))
    if len(actions) > 1:
        raise UsageError(f"waymesh-router: {', '.join(actions)} cannot be combined\n{USAGE}")
    action = actions[0] if actions else ""
    for name, value in given:
        allowed = next((allowed for names, allowed in _USED_BY.items() if name in names), (action,))
        if action not in allowed:
            reason = f"has no effect with {action}" if "" in allowed else f"requires {' or '.join(allowed)}"
            raise UsageError(f"waymesh-router: {name} {reason}\n{USAGE}")
        if name in ("-P", "--pidfile", "-U", "--user") and not value:
            raise UsageError(f"waymesh-router: {name} must not be empty\n{USAGE}")


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"waymesh-router: --timeout: {text!r} is not a number of seconds\n{USAGE}")
    return int(text)
