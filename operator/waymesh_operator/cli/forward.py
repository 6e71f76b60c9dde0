"""Access to ports of pods from outside the cluster, through the API server, like `kubectl port-forward`; and
`waymesh report`, which fetches the report of a cluster's analytics job that way.

It needs no certificate: a user with permission to forward ports of a pod may also manage the router in it, on the port
that listens only on the pod's loopback.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import kubernetes.client
import kubernetes.config
import kubernetes.stream
from yaml import YAMLError

from waymesh_operator.errors import WaymeshError, no_cluster

BUFFER_BYTES = 65536


class Forwarder:
    """Forwards ports of pods to local ports until it is closed. Each connection has its own channel."""

    def __init__(self, context: str | None) -> None:
        try:
            self._api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(context=context))
        except (kubernetes.config.ConfigException, OSError, YAMLError) as error:
            raise no_cluster(error) from None
        self._listeners: list[socket.socket] = []

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for listener in self._listeners:
            listener.close()

    def port(self, namespace: str, pod: str, port: int) -> int:
        """A local port that is forwarded to a pod's. Raises WaymeshError if the API server refuses it."""
        self._open(namespace, pod, port).close()
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(listener)
        threading.Thread(target=self._serve, args=(listener, namespace, pod, port), daemon=True).start()
        return int(listener.getsockname()[1])

    def _open(self, namespace: str, pod: str, port: int) -> Any:
        call = self._api.connect_get_namespaced_pod_portforward
        try:
            return kubernetes.stream.portforward(call, pod, namespace, ports=str(port))
        except kubernetes.client.ApiException as error:
            raise WaymeshError(f"{pod}: cannot forward port {port} of the pod: {error.reason}") from None

    def _serve(self, listener: socket.socket, namespace: str, pod: str, port: int) -> None:
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return  # closed
            try:
                there = self._open(namespace, pod, port).socket(port)
            except WaymeshError:
                here.close()
                continue
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: Any, sink: Any) -> None:
    """Copy bytes until one side ends, then close both."""
    with contextlib.suppress(OSError):
        while data := source.recv(BUFFER_BYTES):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


TIMEOUT_S = 60.0
REPORT_SELECTOR = "app.kubernetes.io/name=waymesh-analytics,app.kubernetes.io/component=report"
"""Selects the pod that serves the report of the analytics job."""
REPORT_PORT = 8080


def run_report(context: str | None, namespace: str | None, out: Path | None, name: str) -> int:
    """Fetch a file of the report into `out`, or to stdout if it is None, and return the exit code.

    `namespace` None: that of the context. Raises WaymeshError.
    """
    data = fetch_report(context, namespace, name)
    if out is None:
        sys.stdout.buffer.write(data)
        return 0
    try:
        out.write_bytes(data)
    except OSError as error:
        raise WaymeshError(f"{out}: {error.strerror}") from None
    print(f"{out}: {len(data):,} bytes")
    return 0


def fetch_report(context: str | None, namespace: str | None, name: str, most: int | None = None) -> bytes:
    """Return a file of the report, or its first `most` bytes. Raises WaymeshError, also if there is no report."""
    return _fetch(context, namespace, REPORT_SELECTOR, f"{REPORT_PORT}/{name}", most)


def _fetch(context: str | None, namespace: str | None, selector: str, place: str, most: int | None) -> bytes:
    """Return the response body at a place (`8080/index.html`: port and path) of a running pod with these labels."""
    port, _, path = place.partition("/")
    try:
        api: Any = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(context=context))
        where = namespace or _namespace(context)
        running = {"label_selector": selector, "field_selector": "status.phase=Running"}
        pods = [item.metadata.name for item in api.list_namespaced_pod(where, **running).items]
        if not pods:
            raise WaymeshError(f"namespace {where} has no running pod with {selector}")
        with Forwarder(context) as forwarder:
            here = forwarder.port(where, pods[0], int(port))
            with urllib.request.urlopen(f"http://127.0.0.1:{here}/{path}", timeout=TIMEOUT_S) as answer:
                return bytes(answer.read(most))
    except (kubernetes.config.ConfigException, YAMLError) as error:
        raise no_cluster(error) from None
    except kubernetes.client.ApiException as error:
        raise WaymeshError(f"{selector}: {error.status} {error.reason}") from None
    except urllib.error.HTTPError as error:
        raise WaymeshError(f"{path}: {error.code} {error.reason}") from None
    except OSError as error:
        raise WaymeshError(f"{path}: {error}") from None


def _namespace(context: str | None) -> str:
    contexts, current = kubernetes.config.list_kube_config_contexts()
    chosen = next((item for item in contexts if item["name"] == context), current)
    return str(chosen["context"].get("namespace") or "default")
