"""`waymesh up`: the loop of local mode with a live table, or with plain lines if stdout is not a terminal. And
`waymesh plan` for this machine: what `waymesh up` would do, as a table or as JSON."""

from __future__ import annotations

import errno
import json
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from waymesh_operator.places.local.manifest_files import ManifestFiles
from waymesh_operator.places.local.mesh import Environment
from waymesh_operator.places.local.processes import WITHOUT_CONSOLE, SystemLauncher, has_console
from waymesh_operator.places.local.state import default_root
from waymesh_operator.places.local.status import BAD, NOTE, Event, Sink
from waymesh_operator.places.local.supervisor import MeshPlan, Supervisor, keep_up
from waymesh_operator.routers.management import connect
from waymesh_schema.text import one_line

from .options import EXIT_CHANGES
from .tables import TableData, action_row, all_tables, event_text, plan_table, resource_table, router_table
from .terminal import make_console

EVENTS_SHOWN = 12
REFRESH_S = 0.5


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of the command."""

    files: list[Path]
    state_dir: Path | None = None
    free_ports: bool = False
    once: bool = False
    timeout_s: float = 0
    no_color: bool = False


def run_up(options: UpOptions) -> int:
    """Run until stopped and return the exit code. Raises WaymeshError before anything was started."""
    screen = Screen(make_console(options.no_color))
    files = ManifestFiles(options.files)
    root = options.state_dir or default_root()
    supervisor = Supervisor(
        files, root, _environment(screen.tell), any_port=options.free_ports
    )
    supervisor.load()
    try:
        supervisor.adopt(time.monotonic())
        return Up(supervisor, screen, options).run()
    finally:
        supervisor.close()


def _environment(events: Sink) -> Environment:
    return Environment(SystemLauncher(), connect, events, console=has_console())


class Screen:
    """Output of events and tables: in a terminal a table that is updated in place, else a line for each event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._events: deque[Text] = deque(maxlen=EVENTS_SHOWN)
        self._live: Live | None = None
        self._shown_at = 0.0
        self.write_failed = False
        """Whether output could not be written."""
        self.reader_gone = False
        """Whether nobody reads it any more: the pipe is closed, or the terminal is gone."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Context manager: show the table until it exits."""
        if not self._console.is_terminal:
            yield
            return
        self._live = live = Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
        with self._writing():
            live.start()
        try:
            yield
        finally:
            self._live = None
            with self._writing():
                live.stop()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Context manager: output that fails must not end the command, which has routers to stop."""
        try:
            yield
        except SystemExit:  # by rich, for a closed pipe; it writes nothing from then on
            self.write_failed = self.reader_gone = True
        except OSError as error:
            self.write_failed = True
            self.reader_gone = error.errno == errno.EIO  # not if the disk is full

    def tell(self, event: Event) -> None:
        """Show one event."""
        line = event_text(event, time.strftime("%H:%M:%S"))
        if self._console.is_terminal:
            self._events.append(line)
            self._shown_at = 0.0
        else:
            with self._writing():
                self._console.print(line, soft_wrap=True)

    def show(self, supervisor: Supervisor, now: float) -> None:
        """Update the table, at a limited rate."""
        if self._live is not None and now - self._shown_at >= REFRESH_S:
            self._shown_at = now
            shown = TableData(supervisor.addresses(), supervisor.resources)
            table = all_tables(supervisor.meshes, shown, self._events, self._console.width)
            with self._writing():
                self._live.update(table, refresh=True)

    def ready(self, supervisor: Supervisor) -> None:
        """Called when the meshes match the manifests: without a terminal, print the table now."""
        if not supervisor.meshes:
            self.tell(Event(NOTE, "no Router in the manifests: nothing is started until one is added"))
        elif not any(mesh.console_url for mesh in supervisor.meshes):
            self.tell(Event(NOTE, f"no console: {WITHOUT_CONSOLE}"))
        if not self._console.is_terminal:
            with self._writing():
                for mesh in supervisor.meshes:
                    self._console.print(router_table(mesh))
                    if supervisor.resources[mesh.ref]:
                        self._console.print(resource_table(mesh.ref, supervisor.resources[mesh.ref]))


class Up:
    """One run of the command."""

    def __init__(self, supervisor: Supervisor, screen: Screen, options: UpOptions) -> None:
        self._supervisor = supervisor
        self._screen = screen
        self._options = options
        self._wake = SimpleQueue[None]()
        self._stop_requests = 0
        self._handled_requests = 0
        self._ready = False
        self._failed = False
        self._began = time.monotonic()

    def run(self) -> int:
        """Run until everything has been stopped."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
            numbers.append(signal.SIGHUP)
        previous = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            with self._screen.opened():
                keep_up(self._supervisor, self._wake, self._turn_ended)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        return 1 if self._failed or self._screen.write_failed else 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop_requests += 1
        self._wake.put(None)

    def _turn_ended(self) -> bool:
        now = time.monotonic()
        if self._screen.reader_gone and not self._handled_requests:
            self._stop_requests += 1
        if self._stop_requests > self._handled_requests:
            self._stop()
        if self._supervisor.settled and not self._handled_requests and not self._ready:
            self._on_ready()
        if self._options.timeout_s and not self._ready and now - self._began > self._options.timeout_s:
            self._on_timeout()
        self._screen.show(self._supervisor, now)
        return bool(self._handled_requests) and self._supervisor.gone

    def _on_ready(self) -> None:
        self._ready = True
        self._screen.ready(self._supervisor)
        if self._options.once:
            for view in self._supervisor.unresolved:
                self._failed = True
                self._screen.tell(Event(BAD, f"{view.subject}: {view.state}: {view.error}"))
            self._stop_requests += 1
            self._stop()

    def _on_timeout(self) -> None:
        if not self._failed:
            self._failed = True
            self._screen.tell(Event(BAD, f"not ready within {self._options.timeout_s:g} s"))
            self._stop_requests += 1
            self._stop()

    def _stop(self) -> None:
        """On the first request, drain and stop; on further ones, stop without waiting."""
        if self._handled_requests == 0:
            text = "stopping all routers, the highest first; press Ctrl-C again to stop without waiting"
            self._screen.tell(Event(NOTE, text))
            self._supervisor.leave()
        if self._stop_requests > 1:
            self._supervisor.hurry()
        self._handled_requests = self._stop_requests


