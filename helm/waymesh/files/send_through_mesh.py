"""What `helm test` runs: makes a mesh of two routers, sends messages from a client of one to a client of the other.

Environment: NAMESPACE (where the mesh is made), TIMEOUT_S (for all of it). Exit status 0 when every message arrived.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from proton import Message
from proton.utils import BlockingConnection

NAMESPACE = os.environ["NAMESPACE"]
DEADLINE = time.monotonic() + float(os.environ["TIMEOUT_S"])
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ROUTERS = f"/apis/waymesh.io/v1alpha1/namespaces/{NAMESPACE}/routers"
NAME = "waymesh-helm-test"
COUNT = 100
TLS = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))


def call(method: str, path: str, body: object = None) -> Any:
    """The API server's answer; None when there is no such resource."""
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, context=TLS, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def converged() -> bool:
    """Whether the routers have found each other."""
    conditions = (call("GET", f"{ROUTERS}/{NAME}") or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Converged" and c["status"] == "True" for c in conditions)


def gone() -> bool:
    """Whether a mesh of an earlier run is no more."""
    return call("GET", f"{ROUTERS}/{NAME}") is None


def wait(what: str, condition: Any) -> None:
    """Returns as soon as the condition holds; ends the program when the time is up."""
    while not condition():
        if time.monotonic() > DEADLINE:
            status = (call("GET", f"{ROUTERS}/{NAME}") or {}).get("status")
            sys.exit(f"not in time: {what}; status {json.dumps(status, indent=1)}")
        time.sleep(0.5)


def connect(ordinal: int) -> BlockingConnection:
    """A connection to one router of the mesh."""
    return BlockingConnection(f"amqp://{NAME}-{ordinal}.{NAME}-mesh.{NAMESPACE}.svc:5672", timeout=30)


def exchange() -> None:
    """Messages from a client of router 0 to a client of router 1."""
    receiver = connect(1).create_receiver("helm-test", credit=COUNT)

    def send() -> None:
        sender = connect(0).create_sender("helm-test")
        for number in range(COUNT):
            sender.send(Message(body=number))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    bodies = []
    for _ in range(COUNT):
        bodies.append(receiver.receive(timeout=30).body)
        receiver.accept()
    thread.join(30)
    if bodies != list(range(COUNT)) or thread.is_alive():
        sys.exit(f"sent {COUNT} messages, received {bodies}")


def main() -> None:
    """The test; its mesh is removed whatever comes of it."""
    began = time.monotonic()
    call("DELETE", f"{ROUTERS}/{NAME}")
    wait("removal of an earlier test's mesh", gone)
    router = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "metadata": {"name": NAME}, "spec": {"size": 2}}
    call("POST", ROUTERS, router)
    try:
        wait("Converged", converged)
        formed = time.monotonic()
        exchange()
    finally:
        call("DELETE", f"{ROUTERS}/{NAME}")
    sys.stdout.write(f"mesh of two routers in {formed - began:.1f} s; {COUNT} messages from one to the other\n")


if __name__ == "__main__":
    main()
