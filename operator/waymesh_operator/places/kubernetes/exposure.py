"""How clients reach listeners: Services and routes of listeners with `expose`, their addresses, and failover lists."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.planning.manifests import LISTENER_LABEL, Manifest, marked
from waymesh_operator.resources.listener import Expose, Listener, app_protocol
from waymesh_operator.resources.router import Router, router_id
from waymesh_operator.router_entities.failover import address, server_urls

from .context import ClusterContext, RouteApis
from .objects import make, port_entry, selector_of

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
"""Label that every pod of a StatefulSet has: its name."""
LONGEST = 63
_PARTED = re.compile("-(?=out-)")
_LIKE_ROUTER_ID = re.compile(r"-\d+$")
PASSED_THROUGH = {
    "nginx.ingress.kubernetes.io/ssl-passthrough": "true",
    "haproxy.org/ssl-passthrough": "true",
    "haproxy-ingress.github.io/ssl-passthrough": "true",
}
"""Annotations for TLS passthrough of the ingress controllers that support it."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """One address under which a listener is exposed: `name` of its Service and route, the router (empty: any)."""

    listener: Listener
    expose: Expose
    name: str
    router_id: str = ""

    @property
    def host(self) -> str:
        """The host name for clients; empty if the setting has none."""
        return self.expose.host_of(self.router_id) if self.router_id and self.expose.host else self.expose.host

    @property
    def route(self) -> str:
        """Kind of the route; empty if the Service needs no route."""
        return route_kind(self.listener)


def route_kind(listener: Listener) -> str:
    """Kind of the routes to a listener; empty for none."""
    kind = listener.expose.type if listener.expose else ""
    if kind == "Gateway":
        return "TLSRoute" if listener.tls else "TCPRoute"
    return kind if kind in ("Route", "Ingress") else ""


def exposures(router: Router, count: int) -> Iterable[Exposure]:
    """Return the exposures of all listeners of a Router with `count` routers."""
    for listener in router.listeners:
        if listener.expose is None:
            continue
        yield Exposure(listener, listener.expose, exposure_name(router.ref.name, listener.name))
        if listener.expose.per_router:
            for one in (router_id(router.ref, ordinal) for ordinal in range(count)):
                yield Exposure(listener, listener.expose, exposure_name(router.ref.name, listener.name, one), one)


def exposure_name(router: str, listener: str, router_id: str = "") -> str:
    """Return the name of a listener's Service, for all routers or for one. A name too long for Kubernetes is cut; such
    a name, and one that an exposure of another Router could also have, ends with a digest."""
    name = f"{router_id or router}-out-{listener}"
    # Router a-0 could be router 0 of Router a, and listener b-out-c of Router a the listener c of Router a-out-b.
    doubtful = len(_PARTED.findall(name)) > 1 or (not router_id and _LIKE_ROUTER_ID.search(router) is not None)
    if len(name) <= LONGEST and not doubtful:
        return name
    identity = f"{router}/{router_id}/{listener}" if doubtful else name
    return f"{name[: LONGEST - 9].rstrip('-')}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def exposure_objects(router: Router, count: int, apis: RouteApis) -> list[Manifest]:
    """Return the Services, and the routes whose API the cluster has."""
    found = list(exposures(router, count))
    routes = [_route(router, one, apis.served[one.route]) for one in found if one.route in apis.served]
    return [*(_service(router, one) for one in found), *routes]


def missing_api(router: Router, apis: RouteApis) -> str:
    """Describe listeners not exposed because the cluster lacks an API or the operator a permission; empty if none."""
    problems = []
    for listener in router.listeners:
        kind, kind_of_exposure = route_kind(listener), listener.expose.type if listener.expose else ""
        if kind in apis.forbidden:
            why = f"the operator has no right to make a {kind} (rbac.exposure of its chart)"
        elif kind and kind not in apis.served:
            why = f"this cluster has no API for a {kind}"
        else:
            continue
        problems.append(f"listener {listener.name} is not exposed by {kind_of_exposure}: {why}")
    return "; ".join(problems)


def _service(router: Router, exposure: Exposure) -> Manifest:
    expose, listener = exposure.expose, exposure.listener
    port = port_entry(listener.name, listener.port) | {"appProtocol": app_protocol(listener.http, tls=listener.tls)}
    if expose.node_port and not exposure.router_id:
        port["nodePort"] = expose.node_port
    selector = selector_of(router.ref.name) | ({POD_NAME_LABEL: exposure.router_id} if exposure.router_id else {})
    spec = {
        "type": "ClusterIP" if exposure.route else expose.type,
        "selector": selector,
        "ports": [port],
        **dict(expose.service),
    }
    return _named(router, exposure, ("v1", "Service"), spec, {} if exposure.route else expose.annotations)


def _route(router: Router, exposure: Exposure, api_version: str) -> Manifest:
    made = {"Route": _openshift, "Ingress": _ingress}.get(exposure.route, _gateway)(exposure)
    own = PASSED_THROUGH if exposure.route == "Ingress" else {}
    return _named(router, exposure, (api_version, exposure.route), made, {**own, **exposure.expose.annotations})


def _gateway(exposure: Exposure) -> dict[str, Any]:
    gateway = exposure.expose.gateway
    assert gateway is not None
    parent = {"name": gateway.name, "namespace": gateway.namespace, "sectionName": gateway.section}
    spec: dict[str, Any] = {
        "parentRefs": [{name: value for name, value in parent.items() if value}],
        "rules": [{"backendRefs": [{"name": exposure.name, "port": exposure.listener.port}]}],
    }
    return spec | ({"hostnames": [exposure.host]} if exposure.route == "TLSRoute" else {})


def _openshift(exposure: Exposure) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "to": {"kind": "Service", "name": exposure.name},
        "port": {"targetPort": exposure.listener.name},
        "tls": {"termination": "passthrough", "insecureEdgeTerminationPolicy": "None"},
    }
    return spec | ({"host": exposure.host} if exposure.host else {})


def _ingress(exposure: Exposure) -> dict[str, Any]:
    backend = {"service": {"name": exposure.name, "port": {"number": exposure.listener.port}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    spec: dict[str, Any] = {"rules": [{"host": exposure.host, "http": {"paths": [path]}}]}
    return spec | ({"ingressClassName": exposure.expose.ingress_class} if exposure.expose.ingress_class else {})


def _named(
    router: Router, exposure: Exposure, kind: tuple[str, str], spec: Mapping[str, Any], annotations: Mapping[str, str]
) -> Manifest:
    manifest = make(router, *kind, "", {"spec": spec})
    metadata = dict(manifest["metadata"])
    metadata |= {
        "name": exposure.name,
        "labels": {**metadata["labels"], LISTENER_LABEL: exposure.listener.name},
        "annotations": {**metadata["annotations"], **annotations},
    }
    return marked({**manifest, "metadata": metadata})


Objects = Mapping[tuple[str, str], Mapping[str, Any]]
"""Live objects by kind and name."""


def exposure_addresses(exposure: Exposure, objects: Objects, nodes: Mapping[str, str]) -> list[str]:
    """Return the addresses of an exposure as `host:port`; empty while they are unknown. `nodes`: by router id."""
    service, port = objects.get(("Service", exposure.name), {}), exposure.listener.port
    if not service:
        return []
    if exposure.route:
        return _of_route(exposure, objects.get((exposure.route, exposure.name), {}))
    if exposure.expose.type == "NodePort":
        ports = [item.get("nodePort") for item in service["spec"].get("ports") or ()]
        # Every node with a router accepts connections, whatever the traffic policy.
        hosts = sorted({host for name, host in nodes.items() if exposure.router_id in ("", name)})
        return [address(host, number) for number in ports if number for host in hosts]
    if exposure.expose.type == "LoadBalancer":
        given = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        hosts = [item.get("hostname") or item.get("ip") for item in given]
        return [address(host, port) for host in hosts if host]
    metadata = service["metadata"]
    return [address(f"{metadata['name']}.{metadata['namespace']}.svc", port)]


def exposed_addresses(
    router: Router, objects: Mapping[tuple[str, str, str], Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Return the addresses of exposed listeners with failover lists, by the name of the exposure. `objects`: live
    objects by kind, namespace and name."""
    wanted = {listener.name for listener in router.listeners if listener.failover}
    if not wanted:
        return {}
    live = {(kind, name): body for (kind, _, name), body in objects.items()}
    nodes = {name: host for (kind, name), body in live.items() if kind == "Pod" and (host := node_of(body))}
    found = (exposure for exposure in exposures(router, router.size) if exposure.listener.name in wanted)
    return {exposure.name: exposure_addresses(exposure, live, nodes) for exposure in found}


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the address of a pod's node; empty if it has none yet."""
    return str((pod.get("status") or {}).get("hostIP") or "")


