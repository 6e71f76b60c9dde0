"""What an HTTP server in the cluster answers, asked from wherever we are.

Through a forwarded port: the API server's own proxy would write HTML pages anew.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import kubernetes.client
import kubernetes.config

from waymesh_operator.errors import WaymeshError

from .forward import Forwarder

TIMEOUT_S = 60.0


def fetch(context: str | None, namespace: str | None, selector: str, place: str) -> bytes:
    """The body at a place (`8080/index.html`: port and path) of a running pod with these labels.

    `namespace` None means that of the context. Raises WaymeshError.
    """
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
                return bytes(answer.read())
    except kubernetes.config.ConfigException as error:
        raise WaymeshError(f"no cluster to work with: {error}") from None
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
