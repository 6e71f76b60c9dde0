"""`waymesh up` from start to end with fakes, and its output."""

from __future__ import annotations

import errno
import io
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.kit.interrupted import run_interrupted
from waymesh_operator.cli.tables import TableData, address_table, all_tables, event_text, link_table, plan_table
from waymesh_operator.cli.up import Screen, Up, UpOptions
from waymesh_operator.places.local.status import GOOD, Event
from waymesh_operator.places.local.supervisor import Supervisor, keep_up
from waymesh_operator.planning.actions import CreateRouter, StopRouter
from waymesh_operator.planning.mesh import DesiredRouter
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.actions import DrainRouter
from waymesh_operator.router_entities.builders import log_entities
from waymesh_operator.router_entities.names import LISTENER, Entity
from waymesh_operator.routers.management import AddressView
from waymesh_schema.loglevels import LOG_MODULES

from .local_fakes import FakeNetwork, FakeRouter, Stage

pytestmark = pytest.mark.engine_independent

MANIFEST = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec: {size: 3, drain: {timeoutSeconds: 60}}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, MANIFEST)
    yield made
    made.supervisor.close()


def up(
    stage: Stage, *, terminal: bool = False, output: io.StringIO | None = None, **options: object
) -> tuple[Up, io.StringIO]:
    """The command over the supervisor of the stage; events go to its screen."""
    output = output or io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=160, height=50, color_system=None)
    screen = Screen(console)
    stage.supervisor.close()
    world = stage.network.world(screen.tell)
    files = stage.supervisor._files
    stage.supervisor = Supervisor(files, stage.folder / "state", world, any_port=True)
    stage.supervisor.load()
    return Up(stage.supervisor, screen, UpOptions([stage.file], **options)), output  # type: ignore[arg-type]


class Watch:
    """Does something as soon as something is so, once, in a thread of its own; nothing after its end."""

    def __init__(self, condition: Callable[[], bool], do: Callable[[], None]) -> None:
        self._over = threading.Event()
        self._condition = condition
        self._do = do
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            if self._condition():
                self._do()
                return

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def harmless_signals() -> Iterator[None]:
    """A signal that arrives when the command has ended does nothing; the tests would end with it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    yield
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)


def test_a_manifest_without_a_router_is_reported(stage: Stage) -> None:
    stage.write("apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {user: alice}\n")
    command, output = up(stage, once=True)
    assert command.run() == 0
    assert "no Router in the manifests: nothing is started until one is added" in output.getvalue()


def test_once_comes_up_shows_the_routers_and_stops_them(stage: Stage) -> None:
    command, output = up(stage, once=True)
    assert command.run() == 0
    text = output.getvalue()
    for expected in (
        "create router mesh-2 ",
        "mesh-0 is up (pid 1000)",
        "mesh is ready: 3 routers, all connected",
        "no console: this installation is without it",
        "Routers of mesh",
        "amqp://127.0.0.1:",
        "2 of 2",
        "mesh-0 stopped",
    ):
        assert expected in text
    assert stage.network.alive() == []


class Broken(io.StringIO):
    """Output that fails after a few writes."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._error = OSError(number, os.strerror(number))
        self._left = 4

    def write(self, text: str) -> int:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return len(text)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_full_disk_under_the_output_stops_no_router(stage: Stage, terminal: bool) -> None:
    command, _ = up(stage, terminal=terminal, output=Broken(errno.ENOSPC), once=True)
    assert command.run() == 1
    assert len(stage.network.routers) == 3  # all were started, and stopped in the end
    assert stage.network.alive() == []


def test_the_routers_stop_when_the_terminal_is_gone(stage: Stage) -> None:
    command, _ = up(stage, terminal=True, output=Broken(errno.EIO))
    assert command.run() == 1
    assert stage.network.alive() == []


BROKER = """
---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: store}
spec:
  routerRef: {name: mesh}
  endpoints: [{host: 127.0.0.1, port: 5772}]
  auth: {mechanism: SCRAM-SHA-256, secretRef: {name: login}}
"""


def test_once_fails_while_a_secret_is_missing(tmp_path: Path) -> None:
    made = Stage(tmp_path, MANIFEST + BROKER)
    command, output = up(made, once=True)
    assert command.run() == 1
    assert "Broker/store: SecretMissing: " in output.getvalue()
    assert made.network.alive() == []


def test_not_ready_in_time_is_a_failure(stage: Stage) -> None:
    command, output = up(stage, timeout_s=0.2)
    stage.network.start = lambda config, log: _silent(stage.network, config)  # type: ignore[method-assign]
    assert command.run() == 1
    assert "not ready within 0.2 s" in output.getvalue()


