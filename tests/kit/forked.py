"""Routers that a fork server starts (`kit/fork_server.py`), one server for each test process."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tests.kit.fork_server import MESSAGE_BYTES

ROOT = Path(__file__).parents[2]


class Forked:
    """A started router, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self, pid: int, pidfd: int, pipe: int) -> None:
        """`pipe`: where its exit code comes from."""
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._pipe = pipe
        self._waiting = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended: the exit code. Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"router {self.pid}", timeout or 0)
        return code

    def terminate(self) -> None:
        """SIGTERM, if it runs."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                signal.pidfd_send_signal(self._pidfd, number)

    def _look(self, timeout: float | None) -> int | None:
        with self._waiting:
            if self.returncode is None:
                poll = select.poll()
                poll.register(self._pipe, select.POLLIN)
                if poll.poll(None if timeout is None else timeout * 1000):
                    told = array.array("q", os.read(self._pipe, 8))
                    self.returncode = told[0] if told else -signal.SIGKILL  # the server has ended, and it with that
                    os.close(self._pipe)
                    os.close(self._pidfd)
            return self.returncode


class ForkServer:
    """A fork server, which is started by exec when it is needed. It ends with this object or process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        """The server; None before the first start of a router."""

    def start(self, arguments: Sequence[str], log: BinaryIO) -> Forked:
        """Start a router with these arguments, and the environment and the folder of this process; its output goes to
        the file."""
        request = {"arguments": list(arguments), "environment": dict(os.environ), "folder": os.getcwd()}
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                self._launch()
            return self._ask(json.dumps(request).encode(), log)

    def end(self) -> None:
        """End it and its routers."""
        if self._socket is not None and self.process is not None:
            self._socket.close()
            self.process.wait()

    def _launch(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        with other:
            # In a session of its own, so that Ctrl-C does not end routers before their tests do. Without a terminal as
            # its output, which Python would buffer otherwise than that of a router, a file.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.kit.fork_server", str(other.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )

    def _ask(self, request: bytes, log: BinaryIO) -> Forked:
        assert self._socket is not None
        reader, writer = os.pipe()
        try:
            socket.send_fds(self._socket, [request], [log.fileno(), writer])
            data, descriptors, _, _ = socket.recv_fds(self._socket, array.array("q").itemsize, 1)
            if not data:
                raise EOFError("the fork server has ended")
        except (OSError, EOFError):
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return Forked(array.array("q", data)[0], descriptors[0], reader)


start_forked = ForkServer().start
"""Start a router by the server of this process."""
