"""The public keys that verify tokens, read from a file or a URL. If a later read fails, they stay in use for a time."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from waymesh_router.runtime.tls.contexts import file_stamp

KIND_OF_ALGORITHM: Mapping[str, str] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    "ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1", "EdDSA": "Ed25519",
}  # fmt: skip
"""The kind of key that each signature algorithm requires."""
MAX_BYTES = 1 << 18
MAX_KEYS = 100
MIN_RSA_BITS = 2048
STEP_S = 5.0
"""Time limit for each socket operation of a request."""
REQUEST_S = 10.0
"""Time limit for a request after the connection is made."""
RETRY_S = 3.0
WAIT_S = 6.0
"""How long a login waits while another one reads the keys."""

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(?:-{0,4}[^-])*+-----END \1-----")
"""Ends each attempt at the next five hyphens: content without END lines must not take quadratic time, in which Python
runs no other thread."""
_SECRETS = ("d", "k", "p", "q", "dp", "dq", "qi", "oth")
"""Members of a JWK that are private or symmetric (RFC 7518, 6)."""
_TEXTS = ("kty", "kid", "use", "alg", "crv", "n", "e", "x", "y")


class KeysError(Exception):
    """The keys cannot be read, or are invalid."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key. `algorithm`: the only one that it may be used with; None: any that requires its kind."""

    kid: str | None
    kind: str
    algorithm: str | None
    public: Any


class Source(Protocol):
    """Reads the keys from a file or URL."""

    local: bool
    """Whether reading is so fast that changes can be checked at each login."""
    location: str
    """Attribute and value, for messages."""

    def due(self, waited_s: float, urgent: bool) -> bool:
        """Whether to read, `waited_s` after the last attempt. `urgent`: a key is missing, or that attempt failed."""

    def read(self) -> bytes:
        """Read the content. Raises KeysError. May take long."""


class FileSource:
    """A file, read when it has changed, and repeatedly while it cannot be read."""

    def __init__(self, path: str) -> None:
        self.local = True
        self.location = f"keysFile: {path}"
        self._path = path
        self._stamp: tuple[int, int] | None = None

    def due(self, waited_s: float, urgent: bool) -> bool:
        """Whether the file has changed, or may have become readable."""
        return file_stamp(self._path) != self._stamp or (urgent and waited_s >= RETRY_S)

    def read(self) -> bytes:
        """Raises KeysError."""
        self._stamp = file_stamp(self._path)  # before the content: later changes are noticed
        return _file(self._path)


