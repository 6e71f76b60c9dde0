"""Starts routers by fork of a process that has imported the router: `python -m tests.kit.fork_server DESCRIPTOR`.

An interpreter that imports the router anew takes most of the CPU time of a start, and tests start thousands of them.

The descriptor is a SOCK_SEQPACKET socket. A request is JSON (`arguments` of the router, `environment`, `folder` to
run in) and two descriptors: the log, and the write end of a pipe. The answer is the process id of the router and its
pidfd. When the router has ended, its exit code follows in the pipe, as `subprocess` gives it. The server ends with the
other end of the socket, and its routers end with it.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
from typing import Any

import waymesh_router.runtime
from waymesh_router.runtime.main import main

MESSAGE_BYTES = 1 << 20
_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class ForkServer:
    """The server. `serve` returns in each router that it starts, too."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._running: dict[int, tuple[int, int]] = {}
        """Process id and pipe of each router, by its pidfd."""

    def serve(self) -> list[str] | None:
        """None when the peer has gone; in a started router its arguments."""
        poll = select.poll()
        poll.register(self._peer, select.POLLIN)
        while True:
            for ready, _ in poll.poll():
                if ready != self._peer.fileno():
                    poll.unregister(ready)
                    self._report(ready)
                    continue
                data, descriptors, _, _ = socket.recv_fds(self._peer, MESSAGE_BYTES, 2)
                if not data:
                    return None
                request = json.loads(data)
                pid = self._fork(*descriptors)
                if not pid:
                    _become(request, descriptors[0])
                    return list(request["arguments"])
                poll.register(self._answer(pid, *descriptors), select.POLLIN)

    def _fork(self, log: int, pipe: int) -> int:
        """As os.fork; in the router nothing of the server stays open."""
        server = os.getpid()
        pid = os.fork()
        if not pid:
            _prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:  # it ended before it was asked to tell its end
                os._exit(1)
            self._peer.close()
            for descriptor in (pipe, *self._running, *(pipe for _, pipe in self._running.values())):
                os.close(descriptor)
        return pid

    def _answer(self, pid: int, log: int, pipe: int) -> int:
        """Returns the pidfd."""
        os.close(log)
        pidfd = os.pidfd_open(pid)
        self._running[pidfd] = pid, pipe
        with contextlib.suppress(OSError):  # the peer has gone: the next look at it tells
            socket.send_fds(self._peer, [array.array("q", [pid]).tobytes()], [pidfd])
        return pidfd

    def _report(self, pidfd: int) -> None:
        pid, pipe = self._running.pop(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):  # nobody wants to know it
            os.write(pipe, array.array("q", [code]).tobytes())
        os.close(pipe)
        os.close(pidfd)


def _become(request: dict[str, Any], log: int) -> None:
    """Make this process what a program finds at its start."""
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])


def import_all() -> None:
    """Import what routers import when they need it, too: each of them would do so anew."""
    for module in pkgutil.walk_packages(waymesh_router.__path__, "waymesh_router."):
        importlib.import_module(module.name)


def run(descriptor: int) -> int:
    """The exit code: of the server, or of a router that it has become."""
    import_all()
    gc.collect()
    gc.freeze()  # a collection in a router would copy the pages of all these objects
    arguments = ForkServer(socket.socket(fileno=descriptor)).serve()
    if arguments is None:
        return 0
    sys.argv[1:] = arguments
    return main()


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1])))
