"""The state folder of one mesh, and the ports of its routers.

A listener has the port of the manifest on router 0 and the following free ones on the others. Automatic ports come from
below the range of outgoing connections, so that no connection occupies them while a router restarts. A port stays once
it is chosen.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
from collections.abc import Callable, Collection, Mapping, MutableMapping
from pathlib import Path
from typing import IO, Any

from waymesh_operator.errors import LocalError
from waymesh_operator.resources.router import Ref, Router, router_id
from waymesh_operator.router_entities.credentials import USERS_FILE
from waymesh_operator.router_entities.names import CONSOLE, OPERATORS

from .desired import RouterAddresses

LOOPBACK = "127.0.0.1"
FIRST, LAST = 22000, 32000
"""The tests of this repository use those below for themselves: both may run at the same time."""
TRIES = 2000
Saved = MutableMapping[str, dict[str, list[int]]]
"""Router id → purpose → [requested port (0: any), chosen port]."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether the port is free for a listener now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class PortClaims:
    """Ports that this process has chosen: no other process chooses them before the routers listen.

    A claim is a Unix socket with an abstract name. Like the port, such a name belongs to the network namespace, and it
    is free again when the process ends in any way. Routers do not inherit it.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, port: int) -> bool:
        """Claim the port; False if another process has claimed it."""
        if port in self._held:
            return True
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0waymesh-port-{port}")
        except OSError:
            claim.close()
            return False
        self._held[port] = claim
        return True

    def keep(self, ports: Collection[int]) -> None:
        """Give up the claims of all other ports."""
        for port in self._held.keys() - set(ports):
            self._held.pop(port).close()


class PortTable:
    """The ports of one mesh. `saved` is changed in place, and stored in the state file."""

    def __init__(
        self, saved: Saved, *, any_port: bool = False, console: bool = False, free: Callable[[int], bool] = is_free
    ) -> None:
        """`console`: the first router serves it, at any free port."""
        self._saved = saved
        self._any_port = any_port
        self._console = console
        self._free = free

    @property
    def chosen(self) -> set[int]:
        """All ports of the mesh."""
        return {pair[1] for purposes in self._saved.values() for pair in purposes.values()}

    def places(self, router: Router, running: Mapping[str, object]) -> list[RouterAddresses]:
        """The addresses for each ordinal. Ports of `running` routers stay; others are only kept if they are free."""
        declared = {listener.port for listener in router.listeners}
        return [self._place(router, ordinal, declared, running) for ordinal in range(router.size)]

    def _place(
        self, router: Router, ordinal: int, declared: set[int], running: Mapping[str, object]
    ) -> RouterAddresses:
        own_id = router_id(router.ref, ordinal)
        wanted = {"mesh": 0, OPERATORS: 0}
        if self._console and ordinal == 0:
            wanted[CONSOLE] = 0
        for listener in router.listeners:
            port = listener.port + ordinal
            taken = self._any_port or (ordinal > 0 and port in declared) or port > 65535
            wanted[f"listener/{listener.name}"] = 0 if taken else port
        old = self._saved.get(own_id, {})
        mine = self._saved[own_id] = {purpose: old[purpose] for purpose in wanted if purpose in old}
        for purpose, port in wanted.items():
            kept = mine.get(purpose)
            if kept and kept[0] == port and own_id in running:
                continue
            mine.pop(purpose, None)
            mine[purpose] = [port, self._choose(port, kept[1] if kept else 0)]
        chosen = {purpose: pair[1] for purpose, pair in mine.items()}
        clients = {listener.name: chosen[f"listener/{listener.name}"] for listener in router.listeners}
        return RouterAddresses(LOOPBACK, LOOPBACK, chosen["mesh"], chosen[OPERATORS], clients, chosen.get(CONSOLE, 0))

    def _choose(self, wanted: int, former: int) -> int:
        used = self.chosen
        for port in (wanted, former):
            if port and port not in used and self._free(port):
                return port
        for _ in range(TRIES):
            port = random.randint(FIRST, LAST)
            if port not in used and self._free(port):
                return port
        raise LocalError(f"no free port between {FIRST} and {LAST}")


def default_root() -> Path:
    """The default folder for state."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "waymesh"


