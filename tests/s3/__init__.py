"""A local S3 server (moto) that can be made to fail.

It has a Python environment of its own, in the cache outside the checkout: what it needs does not go together with ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from minio import Minio

from tests.kit.bound import bound
from tests.kit.built import cached, call
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until

SOURCES = Path(__file__).parent / "moto_server"
CONTROL = "/_control"
START_S = 60.0
KEY, SECRET = "test-key", "test-secret"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
"""For programs that go there."""


class S3Server:
    """The server at `url`, with one bucket."""

    bucket = "telemetry"

    def __init__(self, host: str, port: int) -> None:
        self.url = f"http://{host}:{port}"
        self.client = Minio(
            endpoint=f"{host}:{port}", access_key=KEY, secret_key=SECRET, secure=False, region="us-east-1"
        )

    def refuse(self, status: int, count: int = 1 << 30, method: str = "PUT") -> None:
        """Answer the next requests of objects by that method with that status; 0: with none."""
        self._control({"status": status, "count": count, "method": method})

    @property
    def unspent(self) -> int:
        """How many of the refusals are left."""
        return int(self._control({})["left"])

    def hold(self, after: int) -> None:
        """Store so many PUTs of objects from now on, but keep the answer to the last of them."""
        self._control({"hold": after})

    @property
    def puts(self) -> list[str]:
        """The keys that were stored, in the order of the PUTs, each time."""
        return [str(key) for key in self._control({})["puts"]]

    def objects(self) -> dict[str, bytes]:
        """What is there, by key."""
        found = {}
        for item in self.client.list_objects(self.bucket, recursive=True):
            assert item.object_name is not None
            answer = self.client.get_object(self.bucket, item.object_name)
            found[item.object_name] = answer.read()
            answer.close()
            answer.release_conn()
        return found

    def empty(self) -> None:
        """As it was at first."""
        self._control({"reset": True})
        for item in self.client.list_objects(self.bucket, recursive=True):
            assert item.object_name is not None
            self.client.remove_object(self.bucket, item.object_name)

    def _control(self, wish: dict[str, Any]) -> dict[str, Any]:
        request = Request(self.url + CONTROL, json.dumps(wish).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextmanager
def running(folder: Path, host: str = "127.0.0.1") -> Iterator[S3Server]:
    """A server at that address of this machine, which ends with the block; its log goes to `folder`."""
    python = cached(SOURCES, _build) / "venv/bin/python"
    port = free_port()
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            bound([str(python), "-B", str(SOURCES / "serve.py"), host, str(port)]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            server = S3Server(host, port)
            wait_until(lambda: _answers(server, process), START_S, lambda: (folder / "s3.log").read_text()[-3000:])
            server.client.make_bucket(server.bucket)
            yield server
        finally:
            process.kill()
            process.wait()


def _answers(server: S3Server, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the S3 server ended at once"
    try:
        return server.puts == []
    except OSError:
        return False


def _build(folder: Path) -> None:
    call([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    install = ["-m", "pip", "--disable-pip-version-check", "-q", "install", "-r", str(SOURCES / "requirements.txt")]
    call([str(folder / "venv/bin/python"), *install], folder)
