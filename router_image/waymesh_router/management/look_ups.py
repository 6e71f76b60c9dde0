"""Postpones management requests that need addresses of host names until these have been looked up."""

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

MAX_NAMES = 64
"""Maximum number of host names in one vhost."""
MAX_WAITING = 64
"""Maximum number of requests of one connection that wait behind a look-up, and of look-ups of all connections."""

Start = Callable[[Collection[str], "Callable[[Addresses], None]"], None]
"""Starts to look up the names, and calls the function with the result later."""


class LookUpNeeded(Exception):
    """A request needs the addresses of these names. It has changed nothing, and can be repeated with the addresses."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"{', '.join(names)}: not looked up")
        self.names = names


class KnownNames:
    """The addresses of the host names in a request or the configuration, available while it is executed."""

    def __init__(self) -> None:
        self._known: Mapping[str, Collection[str] | str] = {}

    @contextmanager
    def given(self, addresses: Addresses) -> Iterator[None]:
        """Make the addresses available within the `with` block."""
        before, self._known = self._known, addresses
        try:
            yield
        finally:
            self._known = before

    def lacking(self, names: Collection[str]) -> Collection[str]:
        """All names if one of them is unknown, else none. Raises ManagementError for too many names."""
        if len(names) > MAX_NAMES:
            raise bad_request(f"remoteHosts: {len(names)} host names; a vhost may have {MAX_NAMES}: use addresses")
        return () if all(name in self._known for name in names) else names

    def addresses(self, name: str) -> Collection[str]:
        """The addresses of a known name. Raises ValueError if it could not be resolved."""
        found = self._known[name]
        if isinstance(found, str):
            raise ValueError(f"cannot resolve {name}: {found}")
        return found


@dataclass(frozen=True, slots=True)
class Task:
    """A request. `work` answers it or raises LookUpNeeded; `refuse` answers it with an error."""

    connection: RouterConnection | None
    work: Callable[[], None]
    refuse: Callable[[ManagementError], None]


class LookUps:
    """Executes requests. While a request waits for addresses, later requests of the same client queue behind it."""

    def __init__(self, known: KnownNames, look_up: Start) -> None:
        self._known = known
        self._look_up = look_up
        self._waiting = 0
        self._queues: dict[RouterConnection, deque[Task]] = {}

    def carry_out(self, task: Task) -> None:
        """Execute the task or queue it; refuse it with status 503 if too many wait."""
        queue = None if task.connection is None else self._queues.get(task.connection)
        if queue is None:
            self._attempt(task)
        elif len(queue) >= MAX_WAITING:
            task.refuse(unavailable(f"{MAX_WAITING} requests of this connection are waiting; try again later"))
        else:
            queue.append(task)

    def _attempt(self, task: Task) -> None:
        try:
            task.work()
        except LookUpNeeded as needed:
            if self._waiting >= MAX_WAITING:
                task.refuse(unavailable("too many host names are being looked up; try again later"))
                return
            self._waiting += 1
            # A connection from another router carries requests of many clients, which must not wait for each other.
            if task.connection is not None and task.connection.role != "inter-router":
                self._queues.setdefault(task.connection, deque())
            self._look_up(needed.names, partial(self._found, task))

    def _found(self, task: Task, addresses: Addresses) -> None:
        self._waiting -= 1
        connection = task.connection
        queue = None if connection is None else self._queues.pop(connection, None)
        if connection is not None and connection.over and connection.role != "inter-router":
            return  # no client waits for the replies
        with self._known.given(addresses):
            self._attempt(task)
        if connection is None or queue is None:
            return
        while queue and connection not in self._queues:
            self._attempt(queue.popleft())
        if queue:
            self._queues[connection] = queue
