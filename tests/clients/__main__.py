"""`python -m tests.clients [NAME …]`: how soon clients are back after their connection ended in one way or another.

The router asks for no heartbeats, which would make a client notice in the end. Prints a Markdown table: seconds from
the end of a connection until the client's links are attached again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.clients.front import WAYS, Front, Passage
from tests.clients.programs import PROGRAMS
from tests.kit.bound import bound
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until

QUIET_S = 0.5
START_S = 60.0
PATIENCE_S = 20.0
ADDRESS = b"orders"


def attached(passage: Passage) -> bool:
    """Whether both links of the client were asked for."""
    return passage.heard.count(ADDRESS) >= 2


def measure(command: list[str], last: bytes | None, port: int, log: Path) -> str:
    """Seconds until the client was back, as text."""
    front = Front(lambda: port)
    with log.open("a") as output:
        process = subprocess.Popen(bound([*command, front.url]), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_until(lambda: front.passages and attached(front.passages[-1]), START_S, "first attach")
        first = front.passages[-1]
        wait_until(lambda: time.monotonic() - first.last_bytes > QUIET_S, START_S, "quiet")
        known = len(front.passages)
        began = time.monotonic()
        first.end(last)
        while time.monotonic() - began < PATIENCE_S:
            if any(attached(passage) for passage in front.passages[known:]):
                return f"{time.monotonic() - began:.2f}"
            if process.poll() is not None:
                return "ends"
            time.sleep(0.005)
        return "never"
    finally:
        front.close()
        process.kill()
        process.wait()


def main() -> int:
    """Measure all, or those that are named."""
    names = sys.argv[1:] or list(PROGRAMS)
    print("| client | " + " | ".join(WAYS) + " |")
    print("|---|" + "---|" * len(WAYS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config = section("router", id="A") + section("listener", host="127.0.0.1", port=port, idleTimeoutSeconds=0)
        router = RouterProcess(Path(folder), "A", config, [port]).start()
        try:
            for name in names:
                command = PROGRAMS[name]()
                log = Path(folder, "client.log")
                found = [measure(command, last, port, log) for last in WAYS.values()]
                print(f"| {name} | " + " | ".join(found) + " |", flush=True)
        finally:
            router.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
