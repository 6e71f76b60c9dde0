"""The `tokenProfile` entities of a router."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.events.event import Event, ModuleLog
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.workers import Workers
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_amqp.sasl import TokenChecker
    from waymesh_router.runtime.loop import Loop

def check_profile(attrs: Mapping[str, Any], names: Container[str]) -> None:
    """Raises HostError if a listener has a tokenProfile that is not in `names`."""
    name = attrs.get("tokenProfile")
    if name and name not in names:
        raise HostError(f"listener {attrs['name']}: tokenProfile: there is no tokenProfile {name}")


class TokenProfile:
    """One `tokenProfile`: its keys and its check."""

    def __init__(self, attrs: Mapping[str, Any], report: ModuleLog, now: Callable[[], float]) -> None:
        """`report` is called in any thread. Raises HostError if its files are unusable. Does not read a URL, which may
        take long."""
        name = f"tokenProfile {attrs['name']}"
        try:
            from waymesh_router.runtime.tokens import check as token_check
            from waymesh_router.runtime.tokens import keys as token_keys
        except ImportError as error:
            raise HostError(f"{name}: needs PyJWT and cryptography, the extra `oauth` of waymesh: {error}") from None
        path = attrs.get("keysFile")
        source: token_keys.FileSource | token_keys.UrlSource
        source = token_keys.FileSource(path) if path else token_keys.UrlSource(attrs)

        def report_keys(level: str, text: str) -> None:
            report(level, f"{name}: {text}")

        def check_of(who: Mapping[str, str]) -> TokenChecker:
            def refused(reason: str) -> None:
                report("info", f"{name}: token refused: {reason}", Event(LogEvent.TOKEN_REFUSED, who))

            return token_check.TokenCheck(attrs, self.keys, now, refused)

        self.keys = token_keys.Keys(source, float(attrs["keepKeysSeconds"]), report_keys, time.monotonic)
        try:
            if isinstance(source, token_keys.FileSource):
                self.keys.load()
            else:
                source.context()
        except token_keys.KeysError as error:
            raise HostError(f"{name}: {source.location}: {error}") from None
        self.check_of = check_of
        self._reading: threading.Thread | None = None

    def poll(self) -> None:
        """Read the keys in a thread if it is time to read them again."""
        if self.keys.due() and (self._reading is None or not self._reading.is_alive()):
            self._reading = threading.Thread(target=self.keys.refresh, name="token keys", daemon=True)
            self._reading.start()


class TokenProfiles:
    """All profiles by name. Each has its own threads, so that reading its URL does not delay other logins."""

    def __init__(self, loop: Loop, log: ModuleLog, now: Callable[[], float] = time.time) -> None:
        """`now()`: seconds since 1970, for checking the times of tokens."""
        self.now = now
        self._loop = loop
        self._log = log
        self._profiles: dict[str, TokenProfile] = {}
        self._workers: dict[str, Workers] = {}

    def add(self, attrs: Mapping[str, Any]) -> None:
        """Add a profile. Raises HostError if it is unusable."""
        profile = TokenProfile(attrs, self._report, self.now)
        self._profiles[str(attrs["name"])] = profile
        self._workers[str(attrs["name"])] = Workers(self._loop)
        profile.poll()

    def remove(self, name: str) -> None:
        self._profiles.pop(name, None)
        self._workers.pop(name, None)

    def checker(self, attrs: Mapping[str, Any], who: Mapping[str, str]) -> TokenChecker | None:
        """The check for a connection of a listener; None if it has no profile. `who`: fields of the event of a refused
        token. Raises HostError if the profile is unknown."""
        check_profile(attrs, self._profiles)
        name = attrs.get("tokenProfile")
        return self._profiles[name].check_of(who) if name else None

    def workers(self, attrs: Mapping[str, Any]) -> Workers | None:
        """The threads for logins at a listener; None if it has no profile."""
        return self._workers.get(str(attrs.get("tokenProfile") or ""))

    def poll(self) -> None:
        """Read the keys of the profiles that are due."""
        for profile in self._profiles.values():
            profile.poll()

    def _report(self, level: str, text: str, event: Event | None = None, /) -> None:
        self._loop.call_from_thread(lambda: self._log(level, text, event))
