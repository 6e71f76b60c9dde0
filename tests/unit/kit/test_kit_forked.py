"""Routers that are started by fork behave as those started by exec: `kit/forked.py`."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.forked import Forked, ForkServer
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section, standalone
from tests.kit.waiting import wait_until
from tests.unit.kit.test_kit_bound import runs
from waymesh_client.management import ManagementClient

pytestmark = pytest.mark.e2e

WAYS = {"fork": None, "exec": ()}
PARENT = """
import sys
from pathlib import Path
from tests.kit.forked import ForkServer
server = ForkServer()
with Path(sys.argv[1]).open("ab") as log:
    router = server.start(sys.argv[2:], log)
print(server.process.pid, router.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[ForkServer]:
    """A server for this test alone."""
    made = ForkServer()
    yield made
    made.end()


@pytest.fixture
def both(tmp_path: Path) -> list[RouterProcess]:
    """A router to be started by fork and one to be started by exec, otherwise the same."""
    port = free_port()
    text = section("router", id="A", timestampFormat="%z") + section("listener", host="127.0.0.1", port=port)
    made = []
    for name, within in WAYS.items():
        (tmp_path / name).mkdir()
        made.append(RouterProcess(tmp_path / name, "A", text, [port], within))
    return made


def told(router: RouterProcess) -> str:
    """Its log, without the lines about clients and what differs from start to start."""
    lines = [line for line in router.log.splitlines() if "[C" not in line]
    return re.sub(r"\d+\.\d+|pid \d+|:\d{5}", "", "\n".join(lines).replace(str(router.log_path.parent), ""))


def test_both_start_answer_and_stop_alike(both: list[RouterProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is that of the test at the start, even for the C library; so is the folder."""
    monkeypatch.setenv("TZ", "XXX-03:17")
    for router in both:
        monkeypatch.chdir(router.config_path.parent)
        router.arguments = ["-c", "A.conf"]
        router.start()
        with ManagementClient(router.url) as client:
            (row,) = client.query("router", ["id"])
        assert row["id"] == "A"
        assert router.alive()
        assert router.stop() == 0
        assert "+0317" in router.log
    assert told(both[0]) == told(both[1])


def test_both_fail_alike(both: list[RouterProcess]) -> None:
    for router in both:
        router.arguments = ["-c", str(router.config_path), "--nonsense"]
        router.launch()
        wait_until(lambda router=router: not router.alive())  # type: ignore[misc]
        assert router.stop() == 1
        assert "nonsense" in router.log
    assert told(both[0]) == told(both[1])


def start(server: ForkServer, folder: Path, name: str = "A") -> Forked:
    """A router of this server that listens."""
    router = standalone(folder, name)
    with router.log_path.open("ab") as log:
        started = server.start(router.arguments, log)
    wait_until(lambda: "started" in router.log or started.poll() is not None)
    return started


def test_how_it_ends(server: ForkServer, tmp_path: Path) -> None:
    orderly, killed = start(server, tmp_path), start(server, tmp_path, "B")
    assert orderly.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        orderly.wait(0.0)
    orderly.terminate()
    assert orderly.wait() == orderly.wait() == orderly.returncode == 0
    orderly.kill()  # nothing happens
    assert killed.poll() is None
    killed.kill()
    assert killed.wait() == -signal.SIGKILL


def test_routers_of_a_killed_server_end_and_another_one_takes_over(server: ForkServer, tmp_path: Path) -> None:
    first, second = start(server, tmp_path), start(server, tmp_path, "B")
    assert server.process is not None
    server.process.kill()
    assert first.wait() == second.wait() == -signal.SIGKILL
    wait_until(lambda: not runs(first.pid) and not runs(second.pid))
    server.process.wait()
    third = start(server, tmp_path, "C")
    third.terminate()
    assert third.wait() == 0


def test_server_and_routers_end_with_the_test_process(tmp_path: Path) -> None:
    router = standalone(tmp_path)
    line = [sys.executable, "-c", PARENT, str(router.log_path), *router.arguments]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        wait_until(lambda: "started" in router.log)
        assert all(runs(pid) for pid in pids)
        parent.kill()
    wait_until(lambda: not any(runs(pid) for pid in pids))


def opened(pid: int, log: str) -> list[str]:
    """What the descriptors of a process are for, without numbers and the name of its log."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            found.append(re.sub(r"\d+", "", str(link.readlink())).replace(log, ".log"))
    return sorted(found)


def test_a_router_has_no_descriptors_of_the_server(server: ForkServer, tmp_path: Path) -> None:
    """Those of other routers would stay open when their owner has closed them."""
    first, second = start(server, tmp_path), start(server, tmp_path, "B")
    by_exec = standalone(tmp_path, "C", within=()).start()

    def alike() -> bool:
        expected = opened(by_exec.pid, "C.log")
        return opened(first.pid, "A.log") == expected == opened(second.pid, "B.log")

    # A router reads its own memory from /proc now and then, and closes the connection that the kit has tried.
    wait_until(alike, what=lambda: f"{opened(first.pid, 'A.log')} and {opened(by_exec.pid, 'C.log')}")
    by_exec.stop()
