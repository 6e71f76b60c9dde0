"""A small client for the API server: JSON over one kept connection a thread, so that waiting costs little."""

from __future__ import annotations

import base64
import http.client
import json
import select
import ssl
import tempfile
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TIMEOUT_S = 30


class ApiError(Exception):
    """The server refused; `status` is the HTTP status, `reason` Kubernetes' word for it (NotFound, Invalid, …)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Resource:
    """Where the resources of one kind are found."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str = "") -> str:
        """The path of one resource, or of all in the namespace (None: of all)."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        where = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{where}/{self.plural}{'/' + name if name else ''}"


class Api:
    """The API server that a kubeconfig names, with the rights of its user."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self._server = urllib.parse.urlsplit(cluster["server"])
        self._tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w") as pem:
            pem.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pem.flush()
            self._tls.load_cert_chain(pem.name)
        self._local = threading.local()
        self._kinds: dict[str, Resource] = {}

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The answer's JSON, or its text when it is none. ApiError for a refusal, OSError when nobody answers."""
        payload = None if body is None else json.dumps(body).encode()
        words = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
        status, kind, data = self._exchange(method, path, payload, words)
        content = json.loads(data) if kind.startswith("application/json") else data.decode()
        if status >= 400:
            said = content if isinstance(content, dict) else {"message": content}
            raise ApiError(status, said.get("reason", ""), said.get("message", ""))
        return content

    def _exchange(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        """Status, content type and content of the answer."""
        kept: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if kept is not None and _dropped(kept):
            kept.close()
            kept = None
        connection = kept or http.client.HTTPSConnection(
            self._server.hostname or "", self._server.port, timeout=TIMEOUT_S, context=self._tls
        )
        self._local.connection = None
        try:
            connection.request(method, path, payload, dict(headers))
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if kept is not None and method in ("GET", "PATCH"):  # the server closed it just now
                return self._exchange(method, path, payload, headers)
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        self._local.connection = connection
        return response.status, response.headers.get("Content-Type", ""), data

    def resource(self, kind: str) -> Resource:
        """Where a kind is found, by `Kind` or by plural name. KeyError when the server does not know it."""
        if kind not in self._kinds:
            self._discover()
        return self._kinds[kind]

    def _discover(self) -> None:
        accept = {"Accept": DISCOVERY}
        # The core group last: of two kinds with one name the core's is meant.
        for group in [g for root in ("/apis", "/api") for g in self.request("GET", root, None, accept)["items"]]:
            for version in reversed(group["versions"]):
                name = group.get("metadata", {}).get("name")
                api_version = f"{name}/{version['version']}" if name else version["version"]
                for entry in version.get("resources", []):
                    kind, plural = entry["responseKind"]["kind"], entry["resource"]
                    found = Resource(kind, api_version, plural, entry["scope"] == "Namespaced")
                    self._kinds[kind] = self._kinds[plural] = found

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One resource; None when there is none of that name."""
        try:
            found: Object = self.request("GET", self.resource(kind).path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def all(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """All resources of a kind, in one namespace or (None) in all."""
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        found: list[Object] = self.request("GET", self.resource(kind).path(namespace) + query)["items"]
        return found

    def apply(self, manifest: Object, namespace: str | None = None, manager: str = "waymesh-tests") -> Object:
        """Server-side apply, conflicts overruled."""
        kind, metadata = self.resource(manifest["kind"]), manifest["metadata"]
        path = kind.path(metadata.get("namespace", namespace), metadata["name"])
        query = f"?fieldManager={manager}&force=true"
        applied: Object = self.request("PATCH", path + query, manifest, {"Content-Type": APPLY})
        return applied

    def create(self, manifest: Object, namespace: str | None = None) -> Object:
        """A new resource; ApiError 409 when there is one of that name."""
        path = self.resource(manifest["kind"]).path(manifest["metadata"].get("namespace", namespace))
        created: Object = self.request("POST", path, manifest)
        return created

    def patch(self, kind: str, name: str, change: Any, namespace: str | None = None, subresource: str = "") -> Object:
        """A merge patch (a mapping) or a JSON patch (a list)."""
        path = self.resource(kind).path(namespace, name) + (f"/{subresource}" if subresource else "")
        content = JSON_PATCH if isinstance(change, list) else MERGE
        patched: Object = self.request("PATCH", path, change, {"Content-Type": content})
        return patched

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_s: int | None = None) -> bool:
        """Asks for the deletion; False when there was nothing to delete."""
        options: Object = {"propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self.request("DELETE", self.resource(kind).path(namespace, name), options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def _dropped(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server has closed a connection while it was unused: it is readable, and nothing was asked."""
    return connection.sock is None or bool(select.select([connection.sock], [], [], 0)[0])
