"""`waymesh demo` shows a mesh at work: its steps, their output, and their checks."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from waymesh_client.management import ManagementClient
from waymesh_operator.errors import WaymeshError
from waymesh_operator.places.local.manifest_files import ManifestFiles
from waymesh_operator.places.local.mesh import Environment, LocalMesh
from waymesh_operator.places.local.processes import SystemLauncher
from waymesh_operator.places.local.status import Event
from waymesh_operator.places.local.supervisor import Supervisor, keep_up
from waymesh_operator.resources.crds import data_folder
from waymesh_operator.routers.management import connect, read_addresses
from waymesh_operator.routers.observed import RouterState

from .demo_traffic import Account, Order, Traffic
from .tables import address_table, event_text, link_table, router_table
from .terminal import make_console

MANIFEST = "mesh.yaml"
ADDRESS = "orders"
VICTIM = "mesh-1"
READY_S = 60.0
FLOW_RATE = 400.0
BEFORE_KILL_S, AFTER_RETURN_S = 0.7, 0.5


class DemoFailed(WaymeshError):
    """A step of the demo failed."""


def run_demo(messages: int, no_color: bool) -> int:
    """Run the demo with `messages` messages of each kind; returns the exit code."""
    console = make_console(no_color)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="waymesh-demo-") as folder:
        background = BackgroundMesh(Path(folder), console)
        try:  # a signal may end any of these lines; `with` would not stop the thread if it came while it starts
            background.start()
            accounts = DemoSteps(console, background, messages).run()
        finally:
            background.stop()
            background.close()
    lost = sum(account.lost for account in accounts)
    duplicated = sum(account.duplicated for account in accounts)
    sent = sum(account.sent for account in accounts)
    good = not lost and not duplicated
    console.print(
        f"\nsent {sent:,} messages across the mesh: lost {lost}, duplicated {duplicated}; "
        f"{time.monotonic() - began:.1f} s in all",
        style="bold green" if good else "bold red",
    )
    return 0 if good else 1


def _end(number: int, frame: FrameType | None) -> None:
    """End the demo by a signal as by Ctrl-C: its routers are stopped, its folder is deleted."""
    raise SystemExit(128 + number)


class BackgroundMesh:
    """Runs `waymesh up` in the background: its loop in a thread, with a temporary state folder."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._console = console
        self._wake = SimpleQueue[None]()
        self._stop = threading.Event()
        world = Environment(SystemLauncher(), connect, self._print_event)
        files = ManifestFiles([data_folder("examples") / MANIFEST])
        self._supervisor = Supervisor(files, folder, world, any_port=True)
        self._thread = threading.Thread(target=self._run, name="waymesh-up")
        self._error: Exception | None = None
        self._left = False

    def start(self) -> None:
        """Start the routers; returns at once."""
        self._supervisor.load()
        self._thread.start()

    def stop(self) -> None:
        """Drain and stop all routers, if they were started; returns when they have ended."""
        self._stop.set()
        self._wake.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """Release all resources; the routers must have ended."""
        self._supervisor.close()

    @property
    def mesh(self) -> LocalMesh:
        """The mesh of the example."""
        return self._supervisor.meshes[0]

    def url(self, ordinal: int) -> str:
        """The URL for clients of a router."""
        return next(iter(self.mesh.urls[f"mesh-{ordinal}"].values()))

    def wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises DemoFailed after a time limit."""
        deadline = time.monotonic() + READY_S
        while not ready():
            if self._error:
                raise DemoFailed(f"{what}: {self._error}") from self._error
            if time.monotonic() > deadline:
                raise DemoFailed(f"{what}: not within {READY_S:g} s")
            time.sleep(0.02)

    def all_ready(self) -> bool:
        """Whether all routers respond and see each other."""
        return self._supervisor.converged

    def kill(self, name: str) -> int:
        """Kill a router without warning; returns its pid."""
        process = self.mesh.routers[name].process
        process.send(signal.SIGKILL)
        self._wake.put(None)
        return process.pid

    def back(self, name: str, pid: int) -> bool:
        """Whether the router runs again, as a new process."""
        router = self.mesh.routers.get(name)
        return router is not None and router.state is RouterState.RUNNING and router.process.pid != pid

    def _run(self) -> None:
        try:
            keep_up(self._supervisor, self._wake, self._turn_ended)
        except WaymeshError as error:
            self._error = error

    def _turn_ended(self) -> bool:
        if self._stop.is_set() and not self._left:
            self._left = True
            self._supervisor.leave()
        return self._left and self._supervisor.gone

    def _print_event(self, event: Event) -> None:
        """Print the event. If that fails, the demo ends, but this thread goes on: it stops the routers."""
        try:
            self._console.print("  ", event_text(event, time.strftime("%H:%M:%S")), sep="", soft_wrap=True)
        except SystemExit:  # by rich, for a closed pipe
            self._error = DemoFailed("the output is closed")
        except OSError as error:
            self._error = error


class DemoSteps:
    """The steps of the demo."""

    def __init__(self, console: Console, background: BackgroundMesh, messages: int) -> None:
        self._console = console
        self._background = background
        self._messages = messages

    def run(self) -> list[Account]:
        """Run all steps; returns the accounts of all messages."""
        self._head("Three interior routers, as examples/mesh.yaml asks for")
        self._background.wait("the mesh comes up", self._background.all_ready)
        self._console.print(router_table(self._background.mesh, self._console.width))
        accounts = []
        for kind, presettled in (("unsettled", False), ("pre-settled", True)):
            self._head(f"{self._messages:,} {kind} messages: sender on mesh-0, receiver on mesh-2")
            accounts.append(self._send(presettled))
        accounts.append(self._lose_a_router())
        self._head("Stopping: each router drains, the highest ordinal first")
        self._background.stop()
        return accounts

    def _order(self, count: int, presettled: bool = False, rate: float = 0.0) -> Order:
        return Order(self._background.url(0), self._background.url(2), ADDRESS, count, presettled, rate)

    def _send(self, presettled: bool) -> Account:
        traffic = Traffic(self._order(self._messages, presettled))
        with self._in_thread(traffic):
            self._show_tables_when(lambda: traffic.account.received > self._messages // 2, traffic, not presettled)
        return self._report(traffic.account)

    def _show_tables_when(self, moment: Callable[[], bool], traffic: Traffic, tables: bool) -> None:
        """Show the progress and once, while messages are transferred, management data."""
        columns = (TextColumn("  received"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task("", total=self._messages)
            while not traffic.done.wait(0.05):
                progress.update(task, completed=traffic.account.received)
                if tables and moment():
                    tables = False
                    self._tables()
            progress.update(task, completed=traffic.account.received)

    def _tables(self) -> None:
        names = [f"mesh-{ordinal}" for ordinal in range(3)]
        with ManagementClient(self._background.mesh.folder.management(names[0])) as client:
            clients = {name: client.at(name) for name in names}
            self._console.print("  management data through mesh-0:")
            self._console.print(address_table(self._background.mesh.ref, read_addresses(clients.values())))
            self._console.print(link_table({name: client.query("router.link") for name, client in clients.items()}))

    def _lose_a_router(self) -> Account:
        self._head(f"{VICTIM} is killed while messages flow from mesh-0 to mesh-2")
        traffic = Traffic(self._order(1_000_000, rate=FLOW_RATE))
        with self._in_thread(traffic):
            self._background.wait("messages flow", lambda: traffic.account.received > FLOW_RATE * BEFORE_KILL_S)
            pid = self._background.kill(VICTIM)
            before = traffic.account.received
            self._console.print(f"  kill -9 {pid}", style="bold")
            self._background.wait(f"{VICTIM} comes back", lambda: self._background.back(VICTIM, pid))
            self._background.wait("all routers are connected again", self._background.all_ready)
            time.sleep(AFTER_RETURN_S)
            during = traffic.account.received - before
            traffic.enough.set()
        if not during:
            raise DemoFailed("no message came through while the router was away")
        self._console.print(
            f"  {during:,} messages came through meanwhile; "
            f"the longest time without one was {traffic.account.longest_gap_s * 1000:.0f} ms"
        )
        account = self._report(traffic.account)
        self._console.print(router_table(self._background.mesh, self._console.width))
        return account

    @contextmanager
    def _in_thread(self, traffic: Traffic) -> Iterator[None]:
        """Transfer messages in a thread until the order is complete."""
        thread = threading.Thread(target=traffic.run, name="waymesh-demo-traffic", daemon=True)
        thread.start()
        try:
            yield
        finally:
            traffic.enough.set()
            thread.join()

    def _report(self, account: Account) -> Account:
        if account.error:
            self._console.print(f"  {account.error}", style="red")
        outcome = f", {account.settled:,} accepted" if account.settled else ""
        again = f", {account.again:,} sent again" if account.again else ""
        self._console.print(
            f"  sent {account.sent:,}, received {account.received:,}{outcome}{again}, "
            f"lost {account.lost}, duplicated {account.duplicated} ({account.rate:,.0f} messages/s)"
        )
        return account

    def _head(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold")
