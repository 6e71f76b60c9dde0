"""A roll of three routers under load, with clients of python-qpid-proton whose settings are all the defaults.

A forwarder plays the Service: it sends new connections to routers that are not draining. The routers ask for no
heartbeats, so that a client that does not come back by itself never does.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.front import Front
from tests.kit.bound import bound
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess, command
from tests.kit.waiting import wait_until

PROGRAM = Path(__file__).parent.parent / "e2e_cluster" / "traffic.py"
ADDRESSES = ("one", "two", "three")
END_S = 120.0


class Service:
    """A front before the routers that are ready."""

    def __init__(self, routers: list[RouterProcess]) -> None:
        self.ready = list(routers)
        self.front = Front(self._pick)

    def _pick(self) -> int:
        self.ready.append(self.ready.pop(0))
        return self.ready[-1].port


class Program:
    """The client that also runs in pods of cluster tests."""

    def __init__(self, what: str, address: str, url: str, *words: str) -> None:
        line = bound([sys.executable, str(PROGRAM), what, "--url", url, "--address", address, *words])
        self._process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)

    def end(self) -> dict[str, Any]:
        """Tell it to come to an end; its report."""
        self._process.send_signal(signal.SIGTERM)
        output, _ = self._process.communicate(timeout=END_S)
        report: dict[str, Any] = json.loads(output)
        return report

    def kill(self) -> None:
        """End it, if it still runs."""
        self._process.kill()
        self._process.wait()


Start = Callable[..., Program]


@pytest.fixture
def start() -> Iterator[Start]:
    programs: list[Program] = []

    def run(*words: str) -> Program:
        programs.append(Program(*words))
        return programs[-1]

    yield run
    for program in programs:
        program.kill()


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Mesh]:
    """Three routers, each with each."""
    made = Mesh(tmp_path, 3, "full")
    for router in made.routers:
        text = router.config_path.read_text(encoding="utf-8")
        router.config_path.write_text(text.replace("listener {", "listener {\nidleTimeoutSeconds: 0"), encoding="utf-8")
    yield made.start()
    made.stop()


def test_default_clients_come_back_at_once_and_nothing_is_lost(mesh: Mesh, start: Start) -> None:
    service = Service(mesh.routers)
    receivers = {name: start("receive", name, service.front.url) for name in ADDRESSES}
    senders = {name: start("send", name, service.front.url, "--rate", "50", "--at-least", "100") for name in ADDRESSES}
    wait_until(lambda: len(service.front.passages) >= len(receivers) + len(senders), END_S)
    for router in reversed(mesh.routers):
        service.ready.remove(router)
        subprocess.run([*command(), "--drain", "--url", router.url], check=True, timeout=120)
        assert router.stop() == 0
        router.start()
        mesh.wait_converged()
        service.ready.append(router)
    sent = {name: sender.end() for name, sender in senders.items()}
    received = {name: receiver.end() for name, receiver in receivers.items()}
    service.front.close()
    for name in ADDRESSES:
        print(name, sent[name], received[name])
        assert sent[name]["left"] == 0
        assert received[name]["ranges"] == [[0, sent[name]["accepted"] - 1]]
    moves = [report["connections"] for report in (*sent.values(), *received.values())]
    assert sum(moves) > len(moves), "some had to come back"
