"""`waymesh console` for a Router of the test cluster, and what its page asks it for."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import aiohttp

from tests.cluster.namespace import Namespace

WAIT_S = 120.0
HEADER = b"AMQP\x03\x01\x00\x00"
"""With which SASL begins; the answer of the router begins with it, too."""


class ConsolePage:
    """Asks as the page does that was opened at the printed address."""

    def __init__(self, printed: str) -> None:
        url = urlsplit(printed)
        self._place = f"http://{url.netloc}"
        self._token = self._read("/code", url.fragment.removeprefix("code=").encode()).decode()

    def _read(self, path: str, body: bytes | None = None, token: str = "") -> bytes:
        fields = {"Origin": self._place} | ({"Authorization": f"Bearer {token}"} if token else {})
        method = "GET" if body is None else "POST"
        with urlopen(Request(self._place + path, body, fields, method=method), timeout=WAIT_S) as answer:
            content: bytes = answer.read()
        return content

    def report(self) -> dict[str, Any]:
        """The last report in short, and the path of its page; or the reason why there is none."""
        found: dict[str, Any] = json.loads(self._read("/report", b"", self._token))
        return found

    def frame(self, path: str) -> str:
        """The page of the report."""
        return self._read(path).decode()

    def greeted(self) -> bytes:
        """What the router answers to the page's first bytes."""
        return asyncio.run(self._greeted())

    async def _greeted(self) -> bytes:
        protocols = ["amqp", f"waymesh.{self._token}"]
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{self._place}/", protocols=protocols, origin=self._place) as socket,
        ):
            await socket.send_bytes(HEADER)
            return await socket.receive_bytes(timeout=WAIT_S)


@contextmanager
def console(namespace: Namespace, router: str) -> Iterator[ConsolePage]:
    """The page of the command, which runs meanwhile."""
    argv = [sys.executable, "-m", "waymesh_operator", "console", router, "-n", namespace.name]
    process = subprocess.Popen(
        argv, env={**os.environ, "KUBECONFIG": str(namespace.cluster.kubeconfig)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield ConsolePage(process.stdout.readline().strip().rpartition(" ")[2])
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)
