"""An object store that speaks S3."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urlsplit

import certifi
import urllib3
from minio import Minio
from minio.error import MinioException

AWS = "https://s3.amazonaws.com"
REGION = "us-east-1"
KEY_NAME, SECRET_NAME = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
CONNECT_S = 5.0
READ_S = 30.0
PART_BYTES = 5 << 20
"""The least that the library takes for the size of a part."""
_TARGET = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>.*))?")


class UsageError(Exception):
    """What was asked for cannot be."""


class Refused(Exception):
    """The store did not take an object; it may later."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where objects go. `prefix`: what their keys begin with, without a slash at either end."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """From `s3://bucket` or `s3://bucket/prefix`. Raises UsageError."""
        found = _TARGET.fullmatch(text)
        if found is None:
            raise UsageError(f"{text!r} is no s3://bucket or s3://bucket/prefix")
        return cls(found["bucket"], (found["prefix"] or "").strip("/"))

    def key(self, path: str) -> str:
        """The key of a file with that path below the spool."""
        return f"{self.prefix}/{path}" if self.prefix else path


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks. `session_token` is None but for temporary ones."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Credentials:
        """From the usual variables. Raises UsageError."""
        key, secret = (environment.get(name, "") for name in (KEY_NAME, SECRET_NAME))
        if not key or not secret:
            raise UsageError(f"the environment has no {SECRET_NAME if key else KEY_NAME}")
        return cls(key, secret, environment.get("AWS_SESSION_TOKEN") or None)


class S3:
    """One bucket. An object appears whole or not at all, since each is one request."""

    def __init__(self, target: Target, endpoint: str, region: str, credentials: Credentials) -> None:
        """`endpoint`: a URL without a path. Raises UsageError."""
        url = urlsplit(endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/") or url.query:
            raise UsageError(f"{endpoint!r} is no URL of a server: http://host:port or https://host:port")
        self._target = target
        try:
            self._client = Minio(
                endpoint=url.netloc,
                access_key=credentials.access_key,
                secret_key=credentials.secret_key,
                session_token=credentials.session_token,
                secure=url.scheme == "https",
                region=region,
                http_client=_http(),
            )
        except ValueError as error:
            raise UsageError(f"{endpoint!r}: {error}") from None

    def put(self, path: str, data: BinaryIO, size: int) -> None:
        """Make or replace the object of a file. Raises Refused."""
        part = max(size, PART_BYTES)
        try:
            self._client.put_object(
                self._target.bucket, self._target.key(path), data, size, "application/gzip", part_size=part
            )
        except (MinioException, urllib3.exceptions.HTTPError) as error:
            raise Refused(_reason(error)) from None


def _http() -> urllib3.PoolManager:
    """Without retries of its own: whoever asked waits, and says so."""
    return urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        cert_reqs="CERT_REQUIRED",
        ca_certs=os.environ.get("SSL_CERT_FILE") or certifi.where(),
        retries=urllib3.Retry(0, redirect=0, raise_on_status=False),
    )


def _reason(error: Exception) -> str:
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    return f"{code}: {message}" if code and message else str(error)
