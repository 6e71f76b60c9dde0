"""A small object store: `store.py FOLDER BUCKET` keeps the objects that are PUT into the bucket as files in FOLDER.

It speaks as much of S3 as waymesh-upload needs, and verifies the signature (AWS Signature Version 4) of each request
with the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. `store.py FOLDER` prints the recorded deliveries of
each address.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import hmac
import json
import os
import re
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 9000
MAX_BYTES = 64 << 20
MAX_SKEW = timedelta(minutes=15)
READ_S = 60.0
KEY = re.compile(r"(?:[A-Za-z0-9_=-][A-Za-z0-9._=-]*/){0,8}[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,200}")
"""Names that cannot leave the folder: no part begins with a dot."""
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,]+)/([0-9]{8}/[^/,]+/s3/aws4_request), *"
    r"SignedHeaders=([a-z0-9;-]+), *Signature=([0-9a-f]{64})"
)


def mac(key: bytes, text: str) -> bytes:
    """HMAC-SHA256."""
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Refused(Exception):
    """An answer other than 200: status, code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """PUT of an object; everything else is refused."""

    protocol_version = "HTTP/1.1"
    timeout = READ_S
    folder: Path
    bucket: str

    def do_PUT(self) -> None:
        try:
            tag = self.put()
        except Refused as refusal:
            self.close_connection = True
            self.answer(refusal.status, f"<Error><Code>{refusal}</Code></Error>")
            return
        except OSError as error:
            # The uploader tries again.
            self.close_connection = True
            self.log_error("%s: %s", self.path, error)
            self.answer(503, "<Error><Code>ServiceUnavailable</Code></Error>")
            return
        self.answer(200, "", tag)

    def put(self) -> str:
        """Stores the object; its ETag."""
        key = self.path.removeprefix(f"/{self.bucket}/")
        if key == self.path or not KEY.fullmatch(key.replace("%3D", "=")):
            raise Refused(400, "InvalidURI")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BYTES:
            raise Refused(411 if not length.isdecimal() else 413, "EntityTooLarge")
        data = self.rfile.read(int(length))
        self.verify(data)
        target = self.folder / key.replace("%3D", "=")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Readers see the whole file or none.
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).chmod(0o644)
        Path(file.name).replace(target)
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    def verify(self, data: bytes) -> None:
        """Raises Refused unless the request is signed by the key, now, for this content."""
        found = AUTHORIZATION.fullmatch(self.headers.get("Authorization", ""))
        if found is None or found[1] != os.environ["AWS_ACCESS_KEY_ID"]:
            raise Refused(403, "AccessDenied")
        scope, names, signature = found[2], found[3], found[4]
        date, digest = self.headers.get("X-Amz-Date", ""), hashlib.sha256(data).hexdigest()
        with contextlib.suppress(ValueError):
            signed_at = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            fresh = abs(datetime.now(UTC) - signed_at) < MAX_SKEW
            told = self.headers.get("X-Amz-Content-Sha256", "")
            whole = {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names.split(";"))
            expected = self.signature(date, scope, names, told)
            if fresh and whole and told == digest and hmac.compare_digest(expected, signature):
                return
        raise Refused(403, "SignatureDoesNotMatch")

    def signature(self, date: str, scope: str, names: str, digest: str) -> str:
        """What the sender must have computed."""
        headers = "".join(f"{name}:{' '.join(self.headers.get(name, '').split())}\n" for name in names.split(";"))
        request = f"{self.command}\n{self.path}\n\n{headers}\n{names}\n{digest}"
        text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
        for part in scope.split("/"):
            key = mac(key, part)
        return mac(key, text).hex()

    def answer(self, status: int, text: str, tag: str = "") -> None:
        """Sends the response."""
        self.send_response(status)
        if tag:
            self.send_header("ETag", f'"{tag}"')
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())


def deliveries(folder: Path) -> Counter[str]:
    """Recorded deliveries to clients, by address."""
    found: Counter[str] = Counter()
    for path in folder.glob("v1/kind=delivery/dt=*/hr=*/[!.]*.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            row = json.loads(line)
            if row["half"] == "out":
                found[row["address"]] += 1
    return found


def main(folder: Path, bucket: str) -> None:
    """Serves until the process is ended."""
    Handler.folder, Handler.bucket = folder, bucket
    with ThreadingHTTPServer(("", PORT), Handler) as server:
        print(f"objects of {bucket} go to {folder}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(", ".join(f"{count} to {address}" for address, count in sorted(deliveries(Path(sys.argv[1])).items())))
    else:
        main(Path(sys.argv[1]), sys.argv[2])