def _of_route(exposure: Exposure, live: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a route that exists and was not refused."""
    if not live or refusals(live):
        return []
    admitted = [item["host"] for item in (live.get("status") or {}).get("ingress") or () if item.get("host")]
    hosts = [exposure.host] if exposure.host else sorted(set(admitted))
    return [address(host, exposure.expose.port) for host in hosts]


def refusals(route: Mapping[str, Any]) -> list[str]:
    """Return the reasons of Gateways or OpenShift routers that refused a route."""
    status = route.get("status") or {}
    return [
        f"{item.get('reason', '')}: {item.get('message', '')}".strip(": ")
        for judge in (*(status.get("parents") or ()), *(status.get("ingress") or ()))
        for item in judge.get("conditions") or ()
        if item.get("type") in ("Accepted", "ResolvedRefs", "Admitted") and item.get("status") == "False"
    ]


def cluster_urls(router: Router, listener: Listener, ordinal: int, context: ClusterContext) -> tuple[str, ...]:
    """Return the list in a cluster; empty while the addresses for clients outside are unknown.

    Clients of an exposed listener get addresses that are reachable from outside, not names of the cluster's DNS.
    """
    ref, known = router.ref, context.addresses
    ids = [router_id(ref, k) for k in range(router.size)]
    if listener.expose is not None and listener.expose.outside:
        own = [known.get(exposure_name(ref.name, listener.name, one), ()) for one in ids]
        return server_urls(listener, ordinal, own, known.get(exposure_name(ref.name, listener.name), ()))
    domain = f"{ref.namespace}.svc.{context.settings.cluster_domain}"
    names = [[address(f"{one}.{ref.name}-mesh.{domain}", listener.port)] for one in ids]
    return server_urls(listener, ordinal, names, [address(f"{ref.name}.{domain}", listener.port)])