class UrlSource:
    """A URL, read at intervals."""

    def __init__(self, attrs: Mapping[str, Any]) -> None:
        self.local = False
        self.location = f"keysUrl: {attrs['keysUrl']}"
        self._url = urlsplit(str(attrs["keysUrl"]))
        self._authorities = attrs.get("caCertFile")
        self._token_file = attrs.get("keysTokenFile")
        self._every_s = float(attrs["refreshSeconds"])
        self._pause_s = float(attrs["minRefreshSeconds"])

    def due(self, waited_s: float, urgent: bool) -> bool:
        """Whether its interval has passed."""
        return waited_s >= (self._pause_s if urgent else self._every_s)

    def read(self) -> bytes:
        """Raises KeysError. Does not follow redirects, which could lead to a server that is not configured."""
        headers = {"Accept": "application/json", "User-Agent": "waymesh-router", "Connection": "close"}
        if self._token_file:
            headers["Authorization"] = f"Bearer {_token(str(self._token_file))}"
        try:
            connection = self._connection()
            try:
                connection.connect()
                with _time_limit(connection.sock):
                    return self._exchange(connection, headers)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, UnicodeError, RuntimeError) as error:  # the last: no thread starts
            raise KeysError(str(error) or type(error).__name__) from None
        except ValueError:  # the token has an invalid character for a header; the error's text would show the token
            raise KeysError("keysTokenFile: invalid token") from None

    def _exchange(self, connection: http.client.HTTPConnection, headers: Mapping[str, str]) -> bytes:
        path = self._url.path or "/"
        connection.request("GET", f"{path}?{self._url.query}" if self._url.query else path, headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise KeysError(f"HTTP status {response.status}")
        return _content(response)

    def _connection(self) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._url.scheme != "https":
            return http.client.HTTPConnection(host, self._url.port, timeout=STEP_S)
        return http.client.HTTPSConnection(host, self._url.port, timeout=STEP_S, context=self.context())

    def context(self) -> ssl.SSLContext:
        """The context that verifies the server, created for each request to use changed files. Raises KeysError."""
        try:
            return ssl.create_default_context(cafile=self._authorities)
        except OSError as error:
            raise KeysError(f"caCertFile: {self._authorities}: {error.strerror or error}") from None


class Keys:
    """The keys of one profile. Used by several threads."""

    def __init__(
        self, source: Source, keep_s: float, report: Callable[[str, str], None], clock: Callable[[], float]
    ) -> None:
        """`keep_s`: how long keys stay in use while they cannot be read; `clock()`: monotonic, in seconds."""
        self._source = source
        self._keep_s = keep_s
        self._report = report
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: list[Key] = []
        self._tried_at: float | None = None
        self._failing_since: float | None = None
        self._reported = ""

    def find(self, kid: str | None, algorithm: str) -> list[Key]:
        """The keys that may have signed a token; reads the keys again if one may have been added."""
        found = self._matching(kid, algorithm)
        if not found or (self._source.local and self.due()):
            self.refresh(urgent=not found)  # waits while another thread reads them
            found = self._matching(kid, algorithm)
        return found

    def due(self, urgent: bool = False) -> bool:
        """Whether the keys should be read now."""
        if self._tried_at is None:
            return True
        return self._source.due(self._clock() - self._tried_at, urgent or self._failing_since is not None)

    def refresh(self, urgent: bool = False) -> None:
        """Read the keys, unless another thread has just done so. A failure is reported; the old keys stay in use for
        `keep_s`."""
        if not self._lock.acquire(timeout=WAIT_S):
            return
        try:
            if self.due(urgent):
                self._tried_at = self._clock()
                self._read()
        finally:
            self._lock.release()

    def load(self) -> None:
        """Read the keys now. Raises KeysError."""
        self._tried_at = self._clock()
        self._keys = parse_keys(self._source.read())

    def _read(self) -> None:
        try:
            self._keys = parse_keys(self._source.read())
        except KeysError as error:
            if self._failing_since is None:
                self._failing_since = self._clock()
            kept = f"the keys read before stay in use for at most {self._keep_s:g} s"
            text = f"{self._source.location}: {error}; {kept if self._usable() else 'there are no keys'}"
            if text != self._reported:  # not again at each attempt
                self._report("error", text)
            self._reported = text
            return
        if self._failing_since is not None:
            self._failing_since, self._reported = None, ""
            self._report("notice", f"{self._source.location}: the keys were read again")

    def _usable(self) -> bool:
        since = self._failing_since
        return bool(self._keys) and (since is None or self._clock() - since <= self._keep_s)

    def _matching(self, kid: str | None, algorithm: str) -> list[Key]:
        """The usable keys with a matching kind, algorithm and id. If the key or the token has no id, any id matches."""
        if not self._usable():
            return []
        kind = KIND_OF_ALGORITHM[algorithm]
        return [
            key
            for key in self._keys
            if key.kind == kind
            and key.algorithm in (None, algorithm)
            and (kid is None or key.kid is None or key.kid == kid)
        ]


def parse_keys(data: bytes) -> list[Key]:
    """The usable keys of a JWKS (RFC 7517) or of PEM text. Raises KeysError if there are none, or one is private."""
    if len(data) > MAX_BYTES:
        raise KeysError(f"more than {MAX_BYTES} octets")
    try:
        text = data.decode("utf-8")
        found = _from_jwks(json.loads(text)) if text.lstrip().startswith("{") else _from_pem(text)
    except (ValueError, RecursionError, UnsupportedAlgorithm) as error:
        raise KeysError(f"neither a JWKS nor PEM: {type(error).__name__}") from None
    if not found:
        raise KeysError("there is no usable public key")
    if len(found) > MAX_KEYS:
        raise KeysError(f"more than {MAX_KEYS} keys")
    return found


def _from_jwks(document: Any) -> list[Key]:
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise KeysError("the JWKS has no list of keys")
    return [key for member in listed[: MAX_KEYS + 1] if (key := _from_jwk(member)) is not None]


def _from_jwk(jwk: Any) -> Key | None:
    """None for a key with another purpose or of an unknown kind."""
    if not isinstance(jwk, dict) or any(not isinstance(jwk.get(name, ""), str) for name in _TEXTS):
        return None
    if jwk.get("kty") == "oct" or any(name in jwk for name in _SECRETS):  # anybody who can read it can sign tokens
        raise KeysError("the JWKS contains a private or symmetric key")
    algorithm = jwk.get("alg")
    if jwk.get("use", "sig") != "sig" or (algorithm is not None and algorithm not in KIND_OF_ALGORITHM):
        return None
    operations = jwk.get("key_ops")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    try:
        public = jwt.PyJWK(jwk).key
    except (jwt.PyJWTError, ValueError, TypeError, LookupError):
        return None
    return _key(jwk.get("kid"), algorithm, public)


def _from_pem(text: str) -> list[Key]:
    found = []
    for block in _PEM.finditer(text):
        if block[1] not in ("PUBLIC KEY", "RSA PUBLIC KEY"):
            raise KeysError(f"PEM: only public keys are allowed, not {block[1]}")
        key = _key(None, None, load_pem_public_key(block[0].encode()))
        if key is not None:
            found.append(key)
    return found


def _key(kid: str | None, algorithm: str | None, public: Any) -> Key | None:
    """None for a key that is too weak, or of a kind that no supported algorithm uses."""
    kind = ""
    if isinstance(public, rsa.RSAPublicKey):
        kind = "RSA" if public.key_size >= MIN_RSA_BITS else ""
    elif isinstance(public, ec.EllipticCurvePublicKey):
        kind = public.curve.name
    elif isinstance(public, ed25519.Ed25519PublicKey):
        kind = "Ed25519"
    if kind not in KIND_OF_ALGORITHM.values() or (algorithm and KIND_OF_ALGORITHM[algorithm] != kind):
        return None
    return Key(kid, kind, algorithm, public)


def _token(path: str) -> str:
    try:
        return _file(path).decode("ascii", "replace").strip()
    except KeysError as error:
        raise KeysError(f"keysTokenFile: {path}: {error}") from None


@contextmanager
def _time_limit(sock: socket.socket) -> Iterator[None]:
    """Disconnect after REQUEST_S. Raises KeysError then. Without this limit, a server that keeps sending single octets
    would never let the attempt fail, and keys read before would stay in use for longer than `keep_s`."""
    late = threading.Event()

    def disconnect() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # that of SSLSocket must not run while another thread reads

    timer = threading.Timer(REQUEST_S, disconnect)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
        if late.is_set():  # content that ends here may be a part
            raise KeysError(f"not read within {REQUEST_S:g} s")


def _content(response: http.client.HTTPResponse) -> bytes:
    data = b""
    while len(data) <= MAX_BYTES:
        part = response.read1(65536)
        if not part:
            return data
        data += part
    raise KeysError(f"more than {MAX_BYTES} octets")


def _file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KeysError(error.strerror or str(error)) from None
