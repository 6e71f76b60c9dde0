"""An object store with the S3 protocol."""

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
"""The minimum part size that the library accepts."""
_TARGET = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>.*))?")


class UsageError(Exception):
    """An argument or an environment variable is invalid."""


class UploadRefused(Exception):
    """The store did not accept an object; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where objects are stored."""

    bucket: str
    # The beginning of all keys, without a slash at either end.
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse `s3://bucket` or `s3://bucket/prefix`. Raises UsageError."""
        found = _TARGET.fullmatch(text)
        if found is None:
            raise UsageError(f"{text!r} is not s3://bucket or s3://bucket/prefix")
        return cls(found["bucket"], (found["prefix"] or "").strip("/"))

    def key(self, path: str) -> str:
        """The key for a path below the spool."""
        return f"{self.prefix}/{path}" if self.prefix else path


@dataclass(frozen=True, slots=True)
class Credentials:
    """AWS credentials."""

    access_key: str
    secret_key: str
    # Only for temporary credentials.
    session_token: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Credentials:
        """Read the usual AWS variables. Raises UsageError."""
        key, secret = (environment.get(name, "") for name in (KEY_NAME, SECRET_NAME))
        if not key or not secret:
            raise UsageError(f"the environment has no {SECRET_NAME if key else KEY_NAME}")
        return cls(key, secret, environment.get("AWS_SESSION_TOKEN") or None)


class S3:
    """One bucket. Objects appear atomically, because each is uploaded by a single request."""

    def __init__(self, target: Target, endpoint: str, region: str, credentials: Credentials) -> None:
        """`endpoint`: a URL without a path. Raises UsageError."""
        url = urlsplit(endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/") or url.query:
            raise UsageError(f"{endpoint!r} is not the URL of a server: http://host:port or https://host:port")
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
        """Create or replace the object of a file. Raises UploadRefused."""
        part = max(size, PART_BYTES)
        try:
            self._client.put_object(
                self._target.bucket, self._target.key(path), data, size, "application/gzip", part_size=part
            )
        except (MinioException, urllib3.exceptions.HTTPError) as error:
            raise UploadRefused(_reason(error)) from None


def _http() -> urllib3.PoolManager:
    """Without retries: the caller waits, and logs it."""
    return urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        cert_reqs="CERT_REQUIRED",
        ca_certs=os.environ.get("SSL_CERT_FILE") or certifi.where(),
        retries=urllib3.Retry(0, redirect=0, raise_on_status=False),
    )


def _reason(error: Exception) -> str:
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    return f"{code}: {message}" if code and message else str(error)
