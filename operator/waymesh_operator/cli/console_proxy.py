"""What `waymesh console` serves: the console of a mesh in a cluster, with the right of the caller to forward ports.

The page comes from the files of this installation. Its WebSocket is joined to the port for management in a pod, which
only the API server leads to: so what is here must be for the caller alone. A page gets a token for the one-time code
in the printed address; a browser keeps the fragment of an address to itself. Decision 0080.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web

from waymesh_operator.errors import WaymeshError

from .console_report import FRAME_POLICY, PAGE, Report, summary

HOST: Final = "127.0.0.1"
PREFIX: Final = "/console/"
FRAMES: Final = "/report/"
"""Below it is the page of the report, the only one that the console shows in a frame."""
OFFERED: Final = "waymesh."
"""Begins the subprotocol with the token: a page can give a WebSocket no other header field."""
OTHERS: Final = "the console is for whoever has started it\n"
BUFFER_BYTES: Final = 65536
MAX_CODE_BYTES: Final = 1024
SHUTDOWN_S: Final = 0.1
"""How long open WebSockets may go on after the end: nobody has asked for them to."""
TYPES: Final = {
    ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain",
    ".json": "application/json",
}  # fmt: skip
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
FIELDS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Reach = Callable[[], tuple[str, int]]
"""Returns host and port of the management of a router, for one connection. Blocks; raises WaymeshError."""


def bundle() -> Path:
    """The folder of the page. Raises WaymeshError if this installation is without it."""
    found = find_spec("waymesh_router")
    folder = Path(found.origin).parent / "console" / "bundle" if found and found.origin else Path()
    if not (folder / "digest").is_file():
        raise WaymeshError("this installation is without the console; in a checkout: make console")
    return folder


class Proxy:
    """Serves the page, and joins its WebSockets to a router."""

    def __init__(self, folder: Path, reach: Reach, report: Report) -> None:
        self._files = {
            path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in TYPES and path.is_file()
        }
        self._reach = reach
        self._report = report
        self._framed = FRAMES + secrets.token_urlsafe(32)
        """Path of the page of the report: a frame can give no header field, so who knows the path may read it."""
        self._code: str | None = secrets.token_urlsafe(32)
        self._token = secrets.token_urlsafe(32)
        self._place = ""

    async def start(self, port: int) -> tuple[web.AppRunner, str]:
        """Listen, and return what to clean up at the end, and the address to open. Raises OSError."""
        app = web.Application(client_max_size=MAX_CODE_BYTES)
        app.router.add_get("/", self._socket)
        app.router.add_post("/code", self._exchange)
        app.router.add_get(PREFIX + "{name:.*}", self._file)
        app.router.add_post("/report", self._summary)
        app.router.add_get(self._framed, self._frame)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port, reuse_address=True).start()
        except OSError:
            await runner.cleanup()
            raise
        self._place = f"{HOST}:{runner.addresses[0][1]}"
        return runner, f"http://{self._place}{PREFIX}#code={self._code}"

    def _check(self, request: web.Request, *, script: bool = True) -> None:
        """Raises HTTPForbidden for a name that leads here by DNS, and for a page of another origin. `script`: only a
        script of this page sends such a request, and so an Origin."""
        origin = request.headers.get("Origin")
        if request.headers.get("Host") != self._place:
            raise web.HTTPForbidden(text="another host\n")
        if origin != f"http://{self._place}" and (script or origin is not None):
            raise web.HTTPForbidden(text="another origin\n")

    async def _file(self, request: web.Request) -> web.Response:
        """A file of the page. They say nothing of the mesh, so they need no token."""
        self._check(request, script=False)
        name = request.match_info["name"] or "index.html"
        if name not in self._files:
            raise web.HTTPNotFound
        frames = f"{POLICY}; frame-src http://{self._place}{FRAMES}"
        fields = FIELDS | {"Content-Security-Policy": frames}
        return web.Response(
            body=self._files[name], headers=fields, content_type=TYPES[Path(name).suffix], charset="utf-8"
        )

    async def _exchange(self, request: web.Request) -> web.Response:
        """Give the token for the code, once."""
        self._check(request)
        given = (await request.text()).encode()
        if self._code is None or not secrets.compare_digest(given, self._code.encode()):
            raise web.HTTPForbidden(text="this code is unknown, or has been used: start the command again\n")
        self._code = None
        return web.Response(text=self._token, headers=FIELDS)

    async def _summary(self, request: web.Request) -> web.Response:
        """What the last report says in short, and where its page is; or why there is none."""
        self._check(request)
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            raise web.HTTPForbidden(text=OTHERS)
        try:
            found = await asyncio.to_thread(summary, self._report)
        except WaymeshError as error:
            return web.json_response({"reason": str(error)}, headers=FIELDS)
        return web.json_response({"page": self._framed, "summary": found}, headers=FIELDS)

    async def _frame(self, request: web.Request) -> web.Response:
        """The page of the report, which may do nothing."""
        self._check(request, script=False)
        try:
            content = await asyncio.to_thread(self._report, PAGE)
        except WaymeshError as error:
            raise web.HTTPNotFound(text=f"{error}\n") from None
        fields = FIELDS | {"Content-Security-Policy": FRAME_POLICY}
        return web.Response(body=content, headers=fields, content_type="text/html", charset="utf-8")

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        """Join a WebSocket to a router."""
        if "Upgrade" not in request.headers:
            self._check(request, script=False)
            raise web.HTTPFound(PREFIX)
        self._check(request)
        offered = [part.strip() for part in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        token = next((part.removeprefix(OFFERED) for part in offered if part.startswith(OFFERED)), "")
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPForbidden(text=OTHERS)
        try:
            host, port = await asyncio.to_thread(self._reach)
            reader, writer = await asyncio.open_connection(host, port)
        except (WaymeshError, OSError) as error:
            raise web.HTTPBadGateway(text=f"{error}\n") from None
        socket = web.WebSocketResponse(protocols=["amqp"], max_msg_size=0)
        await socket.prepare(request)
        try:
            await _join(socket, reader, writer)
        finally:
            writer.close()
            await socket.close()
        return socket


async def _join(socket: web.WebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes both ways until one side ends."""

    async def down() -> None:
        while data := await reader.read(BUFFER_BYTES):
            await socket.send_bytes(data)

    async def up() -> None:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                return
            writer.write(message.data)
            await writer.drain()

    tasks = [asyncio.create_task(down()), asyncio.create_task(up())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task


async def serve(proxy: Proxy, port: int, about: str) -> int:
    """Serve until SIGINT or SIGTERM. Raises WaymeshError if the port cannot be used."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        runner, address = await proxy.start(port)
    except OSError as error:
        raise WaymeshError(f"port {port}: {error.strerror or error}") from None
    print(f"Console {about}, until Ctrl-C: {address}", flush=True)
    print("The address works once, for the first browser that opens it.", flush=True)
    try:
        await ended.wait()
    finally:
        await runner.cleanup()
    return 0
