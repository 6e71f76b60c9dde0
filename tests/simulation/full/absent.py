"""What simulated routers do not have: their configurations must not ask for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tests.simulation.full.world import Station
from waymesh_amqp.relayed import Service
from waymesh_amqp.settings import ConnectionSettings


class NoTokens:
    """No router here has a tokenProfile."""

    def __init__(self, station: Station) -> None:
        self._station = station

    def now(self) -> float:
        """The system clock: that of the simulation, and how far it is off."""
        return self._station.world.now + self._station.clock_off_s

    def checker(self, attrs: Mapping[str, Any], who: Mapping[str, str]) -> None:
        assert not attrs.get("tokenProfile")


class NoUsers:
    """No router here has a file of users."""

    def add(self, listener: Mapping[str, Any]) -> None:
        assert not listener.get("usersFile")

    def keep_those_of(self, listeners: Collection[Mapping[str, Any]]) -> None:
        """There is nothing to forget."""

    def authenticator(self, listener: Mapping[str, Any]) -> None:
        """Nobody has a password."""

    def refused(self) -> int:
        return 0


class NoServices:
    """No router here has an authServicePlugin."""

    def add(self, attrs: Mapping[str, Any]) -> None:
        raise AssertionError(attrs)

    def remove(self, name: str) -> None:
        raise AssertionError(name)

    def relay(self, name: str, settings: ConnectionSettings, limit_s: float) -> Service:
        raise AssertionError(name)
