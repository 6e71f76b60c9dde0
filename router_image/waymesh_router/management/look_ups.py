"""Requests that need addresses of host names: they are carried out again when these have been looked up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from waymesh_router.management.errors import ManagementError, bad_request, unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waymesh_router.core.model import RouterConnection
    from waymesh_router.policy.hosts import Addresses

MOST_NAMES = 64
"""Host names in one vhost."""
MOST_WAITING = 64
"""Requests of a connection that wait while names are looked up for one of them; requests of all with such look-ups."""

Start = Callable[[Collection[str], "Callable[[Addresses], None]"], None]
"""Looks names up and calls the function with the result later."""


class LookUpNeeded(Exception):
    """A request cannot be carried out before these names have been looked up. Nothing has changed."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"{', '.join(names)}: not looked up")
        self.names = names


class KnownNames:
    """The addresses of host names that are known while a request, or the configuration, is carried out."""

    def __init__(self) -> None:
        self._known: Mapping[str, Collection[str] | str] = {}

    @contextmanager
    def given(self, addresses: Addresses) -> Iterator[None]:
        """For the time of the block."""
        before, self._known = self._known, addresses
        try:
            yield
        finally:
            self._known = before

    def lacking(self, names: Collection[str]) -> Collection[str]:
        """All of them if one is unknown, else none. Raises ManagementError for too many."""
        if len(names) > MOST_NAMES:
            raise bad_request(f"remoteHosts: {len(names)} host names; a vhost may have {MOST_NAMES}: use addresses")
        return () if all(name in self._known for name in names) else names

    def addresses(self, name: str) -> Collection[str]:
        """The addresses of a name that is not lacking. Raises ValueError if it has none."""
        found = self._known[name]
        if isinstance(found, str):
            raise ValueError(f"cannot resolve {name}: {found}")
        return found


@dataclass(frozen=True, slots=True)
class Task:
    """A request. `work` answers it, or raises LookUpNeeded; `refuse` answers it with an error instead."""

    connection: RouterConnection | None
    work: Callable[[], None]
    refuse: Callable[[ManagementError], None]


class LookUps:
    """Carries out requests. While one of a client waits for addresses, its further ones wait behind it."""

    def __init__(self, known: KnownNames, look_up: Start) -> None:
        self._known = known
        self._look_up = look_up
        self._waiting = 0
        self._queues: dict[RouterConnection, deque[Task]] = {}

    def carry_out(self, task: Task) -> None:
        """Do the task now or later; refuse it with status 503 if too many wait."""
        queue = None if task.connection is None else self._queues.get(task.connection)
        if queue is None:
            self._attempt(task)
        elif len(queue) >= MOST_WAITING:
            task.refuse(unavailable(f"{MOST_WAITING} requests of this connection wait already; try again later"))
        else:
            queue.append(task)

    def _attempt(self, task: Task) -> None:
        try:
            task.work()
        except LookUpNeeded as needed:
            if self._waiting >= MOST_WAITING:
                task.refuse(unavailable("too many host names are being looked up; try again later"))
                return
            self._waiting += 1
            # Another router sends requests of many clients: they overtake each other rather than wait for one of them.
            if task.connection is not None and task.connection.role != "inter-router":
                self._queues.setdefault(task.connection, deque())
            self._look_up(needed.names, partial(self._found, task))

    def _found(self, task: Task, addresses: Addresses) -> None:
        self._waiting -= 1
        connection = task.connection
        queue = None if connection is None else self._queues.pop(connection, None)
        if connection is not None and connection.over and connection.role != "inter-router":
            return  # nobody waits for replies any more
        with self._known.given(addresses):
            self._attempt(task)
        if connection is None or queue is None:
            return
        while queue and connection not in self._queues:
            self._attempt(queue.popleft())
        if queue:
            self._queues[connection] = queue
