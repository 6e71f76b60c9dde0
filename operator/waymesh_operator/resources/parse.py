"""From validated manifests (unknown fields refused, defaults applied) to typed resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model import S3, Address, AutoLink, Broker, BrokerTls, LinkRoute, Listener, Pod, Ref, Router, RouterTls, Telemetry

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
        listeners=tuple(_listener(item) for item in spec["listeners"]),
        drain_timeout_s=spec["drain"]["timeoutSeconds"],
        drift=spec["drift"],
        log_level=logging["level"],
        log_levels=tuple(sorted((item["module"], item["level"]) for item in logging.get("modules", ()))),
        paused=spec["paused"],
        tls=_router_tls(spec["tls"]),
        pod=_pod(spec.get("pod", {})),
        telemetry=_telemetry(spec["telemetry"]) if "telemetry" in spec else Telemetry(),
        **_metadata(manifest),
    )


def parse_address(manifest: Manifest) -> Address:
    """The Address of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    return Address(
        ref=ref_of(manifest),
        router=_local(manifest, "routerRef"),
        prefix=spec.get("prefix"),
        pattern=spec.get("pattern"),
        distribution=spec["distribution"],
        waypoint=spec["waypoint"],
        ingress_phase=spec.get("ingressPhase"),
        egress_phase=spec.get("egressPhase"),
        priority=spec.get("priority"),
        enable_fallback=spec["enableFallback"],
        **_metadata(manifest),
    )


def parse_broker(manifest: Manifest) -> Broker:
    """The Broker of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    auth, placement, tls = spec.get("auth", {}), spec["placement"], spec.get("tls")
    return Broker(
        ref=ref_of(manifest),
        router=_local(manifest, "routerRef"),
        endpoints=tuple((item["host"], item["port"]) for item in spec["endpoints"]),
        hostname=spec.get("hostname", ""),
        container_id=spec.get("containerId", ""),
        tls=None if tls is None else BrokerTls(tls.get("caSecretRef", {}).get("name", ""), tls["verifyHostname"]),
        mechanism=auth.get("mechanism", ""),
        secret=auth.get("secretRef", {}).get("name", ""),
        placement=placement["routers"],
        ordinals=tuple(sorted(placement.get("ordinals", ()))),
        **_metadata(manifest),
    )


def parse_autolink(manifest: Manifest) -> AutoLink:
    """The AutoLink of a validated manifest; its Router and Broker are in the same namespace."""
    spec = manifest["spec"]
    return AutoLink(
        ref=ref_of(manifest),
        router=_local(manifest, "routerRef"),
        address=spec["address"],
        direction=spec["direction"],
        broker=_local(manifest, "brokerRef") if "brokerRef" in spec else None,
        container_id=spec.get("containerId"),
        phase=spec.get("phase"),
        external_address=spec.get("externalAddress"),
        fallback=spec["fallback"],
        deletion_policy=spec["deletionPolicy"],
        **_metadata(manifest),
    )


def parse_linkroute(manifest: Manifest) -> LinkRoute:
    """The LinkRoute of a validated manifest; its Router and Broker are in the same namespace."""
    spec = manifest["spec"]
    return LinkRoute(
        ref=ref_of(manifest),
        router=_local(manifest, "routerRef"),
        direction=spec["direction"],
        prefix=spec.get("prefix"),
        pattern=spec.get("pattern"),
        broker=_local(manifest, "brokerRef") if "brokerRef" in spec else None,
        container_id=spec.get("containerId"),
        add_external_prefix=spec.get("addExternalPrefix"),
        del_external_prefix=spec.get("delExternalPrefix"),
        **_metadata(manifest),
    )


def _metadata(manifest: Manifest) -> dict[str, Any]:
    """What the API server knows of a resource; nothing of it is there outside a cluster."""
    metadata = manifest["metadata"]
    return {
        "uid": metadata.get("uid") or "",
        "generation": metadata.get("generation") or 0,
        "created": metadata.get("creationTimestamp") or "",
    }


def _local(manifest: Manifest, name: str) -> Ref:
    """A reference to a resource in the same namespace."""
    return Ref(ref_of(manifest).namespace, manifest["spec"][name]["name"])


def _listener(item: Mapping[str, Any]) -> Listener:
    users = item["users"]["secretRef"]["name"] if "users" in item else ""
    route, offered = item.get("routeAddress", ""), tuple(item.get("openCapabilities", ()))
    return Listener(item["name"], item["port"], item["tls"], item["auth"], users, route, offered)


def _router_tls(spec: Mapping[str, Any]) -> RouterTls:
    reference = spec.get("issuerRef")
    chosen = (reference["name"], reference["kind"], reference["group"]) if reference else None
    return RouterTls(spec["issuer"], spec["authority"], chosen)


def _pod(spec: Mapping[str, Any]) -> Pod:
    return Pod(
        image=spec.get("image", ""),
        image_pull_policy=spec.get("imagePullPolicy", ""),
        resources=spec.get("resources", {}),
        affinity=spec.get("affinity", {}),
        tolerations=tuple(spec.get("tolerations", ())),
        spread=tuple(spec.get("topologySpreadConstraints", ())),
        node_selector=spec.get("nodeSelector", {}),
        priority_class=spec.get("priorityClassName", ""),
        annotations=spec.get("annotations", {}),
        labels=spec.get("labels", {}),
    )


def _telemetry(spec: Mapping[str, Any]) -> Telemetry:
    return Telemetry(
        target=spec["target"],
        claim=spec["claimRef"]["name"] if spec["target"] == "Claim" else "",
        s3=_s3(spec["s3"]) if spec["target"] == "S3" else None,
        interval_s=spec["intervalSeconds"],
        rotate_s=spec["rotateSeconds"],
        sample_one_in=spec["sampleOneIn"],
        samples_per_second=spec["samplesPerSecond"],
        max_megabytes=spec["maxMegabytes"],
    )


def _s3(spec: Mapping[str, Any]) -> S3:
    return S3(
        bucket=spec["bucket"],
        prefix=spec.get("prefix", ""),
        endpoint=spec.get("endpoint", ""),
        region=spec.get("region", ""),
        secret=spec.get("secretRef", {}).get("name", ""),
    )
