"""The packet relay, in a network namespace of its own, and the clock of a process, which jumps."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.apart import NAMESPACES
from tests.chaos.clocks import Clock

pytestmark = [pytest.mark.engine_independent, pytest.mark.chaos]

PACKETS = """
import socket, subprocess, threading
from tests.chaos.packets import PacketRelay, Way, host
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
relay = PacketRelay(1)
door = socket.create_server(("0.0.0.0", 7000))
client = socket.create_connection((host(2), 7000))
server, (address, _) = door.accept()
assert address == host(2)
relay.ways[2] = Way(0.001, 0.005, 0.05)
data = bytes(range(256)) * 1000
threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR))).start()
got = bytearray()
while part := server.recv(65536):
    got += part
assert got == data
assert relay.lost > 0
other = relay.ways[3] = Way(loss=1.0)
relay.ways[2] = Way()
client = socket.create_connection((host(2), 7000))
relay.close()
print("passed")
"""


def test_packets_are_late_lost_and_out_of_order_and_all_bytes_arrive() -> None:
    done = subprocess.run(
        [*NAMESPACES, sys.executable, "-c", PACKETS],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("passed\n", "")


def test_the_wall_clock_of_a_process_jumps_and_its_monotonic_clock_does_not(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    program = "import time\nwhile input(): print(time.time(), time.monotonic(), flush=True)"
    words = [*clock.within(), sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for offset in (0.0, -86400.0, 3600.5):
            clock.set(offset)
            print("now", file=process.stdin, flush=True)
            wall, monotonic = map(float, process.stdout.readline().split())
            assert wall - time.time() == pytest.approx(offset, abs=60)
            assert 0 <= time.monotonic() - monotonic < 60
        process.kill()
