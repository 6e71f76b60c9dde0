"""Free TCP ports.

Taken below the range from which the system gives ports to clients, so that no outgoing connection can take one between
our look and the router's bind, and below those that `waymesh up` chooses from. A lock on a byte for each port keeps
parallel test processes from giving out the same one: starting each at another place alone does not, because once two
meet they go on side by side.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import socket
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

FIRST, LAST = 12000, 22000
MOST = 2000
"""Ports that a process keeps for itself. It gives out the first ones again then: those of tests that are over."""
_lock = threading.Lock()
_numbers = itertools.count(os.getpid() * 7919)
_own: deque[int] = deque()


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
    """A port that nobody listens on, given to no other living process and to this one not within the last ones."""
    with _lock:
        for _ in range(LAST - FIRST):
            if len(_own) < MOST:
                port = FIRST + next(_numbers) % (LAST - FIRST)
                if port in _own or not _claimed(port):
                    continue
            else:
                port = _own.popleft()
            _own.append(port)
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, port))
                except OSError:
                    continue
                return port
    raise AssertionError("no free port")