class StateFolder:
    """`<root>/<mesh>`: `state.json`; for each router `<router>.json` (configuration) and `<router>.log`; the folders
    `credentials` with passwords and keys for the routers, and `telemetry` with their exports."""

    def __init__(self, root: Path, ref: Ref) -> None:
        self.path = (root / (ref.name if ref.namespace == "default" else f"{ref.namespace}.{ref.name}")).absolute()
        self._file = self.path / "state.json"
        self._lock: IO[str] | None = None
        self.ports: dict[str, dict[str, list[int]]] = {}
        self.pids: dict[str, int] = {}
        self._saved = ""
        self._credentials: dict[str, bytes] | None = None

    def lock(self) -> None:
        """Lock the folder for this process and read the state; raises LocalError if another process has locked it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a+")
        except OSError as error:
            raise LocalError(f"cannot use the state folder {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise LocalError(f"another `waymesh up` runs this mesh (state folder {self.path})") from None
        self._lock = lock
        self.load()

    def unlock(self) -> None:
        """Unlock the folder."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def load(self) -> None:
        """Read the state; empty if the file is missing or damaged."""
        try:
            state: Any = json.loads(self._file.read_text(encoding="utf-8"))
            pids = {str(name): int(pid) for name, pid in state["pids"].items()}
            ports = {str(name): _pairs(purposes) for name, purposes in state["ports"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
        self.ports, self.pids = ports, pids

    def save(self) -> None:
        """Store ports and pids, if they have changed. Raises OSError."""
        text = json.dumps({"ports": self.ports, "pids": self.pids}, indent=1)
        if text != self._saved:
            replace_text(self._file, text)
            self._saved = text

    def management(self, router: str) -> str:
        """AMQP URL of a router's management; listeners for clients take no management requests."""
        return f"amqp://127.0.0.1:{self.ports[router][OPERATORS][1]}"

    def config(self, router: str) -> Path:
        """The configuration file of a router."""
        return self.path / f"{router}.json"

    def log(self, router: str) -> Path:
        """The log file of a router."""
        return self.path / f"{router}.log"

    def seed(self, router: str) -> str:
        """The start configuration of the router; "" if there is none."""
        try:
            return self.config(router).read_text(encoding="utf-8")
        except OSError:
            return ""

    def write_seed(self, router: str, text: str) -> None:
        """Replace the start configuration of the router."""
        replace_text(self.config(router), text)

    @property
    def credentials(self) -> Path:
        """The folder of passwords and keys."""
        return self.path / "credentials"

    @property
    def telemetry(self) -> Path:
        """The folder of the routers' exports."""
        return self.path / "telemetry"

    def users(self) -> bytes:
        """The users file as it is, with the keys of passwords; empty if there is none."""
        if self._credentials is not None:
            return self._credentials.get(USERS_FILE, b"")
        try:
            return (self.credentials / USERS_FILE).read_bytes()
        except OSError:
            return b""

    def write_credentials(self, files: Mapping[str, bytes]) -> None:
        """Replace the content of the folder of passwords and keys, readable by the user only."""
        if files == self._credentials:
            return
        self.credentials.mkdir(mode=0o700, exist_ok=True)
        for name, data in files.items():
            temporary = self.credentials / f".{name}.new"
            with open(temporary, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(data)
            temporary.replace(self.credentials / name)
        for path in self.credentials.iterdir():
            if path.name not in files:
                path.unlink()
        self._credentials = dict(files)

    def last_log_line(self, router: str, size: int = 4096) -> str:
        """The last line of a router's log that is not blank."""
        try:
            data = self.log(router).read_bytes()[-size:]
        except OSError:
            return ""
        lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def _pairs(purposes: Any) -> dict[str, list[int]]:
    """The stored ports of a router; raises ValueError, TypeError or AttributeError."""
    return {str(purpose): [int(wanted), int(chosen)] for purpose, (wanted, chosen) in purposes.items()}


def replace_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees either the old or the new text, never a part."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
