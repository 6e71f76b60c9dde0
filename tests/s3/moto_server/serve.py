"""moto's S3 on a port, with a switch to refuse requests or delay answers. Has its own Python environment."""

import json
import sys
import threading
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.wrappers import Request, Response

REFUSAL = "<Error><Code>{code}</Code><Message>told to refuse</Message></Error>"
CODES = {403: "AccessDenied", 503: "SlowDown"}


class Switch:
    """Passes requests on; what it does to those for objects it is told by JSON at /_control."""

    def __init__(self, app: WSGIApplication) -> None:
        self.app = app
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.method, self.status, self.count, self.hold = "PUT", 0, 0, 0
        self.puts: list[str] = []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        if request.path == "/_control":
            told: Iterable[bytes] = self.control(request)(environ, start_response)
            return told
        key = request.path.strip("/").partition("/")[2]
        with self.lock:
            if key and request.method == self.method and self.count > 0 and self.status:
                self.count -= 1
                body = REFUSAL.format(code=CODES[self.status])
                request.get_data()
                refusal: WSGIApplication = Response(body, self.status, content_type="application/xml")
                return refusal(environ, start_response)
        if request.method != "PUT" or not key:
            return self.app(environ, start_response)
        with self.lock:
            answer = self.app(environ, start_response)
            self.puts.append(key)
            self.hold -= 1
            held = self.hold == 0
        if held:
            threading.Event().wait(300)
        return answer

    def control(self, request: Request) -> Response:
        wish = json.loads(request.get_data())
        with self.lock:
            if wish.pop("reset", False):
                self.reset()
            for name, value in wish.items():
                setattr(self, name, value)
            told = {"puts": self.puts, "left": self.count}
            return Response(json.dumps(told), content_type="application/json")


run_simple(sys.argv[1], int(sys.argv[2]), Switch(DomainDispatcherApplication(create_backend_app)), threaded=True)
