"""Bearer tokens for tests: an issuer with keys, what it signs, and a server on loopback that publishes its keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.kit.certificates import KeyPair
from tests.kit.files import replace_file

ISSUER = "https://issuer.example"
AUDIENCE = "waymesh"


class Issuer:
    """Signs tokens with its newest key; `published` are the JWKs that it shows."""

    def __init__(self, kid: str = "first", now: Callable[[], float] = time.time) -> None:
        self._now = now
        self.published: list[dict[str, Any]] = []
        self.rotate(kid)

    def rotate(self, kid: str, publish: bool = True, curve: bool = False) -> None:
        """Sign with a new key from now on: RSA, or on the curve P-256."""
        self.kid = kid
        self.algorithm = "ES256" if curve else "RS256"
        self.key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
        self.key = ec.generate_private_key(ec.SECP256R1()) if curve else rsa.generate_private_key(65537, 2048)
        if publish:
            self.published.append(self.jwk())

    def jwk(self) -> dict[str, Any]:
        """The public half of the newest key."""
        public: Any = self.key.public_key()
        to_jwk: Any = ECAlgorithm.to_jwk if self.algorithm == "ES256" else RSAAlgorithm.to_jwk
        plain = {name: value for name, value in to_jwk(public, as_dict=True).items() if name != "key_ops"}
        return {**plain, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def jwks(self) -> bytes:
        """What it publishes."""
        return json.dumps({"keys": self.published}).encode()

    def pem(self) -> bytes:
        """The public half of the newest key."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_key().public_bytes(serialization.Encoding.PEM, form)

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Claims of a good token, for ten minutes; None removes one."""
        now = self._now()
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now - 1, "exp": now + 600}
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    def token(self, headers: dict[str, Any] | None = None, **changed: Any) -> str:
        """A signed token."""
        shown = {"kid": self.kid} if headers is None else headers
        return jwt.encode(self.claims(**changed), self.key, self.algorithm, headers=shown)

    def forged(self, algorithm: str, secret: bytes = b"") -> str:
        """A token whose header names another algorithm: none, or HS256 with what is public as its secret."""
        head = _part({"alg": algorithm, "typ": "JWT", "kid": self.kid})
        signed = f"{head}.{_part(self.claims())}"
        signature = b"" if algorithm == "none" else hmac.digest(secret, signed.encode(), hashlib.sha256)
        return f"{signed}.{_text(signature)}"


def _part(value: Any) -> str:
    return _text(json.dumps(value).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class KeysServer:
    """Serves `content` with `status` at /keys, over TLS with a certificate or without; `requests`: their headers."""

    def __init__(self, content: bytes, pair: KeyPair | None = None) -> None:
        self.content = content
        self.status = 200
        self.wanted: str | None = None
        """The bearer token without which a request is refused."""
        self.requests: list[dict[str, str]] = []
        ours = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ours.requests.append({"path": self.path, **dict(self.headers.items())})
                right = ours.wanted is None or self.headers["Authorization"] == f"Bearer {ours.wanted}"
                self.send_response(ours.status if right else 401)
                if ours.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(ours.content)))
                self.end_headers()
                self.wfile.write(ours.content)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert, pair.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if pair is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}/keys?all=1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> KeysServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def keys_file(folder: Path, content: bytes) -> Path:
    """A file with keys; an existing one is replaced, as Kubernetes does."""
    return replace_file(folder / "keys.json", content)
