"""`waymesh-router --check`: all checks of a configuration that are possible without starting the router."""

from __future__ import annotations

import errno
import os
import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from waymesh_router.events.event import Event
from waymesh_router.policy.hosts import Addresses
from waymesh_router.router import Router
from waymesh_router.runtime.log.log import SERIOUS, Log
from waymesh_router.runtime.log.rotation import Rotation
from waymesh_router.runtime.sasl.services import service_address
from waymesh_router.runtime.sasl.users import UserFiles, users_hint
from waymesh_router.runtime.tls.profiles import Profiles, without_unusable
from waymesh_router.runtime.tokens.profiles import TokenProfile, check_profile
from waymesh_router.runtime.transport.addresses import port_number
from waymesh_router.runtime.transport.collisions import without_repeated_addresses
from waymesh_router.runtime.transport.connector import configured_targets
from waymesh_schema.config import read_config
from waymesh_schema.table_router import STANDARD_OUTPUTS


def check(filenames: Sequence[str], strict: bool = False) -> int:
    """Check configuration files, TLS files and user files; returns the exit code: 1 if a listener or connector would
    stay closed, else 0. `strict`: 1 if there is any warning.

    It does not listen, connect or write files. Raises the same errors as a start. Prints to stderr what a start would
    log as warning or error.
    """
    found = read_config(*filenames)
    single, repeated = without_repeated_addresses([entry for entry in found if entry.type.name != "telemetry"])
    entries, unusable = without_unusable(single)
    problems = [*repeated, *unusable]
    warnings = Warnings()
    host: Any = CheckHost(warnings.add)  # has only the methods that a start calls
    router = Router(entries, host, 0.0, random.Random())
    host.users.configure(router.attrs)
    hint = users_hint(router.attrs)
    for text in [*problems, *([hint] if hint else [])]:
        warnings.add(text)
    router.start()
    if problems or (strict and warnings.count):
        return 1
    sys.stdout.write(f"{', '.join(filenames)}: the configuration is correct\n")
    return 0


class Warnings:
    """Prints warnings and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, text: str) -> None:
        """Print a warning or an error."""
        self.count += 1
        sys.stderr.write(f"waymesh-router: {text}\n")


class CheckHost:
    """A host that checks the arguments of requests without carrying them out."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """`warn` is called with what a start would log as warning or error."""
        self._warn = warn
        self._log = Log(lambda: datetime.now(UTC), CheckedOutput)
        self._profiles = Profiles(lambda level, text, event=None: None)
        self.tokens = CheckTokens()
        self.users = UserFiles(lambda level, text, event=None: warn(text))
        self.auth_services = CheckAuthServices(self._profiles)

    def ssl_profile(self, attrs: Mapping[str, Any]) -> None:
        """Load the files of the profile. Raises HostError."""
        self._profiles.add(attrs)

    def listen(self, attrs: Mapping[str, Any]) -> None:
        """Check port and TLS settings, and the folder of pages. Raises HostError."""
        self._profiles.of_listener(attrs)
        port_number(f"listener {attrs['name']}", attrs["port"])
        if attrs.get("httpRootDir"):
            from waymesh_router.runtime.http.files import StaticFiles  # with h11, which takes time to import

            StaticFiles(str(attrs["name"]), attrs["httpRootDir"])
        if attrs.get("console"):
            from waymesh_router.runtime.http.console import ConsoleFiles

            ConsoleFiles(str(attrs["name"]))

    def connect(self, attrs: Mapping[str, Any]) -> None:
        """Check port, URLs and TLS settings. Raises HostError."""
        self._profiles.of_connector(attrs)
        configured_targets(str(attrs["name"]), attrs)

    def configure_log(self, attrs: Mapping[str, Any]) -> None:
        """Check levels and output as a running router does. Raises SchemaError."""
        self._log.configure(attrs)

    def numeric_addresses(self, names: Collection[str]) -> Addresses:
        """No addresses: host names are not resolved, because the router's machine may resolve them differently."""
        return dict.fromkeys(names, ())

    def look_up(self, names: Collection[str], done: Callable[[Addresses], None]) -> None:
        """Never called: no request arrives."""

    def recent_log(self, limit: int) -> list[Any]:
        """Always empty."""
        return []

    def certificates(self) -> dict[str, Any]:
        """Always empty."""
        return {}

    def log(self, module: str, level: str, text: str, event: Event | None = None, /) -> None:
        """Print warnings and errors."""
        if level in SERIOUS:
            self._warn(text)

    def logs(self, module: str, level: str) -> bool:
        """Whether the level is at least warning."""
        return level in SERIOUS


class CheckedOutput:
    """Checks that a log output can be opened, without creating or writing anything."""

    def __init__(self, output: str, rotation: Rotation | None = None) -> None:
        """Raises OSError if a router could not open it."""
        if output not in STANDARD_OUTPUTS:
            can_append(os.path.realpath(output))

    def write(self, level: str, line: str) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def can_append(path: str) -> None:
    """Raises OSError if a file cannot be opened to append to it, or be created."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
    except FileNotFoundError:
        folder = os.path.dirname(path)
        os.stat(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO: a pipe without a reader; a router waits for the reader
            raise


class CheckTokens:
    """Checks tokenProfiles; their keysUrl is not read."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def now(self) -> float:
        """Never used: no connection opens."""
        return 0.0

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Load the keysFile, if any. Raises HostError."""
        TokenProfile(attrs, lambda level, text, event=None: None, self.now)
        self._names.add(str(attrs["name"]))

    def checker(self, attrs: Mapping[str, Any], who: Mapping[str, str]) -> None:
        """Check that the profile exists. Raises HostError."""
        check_profile(attrs, self._names)


class CheckAuthServices:
    """Checks authServicePlugins without connecting to them."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Check port and sslProfile. Raises HostError."""
        service_address(attrs)
        self._profiles.of_client(f"authServicePlugin {attrs['name']}", attrs)