@dataclass(frozen=True, slots=True)
class LocalPlanOptions:
    """The options of `waymesh plan`."""

    files: list[Path]
    state_dir: Path | None = None
    free_ports: bool = False
    as_json: bool = False
    detailed: bool = False
    no_color: bool = False
    everything: bool = False


def run_local_plan(options: LocalPlanOptions) -> int:
    """Print the plan and return the exit code. Raises WaymeshError."""
    world = _environment(lambda event: None)
    root = options.state_dir or default_root()
    supervisor = Supervisor(ManifestFiles(options.files), root, world, any_port=options.free_ports)
    supervisor.load(lock=False)
    now = time.monotonic()
    supervisor.adopt(now)
    plans = supervisor.plans(now)
    supervisor.close()
    if options.as_json:
        rows = [{"mesh": str(ref), **row} for ref, found in plans.items() for row in _rows(found)]
        print(json.dumps(rows, indent=2))
    else:
        console = make_console(options.no_color)
        if not plans:
            console.print("no Router in the manifests: nothing to do")
        for ref, found in plans.items():
            table = plan_table(ref, found.actions, options.everything)
            console.print(table if found.actions else f"{ref}: nothing to do")
            for view in found.unresolved:
                text = one_line(f"{view.subject} will not work: {view.state}: {view.error}")
                console.print(text, style="red", soft_wrap=True)
    return EXIT_CHANGES if options.detailed and any(found.actions for found in plans.values()) else 0


def _rows(found: MeshPlan) -> Iterator[dict[str, Any]]:
    for view in found.unresolved:
        description = f"{view.subject} will not work: {view.error}"
        yield {"action": "Unresolved", "router": "", "reason": view.state, "description": description}
    for action in found.actions:
        yield action_row(action)
