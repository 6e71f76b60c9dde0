"""The files below `httpRootDir` of a listener, for GET and HEAD."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.http.message import Answer, Request, text_answer

MAX_FILE_BYTES = 64 * 1024 * 1024
INDEX = "index.html"
UNKNOWN_TYPE = "application/octet-stream"
TEXT_TYPES = {
    ".css": "text/css",
    ".csv": "text/csv",
    ".htm": "text/html",
    ".html": "text/html",
    ".js": "text/javascript",
    ".md": "text/markdown",
    ".mjs": "text/javascript",
    ".txt": "text/plain",
    ".xml": "text/xml",
}
"""Media types by file name extension; Python's own table differs between versions and machines."""
OTHER_TYPES = {
    ".gif": "image/gif",
    ".ico": "image/vnd.microsoft.icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".map": "application/json",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class StaticFiles:
    """Regular files below one folder, except those in whose path a name begins with a dot. Folders are not listed."""

    def __init__(self, listener: str, root: str) -> None:
        """Raises HostError if `root` is not a readable folder."""
        try:
            self._root = Path(root).resolve(strict=True)
            os.listdir(self._root)
        except OSError as error:
            raise HostError(f"listener {listener}: httpRootDir: {root}: {error.strerror or error}") from None

    def answer(self, request: Request) -> Answer | None:
        """The file that a request names, 304 if the client already has it; None if there is no such file."""
        name = _name_of(request.path)
        if name is None:
            return None
        with contextlib.ExitStack() as closing:
            try:
                file = closing.enter_context(open(os.open(self._root / name, _FLAGS), "rb"))
                inside = self._is_inside(file)
            except (OSError, ValueError):
                return None
            found = os.fstat(file.fileno())
            if not inside or not stat.S_ISREG(found.st_mode):
                return None
            if found.st_size > MAX_FILE_BYTES:
                return text_answer(HTTPStatus.FORBIDDEN, f"files of more than {MAX_FILE_BYTES} bytes are not served")
            fields = tuple(_fields(name, found))
            if _has_already(request, found):
                return Answer(HTTPStatus.NOT_MODIFIED, fields)
            if request.method == "HEAD":
                return Answer(HTTPStatus.OK, fields, size=found.st_size)
            closing.pop_all()
            return Answer(HTTPStatus.OK, fields, file=file, size=found.st_size)

    def _is_inside(self, file: BinaryIO) -> bool:
        """Whether an open file is below the folder after all symbolic links are resolved. Raises OSError."""
        return Path(os.readlink(f"/proc/self/fd/{file.fileno()}")).is_relative_to(self._root)


def _name_of(path: str) -> str | None:
    """The relative name of the file for a path; None if the path is invalid or hidden."""
    try:
        text = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return None
    if not text.startswith("/") or "\0" in text or "\\" in text:
        return None
    words = (text + INDEX if text.endswith("/") else text)[1:].split("/")
    return None if any(not word or word.startswith(".") for word in words) else "/".join(words)


def _fields(name: str, found: os.stat_result) -> Iterator[tuple[str, str]]:
    ending = os.path.splitext(name)[1].lower()
    text = TEXT_TYPES.get(ending)
    yield "Content-Type", f"{text}; charset=utf-8" if text else OTHER_TYPES.get(ending, UNKNOWN_TYPE)
    yield "Cache-Control", "no-cache"
    yield "ETag", _tag(found)
    yield "Last-Modified", formatdate(found.st_mtime, usegmt=True)


def _tag(found: os.stat_result) -> str:
    return f'"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"'


def _has_already(request: Request, found: os.stat_result) -> bool:
    """Whether the client's copy is current (RFC 9110, 13.2.2: tags have precedence over dates)."""
    tags = request.field("if-none-match")
    if tags is not None:
        return any(tag.strip().removeprefix("W/") in ("*", _tag(found)) for tag in tags.split(","))
    since = request.field("if-modified-since")
    if since is None:
        return False
    try:
        return int(found.st_mtime) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, OverflowError):
        return False