def _silent(network: FakeNetwork, config: Path) -> FakeRouter:
    router = FakeNetwork.start(network, config, config.with_suffix(".log"))
    router.hangs = True
    return router


@pytest.mark.usefixtures("harmless_signals")
@pytest.mark.parametrize("terminal", [False, True])
def test_a_signal_drains_and_a_second_one_does_not_wait(stage: Stage, terminal: bool) -> None:
    command, output = up(stage, terminal=terminal)
    network = stage.network

    def keep_busy_and_stop() -> None:
        for router in network.alive():
            router.unsettled = 4
        os.kill(os.getpid(), signal.SIGTERM)

    first = Watch(lambda: stage.supervisor.converged, keep_busy_and_stop)
    draining = ("mesh-2", "update", "mesh-2")
    second = Watch(lambda: draining in network.changes, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        assert command.run() == 0
    finally:
        for watch in (first, second):
            watch.end()
    text = output.getvalue()
    assert "stopping all routers, the highest first" in text
    assert "mesh-2 stops with 4 unsettled deliveries" in text
    assert network.alive() == []


def test_a_signal_may_arrive_at_any_moment(stage: Stage) -> None:
    command, _ = up(stage)
    turns = iter(range(5))
    run_interrupted(
        lambda: keep_up(stage.supervisor, command._wake, lambda: next(turns, None) is None),
        lambda: command._on_signal(signal.SIGTERM, None),
    )


def test_the_screen_of_a_terminal(stage: Stage) -> None:
    stage.settle()
    addresses = {Ref("default", "mesh"): (AddressView("orders", "balanced", 1, 2, 3000, 4),)}
    events = deque([event_text(Event(GOOD, "something happened"), "12:00:00")])
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as capture:
        console.print(all_tables(stage.supervisor.meshes, TableData(addresses), events, 160))
    shown = capture.get()
    for expected in ("mesh-0", "running", "mesh-1 mesh-2", "2 of 2", "orders", "3,000", "12:00:00 something happened"):
        assert expected in shown


def test_plan_address_and_link_tables() -> None:
    console = Console(file=io.StringIO(), width=120)
    link = {"linkDir": "in", "owningAddr": "M0orders", "capacity": 250, "deliveryCount": 12345}
    with console.capture() as capture:
        console.print(plan_table(Ref("team", "m"), [DrainRouter("m-2", 5), StopRouter("m-2")]))
        console.print(address_table(Ref("default", "m"), []))
        console.print(link_table({"m-0": [link]}))
    shown = capture.get()
    for expected in ("Plan for team/m", "drain router m-2 (at most 5 s)", "stop router m-2", "orders", "12,345"):
        assert expected in shown


def test_a_plan_counts_log_modules_at_their_default_and_shows_all_when_asked() -> None:
    entities = (*log_entities("info", {"POLICY": "trace"}), Entity(LISTENER, "amqp", {"host": "", "port": 5672}))
    router = DesiredRouter(Ref("team", "m"), "m-0", 0, "interior", (), (), (), entities)
    ref, steps = Ref("team", "m"), [CreateRouter(router, "")]
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as capture:
        console.print(plan_table(ref, steps))
    shown = capture.get()
    at_default = len(LOG_MODULES) - 2
    for expected in ("log DEFAULT", "log POLICY", "amqp", f"and {at_default} log modules at their default (--all"):
        assert expected in shown
    assert sum(f" log {module} " in shown for module in LOG_MODULES) == 2
    with console.capture() as capture:
        console.print(plan_table(ref, steps, everything=True))
    shown = capture.get()
    assert all(f" log {module} " in shown for module in LOG_MODULES)


def test_names_of_clients_and_errors_of_brokers_are_shown_escaped() -> None:
    """As markup of rich, `[/red]` ended the command; a terminal would execute control sequences."""
    console = Console(file=io.StringIO(), width=160)
    odd = "[/red]:smile:\x1b]0;title\x07\nx"
    with console.capture() as capture:
        console.print(address_table(Ref("default", "m"), [AddressView(odd, "balanced", 1, 2, 3, 4)]))
        console.print(link_table({"m-0": [{"linkDir": "in", "owningAddr": "M0" + odd}]}))
        console.print(event_text(Event(GOOD, odd), "12:00:00"))
    assert capture.get().count("[/red]:smile:\\x1b]0;title\\x07\\nx") == 3
