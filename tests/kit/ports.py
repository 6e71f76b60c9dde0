"""Free TCP ports.

Taken below the range from which the system gives ports to clients, so that no outgoing connection can take one between
our look and the router's bind; every process starts at another place, so that parallel test runs hardly ever meet.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading

FIRST, LAST = 12000, 32000
_lock = threading.Lock()
_numbers = itertools.count(os.getpid() * 7919)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on, and that is not given out twice by this process (until it has gone all around)."""
    with _lock:
        for _ in range(LAST - FIRST):
            port = FIRST + next(_numbers) % (LAST - FIRST)
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, port))
                except OSError:
                    continue
                return port
    raise AssertionError("no free port")
