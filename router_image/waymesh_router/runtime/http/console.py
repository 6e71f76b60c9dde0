"""The files of the console below `/console/`: one bundle for all listeners with `console: yes` and all users."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.http.files import OTHER_TYPES, TEXT_TYPES
from waymesh_router.runtime.http.message import Answer, Fields, Request, text_answer

PREFIX = "/console/"
BUNDLE = Path(__file__).resolve().parents[2] / "console" / "bundle"
DIGEST = "digest"
ALWAYS: Fields = (
    ("Cache-Control", "no-cache"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept-Encoding"),
)


@dataclass(frozen=True, slots=True)
class _File:
    content_type: str
    plain: bytes
    compressed: bytes


class ConsoleFiles:
    """The files, in memory: a few hundred kilobytes. They say nothing of the mesh, so they need no login; what the page
    then asks for does."""

    def __init__(self, listener: str, folder: Path | None = None) -> None:
        """`folder`: BUNDLE if absent. Raises HostError if there is no bundle."""
        folder = BUNDLE if folder is None else folder
        try:
            self._tag = f'"{(folder / DIGEST).read_text()}"'
            names = [path.name for path in folder.iterdir() if path.name.endswith(".gz")]
            self._files = {name.removesuffix(".gz"): _file(folder, name) for name in names}
        except OSError as error:
            reason = f"console: this installation is without it ({error.strerror}); in a checkout: make console"
            raise HostError(f"listener {listener}: {reason}") from None

    def answer(self, request: Request) -> Answer | None:
        """The answer to GET and HEAD for a path of the console; None for other paths."""
        if request.method not in ("GET", "HEAD"):
            return None
        if request.path in ("/", PREFIX.rstrip("/")):
            return text_answer(HTTPStatus.FOUND, f"see {PREFIX}", (("Location", PREFIX),))
        if not request.path.startswith(PREFIX):
            return None
        file = self._files.get(request.path.removeprefix(PREFIX) or "index.html")
        return None if file is None else self._answer(request, file)

    def _answer(self, request: Request, file: _File) -> Answer:
        fields = (("Content-Type", file.content_type), ("ETag", self._tag), *ALWAYS)
        if self._tag in (request.field("if-none-match") or ""):
            return Answer(HTTPStatus.NOT_MODIFIED, fields)
        if "gzip" in (request.field("accept-encoding") or ""):
            return Answer(HTTPStatus.OK, (*fields, ("Content-Encoding", "gzip")), file.compressed)
        return Answer(HTTPStatus.OK, fields, file.plain)


def _file(folder: Path, compressed: str) -> _File:
    plain = folder / compressed.removesuffix(".gz")
    text = TEXT_TYPES.get(plain.suffix)
    content_type = f"{text}; charset=utf-8" if text else OTHER_TYPES[plain.suffix]
    return _File(content_type, plain.read_bytes(), (folder / compressed).read_bytes())
