"""File systems for tasks: like `storage`, which uses Java on the driver, but without Java.

Addresses are those that Hadoop gives: file:/path, file:///path (never escaped), or s3a://bucket/key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyarrow import fs

S3A = "s3a://"
FILE = "file:"
SETTINGS = tuple(
    f"fs.s3a.{name}"
    for name in ("endpoint", "endpoint.region", "access.key", "secret.key", "session.token", "attempts.maximum")
)
"""The settings of Hadoop that `open_place` follows."""
CONNECT_S = 10
_ATTEMPTS = 5


def open_place(address: str, conf: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """The file system of an address and the path in it. `conf`: settings of Hadoop that concern s3a."""
    if address.startswith(S3A):
        return _bucket(conf), address.removeprefix(S3A)
    return fs.LocalFileSystem(), "/" + address.removeprefix(FILE).lstrip("/")


def _bucket(conf: Mapping[str, str]) -> fs.S3FileSystem:
    """Credentials are found as by AWS tools, unless Spark's settings have them."""
    endpoint = conf.get("fs.s3a.endpoint", "")
    scheme, found, host = endpoint.rpartition("://")
    tries = int(conf.get("fs.s3a.attempts.maximum", _ATTEMPTS))
    return fs.S3FileSystem(
        access_key=conf.get("fs.s3a.access.key"),
        secret_key=conf.get("fs.s3a.secret.key"),
        session_token=conf.get("fs.s3a.session.token"),
        region=conf.get("fs.s3a.endpoint.region") or os.environ.get("AWS_REGION"),
        scheme=scheme if found else "https",
        endpoint_override=host or None,
        connect_timeout=CONNECT_S,
        # The address of a server is not an address of each bucket, unless it is AWS.
        force_virtual_addressing=False,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=max(tries, 1)),
    )
