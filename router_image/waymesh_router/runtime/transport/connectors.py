"""The connectors of a router by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.tls.profiles import Profiles
from waymesh_router.runtime.transport.connector import Connector, Owner


class Connectors:
    """Creates, starts and stops connectors."""

    def __init__(
        self,
        loop: Loop,
        profiles: Profiles,
        rng: Callable[[], float],
        owner: Owner,
        close_all: Callable[[Connector, str], None],
    ) -> None:
        """`close_all(connector, reason)` closes the connections of a connector."""
        self._loop, self._profiles, self._rng = loop, profiles, rng
        self._owner, self._close_all = owner, close_all
        self._by_name: dict[str, Connector] = {}
        self._closed = False

    def all(self) -> list[Connector]:
        """All connectors that exist."""
        return list(self._by_name.values())

    def connect(self, attrs: Mapping[str, Any]) -> None:
        """Start a connector. Raises HostError (an OSError) for invalid attributes."""
        connector = Connector(self._loop, attrs, self._profiles.of_connector(attrs), self._owner, self._rng)
        self._by_name[connector.name] = connector
        # In the next turn: the router may still be handling the request that created this connector.
        self._loop.call_later(0, lambda: self._start(connector))

    def _start(self, connector: Connector) -> None:
        if self._by_name.get(connector.name) is connector and not self._closed:
            connector.start()

    def disconnect(self, name: str) -> None:
        """Stop a connector and close its connection."""
        connector = self._by_name.pop(name, None)
        if connector is not None:
            connector.close()
            # In the next turn: one of its connections may carry the response to this request.
            self._loop.call_later(0, lambda: self._close_all(connector, f"connector {name} was deleted"))

    def retry(self) -> None:
        """Waiting connectors retry in the next turn: the caller may still be handling input of another connector."""
        self._loop.call_later(0, self._retry)

    def _retry(self) -> None:
        for connector in self._by_name.values():
            connector.retry()

    def set_failover(self, name: str, targets: list[tuple[str, int]]) -> None:
        """Set the alternative targets of a connector, from the peer's `failover-server-list`."""
        if name in self._by_name:
            self._by_name[name].set_failover(targets)

    def close(self) -> None:
        """Stop all connectors permanently; their connections belong to the host."""
        self._closed = True
        for connector in self._by_name.values():
            connector.close()
