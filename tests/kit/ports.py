"""Free TCP ports.

Taken below the range from which the system gives ports to clients, so that no outgoing connection can take one between
our look and the router's bind. A lock on a byte for each port keeps parallel test processes from giving out the same
one: starting each at another place alone does not, because once two meet they go on side by side.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

FIRST, LAST = 12000, 32000
_lock = threading.Lock()
_numbers = itertools.count(os.getpid() * 7919)


@functools.cache
def _claims() -> BinaryIO:
    """The file whose byte N is locked by the process that was given port N; its end lets go of all."""
    return Path(tempfile.gettempdir(), f"waymesh-test-ports-{os.getuid()}").open("wb")


def _claimed(port: int) -> bool:
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on, given to no other living process and to this one not before it has gone around."""
    with _lock:
        for _ in range(LAST - FIRST):
            port = FIRST + next(_numbers) % (LAST - FIRST)
            if not _claimed(port):
                continue
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, port))
                except OSError:
                    continue
                return port
    raise AssertionError("no free port")
