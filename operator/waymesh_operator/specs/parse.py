"""From validated manifests (unknown fields refused, defaults applied) to typed resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model import Address, Listener, Ref, Router

Manifest = Mapping[str, Any]


def ref_of(manifest: Manifest) -> Ref:
    """Namespace (`default` unless said) and name of a manifest."""
    metadata = manifest["metadata"]
    return Ref(metadata.get("namespace") or "default", metadata["name"])


def parse_router(manifest: Manifest) -> Router:
    """The Router of a validated manifest."""
    spec = manifest["spec"]
    logging = spec["logging"]
    return Router(
        ref=ref_of(manifest),
        size=spec["size"],
        role=spec["role"],
        topology=spec["topology"],
        listeners=tuple(Listener(**item) for item in spec["listeners"]),
        drain_timeout_s=spec["drain"]["timeoutSeconds"],
        drift=spec["drift"],
        log_level=logging["level"],
        log_levels=tuple(sorted((item["module"], item["level"]) for item in logging.get("modules", ()))),
        paused=spec["paused"],
    )


def parse_address(manifest: Manifest) -> Address:
    """The Address of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    ref = ref_of(manifest)
    return Address(
        ref=ref,
        router=Ref(ref.namespace, spec["routerRef"]["name"]),
        prefix=spec.get("prefix"),
        pattern=spec.get("pattern"),
        distribution=spec["distribution"],
        waypoint=spec["waypoint"],
        ingress_phase=spec.get("ingressPhase"),
        egress_phase=spec.get("egressPhase"),
        priority=spec.get("priority"),
        enable_fallback=spec["enableFallback"],
        created=manifest["metadata"].get("creationTimestamp") or "",
    )
