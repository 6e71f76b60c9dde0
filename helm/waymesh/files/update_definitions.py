"""Makes the custom resource definitions of the cluster those of the chart: update_definitions.py FOLDER.

FOLDER has one JSON file for each definition. A definition that exists is replaced as a whole (but for other labels and
annotations, which are kept), so that no field of an older version stays. A newer one is kept, as its label
waymesh.io/definitions says, unless --allow-downgrade is given: older ones would remove fields from all resources. Exit
status 0 when all are served.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABEL = "waymesh.io/definitions"
DEADLINE_S = 60
TRIES = 5


class ApiError(Exception):
    """The API server's refusal."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


def call(method: str, path: str, body: object = None) -> Any:
    """The API server's answer. Raises ApiError."""
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, headers, method=method)
    tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, context=tls, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise ApiError(error.code, error.read().decode(errors="replace")) from None


def version(definition: dict[str, Any]) -> int:
    """The number of a definition, which is raised with each change; 0 for those before there were numbers."""
    text = str((definition["metadata"].get("labels") or {}).get(LABEL, ""))
    return int(text) if text.isdecimal() else 0


def update(definition: dict[str, Any], allow_downgrade: bool) -> str:
    """Creates or replaces one definition; what was done. Raises ApiError."""
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    for attempt in range(1, TRIES + 1):
        try:
            live = call("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            call("POST", DEFINITIONS, definition)
            return "created"
        if version(live) > version(definition) and not allow_downgrade:
            return f"kept, it is newer ({version(live)}, this chart has {version(definition)}; crds.allowDowngrade)"
        labels = {**(live["metadata"].get("labels") or {}), **(definition["metadata"].get("labels") or {})}
        metadata = {**live["metadata"], "labels": labels}
        try:
            call("PUT", path, {**live, "metadata": metadata, "spec": definition["spec"]})
            return "updated"
        except ApiError as error:  # 409: somebody changed it in between
            if error.status != 409 or attempt == TRIES:
                raise
    raise AssertionError("unreachable")


def served(name: str) -> bool:
    """Whether the API server serves resources of the definition."""
    conditions = call("GET", f"{DEFINITIONS}/{name}").get("status", {}).get("conditions", [])
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


def main(folder: Path, allow_downgrade: bool = False) -> None:
    """Brings all up to date, one after the other."""
    for path in sorted(folder.glob("*.json")):
        definition = json.loads(path.read_text())
        name = definition["metadata"]["name"]
        done = update(definition, allow_downgrade)
        deadline = time.monotonic() + DEADLINE_S
        while not served(name):
            if time.monotonic() > deadline:
                sys.exit(f"{name}: {done}, but not served after {DEADLINE_S} s")
            time.sleep(0.5)
        sys.stdout.write(f"{name}: {done}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--allow-downgrade" in sys.argv[2:])
