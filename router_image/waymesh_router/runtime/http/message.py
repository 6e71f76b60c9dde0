"""HTTP/1.1: parses one request and encodes its answer. Pure; h11 implements the protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO

import h11

if TYPE_CHECKING:
    from waymesh_router.runtime.http.web_socket import WebSocketStream

MAX_HEAD_BYTES = 16384
API = "/api/"
"""Below this path, requests may have content."""
MAX_CONTENT_BYTES = 65536

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose head is complete. `version`: of HTTP, such as `1.1`. `fields`: names in lower case. `early`: more
    bytes followed it before the answer."""

    method: str
    target: str
    version: str
    fields: tuple[tuple[bytes, bytes], ...]
    early: bool
    content: bytes = b""

    @property
    def path(self) -> str:
        """The target without its query, not decoded."""
        return self.target.partition("?")[0]

    def field(self, name: str) -> str | None:
        """The values of a header field, joined by commas; None if there is none."""
        values = [value.decode("latin-1") for key, value in self.fields if key == name.encode()]
        return ", ".join(values) if values else None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request. The content is `body`, or the first `size` bytes of `file`, which the receiver must
    close and which is None for HEAD. `stream`: with status 101, the WebSocket that begins after the answer. `refused`:
    why the client is not served, for the log; `failed_login`: because of its login, perhaps that of a known `user`."""

    status: int
    fields: Fields = ()
    body: bytes = b""
    file: BinaryIO | None = None
    size: int = 0
    stream: WebSocketStream | None = None
    refused: str = ""
    failed_login: bool = False
    user: str = ""


def text_answer(status: int, text: str, fields: Fields = ()) -> Answer:
    """An answer in plain text."""
    plain = ("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")
    return Answer(status, (*plain, *fields), f"{text}\n".encode())


def refusal(status: int, text: str, fields: Fields = ()) -> Answer:
    """The answer to a client that is not served; the text is also logged."""
    return replace(text_answer(status, text, fields), refused=text)


class BadRequest(Exception):
    """The input is not a valid request; `answer` reports this to the client."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Exchange:
    """One request and its answer, after which HTTP ends on the connection."""

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._head_only = False
        self._received = 0
        self.takes_content = False
        """Whether requests below API may have content; other content is ignored."""
        self._request: Request | None = None
        self._content = bytearray()

    def receive(self, data: bytes) -> Request | None:
        """The request, complete: its head, and content if it `takes_content`; else None. Raises BadRequest."""
        self._h11.receive_data(data)
        if self._request is not None:
            return self._with_content(self._request)
        event = self._next()
        self._received += len(data)
        if not isinstance(event, h11.Request):
            return None
        self._head_only = event.method == b"HEAD"
        rest = self._h11.trailing_data[0]
        if self._received - len(rest) > MAX_HEAD_BYTES:  # h11 limits only a head that is not complete yet
            raise BadRequest(refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large"))
        early = bool(rest)
        method, target, version = (word.decode("latin-1") for word in (event.method, event.target, event.http_version))
        request = Request(method, target, version, tuple(event.headers), early)
        if not self.takes_content or not request.path.startswith(API):
            return request
        if self._h11.they_are_waiting_for_100_continue:
            raise BadRequest(refusal(HTTPStatus.EXPECTATION_FAILED, "send the content at once, without Expect"))
        self._request = request
        return self._with_content(request)

    def _with_content(self, request: Request) -> Request | None:
        """The request when its content is complete."""
        while True:
            event = self._next()
            if isinstance(event, h11.Data):
                self._content += event.data
                if len(self._content) > MAX_CONTENT_BYTES:
                    text = f"the content has more than {MAX_CONTENT_BYTES} octets"
                    raise BadRequest(refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text))
            elif isinstance(event, h11.EndOfMessage):
                return replace(request, content=bytes(self._content))
            else:
                return None

    def _next(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            reason = str(error).partition(": bytearray")[0]  # what the client sent follows, as Python code
            raise BadRequest(refusal(error.error_status_hint, reason)) from None

    def encode(self, answer: Answer) -> bytes:
        """The bytes of the answer, without its file."""
        phrase = HTTPStatus(answer.status).phrase
        if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
            switch = h11.InformationalResponse(status_code=answer.status, headers=list(answer.fields), reason=phrase)
            return self._h11.send(switch) or b""
        fields = [*answer.fields, ("X-Content-Type-Options", "nosniff"), ("Connection", "close")]
        if answer.status != HTTPStatus.NOT_MODIFIED:
            fields.append(("Content-Length", str(answer.size or len(answer.body))))
        head = self._h11.send(h11.Response(status_code=answer.status, headers=fields, reason=phrase)) or b""
        return head if self._head_only else head + answer.body
