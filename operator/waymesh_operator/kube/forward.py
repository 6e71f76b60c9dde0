"""A way to a port in a pod from outside the cluster: through the API server, as `kubectl port-forward` does it.

It needs no certificate: who may forward ports of a pod may also manage the router in it, on the port that listens on
the pod's own loopback only.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any

import kubernetes.client
import kubernetes.config
import kubernetes.stream

from waymesh_operator.errors import WaymeshError

BUFFER_BYTES = 65536


class Forwarder:
    """Forwards ports of pods to local ones until it is closed. Each connection gets a channel of its own."""

    def __init__(self, context: str | None) -> None:
        try:
            self._api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(context=context))
        except kubernetes.config.ConfigException as error:
            raise WaymeshError(f"no cluster to work with: {error}") from None
        self._listeners: list[socket.socket] = []

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for listener in self._listeners:
            listener.close()

    def port(self, namespace: str, pod: str, port: int) -> int:
        """A local port that leads to a pod's. Raises WaymeshError when the API server will not let us."""
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
            raise WaymeshError(f"{pod}: no way to port {port} of the pod: {error.reason}") from None

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
    """Pass on all that comes; when one side ends, both do."""
    with contextlib.suppress(OSError):
        while data := source.recv(BUFFER_BYTES):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
