"""`python -m waymesh_analytics.report.server FOLDER`: serves the report in a folder over HTTP, on loopback only.

In a cluster, loopback is that of the pod: only those who may forward its ports (`kubectl waymesh report`,
`kubectl port-forward`) can read the report. The folder also contains the store, and its volume possibly other data:
only the files of the report are served.
"""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

HOST, PORT = "127.0.0.1", 8080
PAGE = "report.html"
SERVED = re.compile(r"report\.html|summary\.json|tables/\w+\.(json|parquet/[\w-]+[\w.-]*\.parquet)")
"""The files that `output` writes."""
TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json"}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, root: Path, *connection: object) -> None:
        self._root = root
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        name = unquote(urlsplit(self.path).path).removeprefix("/") or PAGE
        try:
            if not SERVED.fullmatch(name):
                raise FileNotFoundError(name)
            place = (self._root / name).resolve(strict=True)
            if not place.is_relative_to(self._root.resolve()):
                raise FileNotFoundError(name)
            with place.open("rb") as file:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", TYPES.get(place.suffix, "application/octet-stream"))
                self.send_header("Content-Length", str(file.seek(0, 2)))
                self.end_headers()
                file.seek(0)
                shutil.copyfileobj(file, self.wfile)
        except FileNotFoundError:
            self.send_error(HTTPStatus.NOT_FOUND, "no such file in the report")
        except PermissionError:
            self.send_error(HTTPStatus.FORBIDDEN, "the file cannot be read")


def server(root: Path, port: int = PORT) -> ThreadingHTTPServer:
    """A listening server of the report in `root`; port 0: any free port."""
    return ThreadingHTTPServer((HOST, port), partial(_Handler, root))


if __name__ == "__main__":
    server(Path(sys.argv[1])).serve_forever()
