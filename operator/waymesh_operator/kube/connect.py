"""Where the API server is and who we are: the service account inside a cluster, a kubeconfig outside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from waymesh_operator.errors import WaymeshError

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A way to an API server. `namespace` is ours in the cluster, or the context's."""

    configuration: Configuration
    namespace: str
    inside: bool


async def find_cluster(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """The cluster that we run in unless a kubeconfig or a context is named. Raises WaymeshError."""
    configuration = Configuration()
    inside = not kubeconfig and not context and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    try:
        if inside:
            load_incluster_config(client_configuration=configuration)
            return Cluster(configuration, NAMESPACE_FILE.read_text(encoding="ascii").strip(), inside)
        file = kubeconfig or os.environ.get("KUBECONFIG") or KUBE_CONFIG_DEFAULT_LOCATION
        loader = await load_kube_config(file, context, configuration, persist_config=False)
        return Cluster(configuration, loader.current_context["context"].get("namespace") or "default", inside)
    except (ConfigException, OSError) as error:
        raise WaymeshError(f"no cluster to work with: {error}") from None
