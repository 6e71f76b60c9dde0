"""What should be: for each Router resource its routers with all their configuration, and the objects that carry them.

Pure.
"""

from __future__ import annotations

from .cluster import DesiredCluster, desired_cluster
from .conflicts import autolink_conflicts, conflicts, linkroute_conflicts
from .context import (
    HTTP_PORT,
    LOCAL_PORT,
    MANAGEMENT_PORT,
    MESH_PORT,
    ClusterContext,
    OperatorSettings,
    Verdict,
    referenced_secrets,
    tls_request,
)
from .local import DesiredLocal, LocalContext, desired_local
from .mesh import DesiredConnector, DesiredListener, DesiredMesh, DesiredRouter, Place, router_id
from .objects import (
    LEAVING_ANNOTATION,
    MANIFEST_ANNOTATION,
    RESTARTED_ANNOTATION,
    ROUTER_LABEL,
    Manifest,
    labels_of,
    with_replicas,
)
from .seeds import seed_text
from .topology import lower_neighbours

__all__ = [
    "HTTP_PORT",
    "LEAVING_ANNOTATION",
    "LOCAL_PORT",
    "MANAGEMENT_PORT",
    "MANIFEST_ANNOTATION",
    "MESH_PORT",
    "RESTARTED_ANNOTATION",
    "ROUTER_LABEL",
    "ClusterContext",
    "DesiredCluster",
    "DesiredConnector",
    "DesiredListener",
    "DesiredLocal",
    "DesiredMesh",
    "DesiredRouter",
    "LocalContext",
    "Manifest",
    "OperatorSettings",
    "Place",
    "Verdict",
    "autolink_conflicts",
    "conflicts",
    "desired_cluster",
    "desired_local",
    "labels_of",
    "linkroute_conflicts",
    "lower_neighbours",
    "referenced_secrets",
    "router_id",
    "seed_text",
    "tls_request",
    "with_replicas",
]
