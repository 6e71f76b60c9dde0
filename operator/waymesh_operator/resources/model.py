"""The resources that the operator acts on. All values are as a validated manifest gives them, with defaults applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A resource of a known kind: namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A port for clients. `auth` is none, plain, scram or mtls; `users` names the Secret that holds the passwords.

    `route_address` leads to the broker that stands behind it, if one does; `open_capabilities` are offered to clients
    besides the routers' own and that broker's.
    """

    name: str
    port: int
    tls: bool = False
    auth: str = "none"
    users: str = ""
    route_address: str = ""
    open_capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """How the pods of a Router are made and placed; the mappings are as Kubernetes takes them."""

    image: str = ""
    image_pull_policy: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    spread: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouterTls:
    """Who issues the routers' certificates. `authority` goes up to ask for a new authority; `issuer_ref` is the
    cert-manager issuer as (name, kind, group), empty for one of the mesh's own."""

    issuer: str = "Internal"
    authority: int = 1
    issuer_ref: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class S3:
    """A bucket; `endpoint` is empty for that of AWS, `secret` names the Secret with the access keys."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Export of what the routers do. `target` is Off, EmptyDir, Claim (named by `claim`) or S3 (in `s3`)."""

    target: str = "Off"
    claim: str = ""
    s3: S3 | None = None
    interval_s: int = 60
    rotate_s: int = 300
    sample_one_in: int = 100
    samples_per_second: int = 100
    max_megabytes: int = 512


@dataclass(frozen=True, slots=True)
class Router:
    """A set of routers that are configured alike. `log_levels` holds (module, least level), sorted by module."""

    ref: Ref
    size: int = 1
    role: str = "interior"
    topology: str = "Auto"
    listeners: tuple[Listener, ...] = ()
    drain_timeout_s: int = 30
    drift: str = "Repair"
    log_level: str = "info"
    log_levels: tuple[tuple[str, str], ...] = ()
    paused: bool = False
    tls: RouterTls = RouterTls()
    pod: Pod = field(default_factory=Pod)
    telemetry: Telemetry = Telemetry()
    uid: str = ""
    generation: int = 0
    created: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """How messages to the addresses of a prefix or a pattern are distributed. Just one of the two is given.

    `created` is the creation time as the API server writes it ("" outside a cluster): of two that want the same prefix
    or pattern the oldest wins.
    """

    ref: Ref
    router: Ref
    prefix: str | None = None
    pattern: str | None = None
    distribution: str = "balanced"
    waypoint: bool = False
    ingress_phase: int | None = None
    egress_phase: int | None = None
    priority: int | None = None
    enable_fallback: bool = False
    created: str = ""
    uid: str = ""
    generation: int = 0

    @property
    def match(self) -> str:
        """The prefix or the pattern, whichever is given."""
        return self.prefix if self.prefix is not None else self.pattern or ""


@dataclass(frozen=True, slots=True)
class BrokerTls:
    """TLS towards a broker. Without `ca_secret` the authorities of the system are trusted."""

    ca_secret: str = ""
    verify_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Broker:
    """An AMQP container outside the mesh. `endpoints` are (host, port), tried in turn.

    `hostname` is its virtual host, `container_id` what all routers call themselves there, "" for the id of each.
    `placement` is All, One or List; `ordinals` are the routers of a List.
    """

    ref: Ref
    router: Ref
    endpoints: tuple[tuple[str, int], ...]
    hostname: str = ""
    tls: BrokerTls | None = None
    mechanism: str = ""
    secret: str = ""
    placement: str = "All"
    ordinals: tuple[int, ...] = ()
    container_id: str = ""
    created: str = ""
    uid: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class AutoLink:
    """A link that routers attach by themselves, to a Broker or to whatever container has `container_id`."""

    ref: Ref
    router: Ref
    address: str
    direction: str
    broker: Ref | None = None
    container_id: str | None = None
    phase: int | None = None
    external_address: str | None = None
    fallback: bool = False
    deletion_policy: str = "Quiesce"
    created: str = ""
    uid: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class LinkRoute:
    """Addresses whose links are passed through. `direction` is in, out or both; just one of prefix and pattern is
    given."""

    ref: Ref
    router: Ref
    direction: str
    prefix: str | None = None
    pattern: str | None = None
    broker: Ref | None = None
    container_id: str | None = None
    add_external_prefix: str | None = None
    del_external_prefix: str | None = None
    created: str = ""
    uid: str = ""
    generation: int = 0

    @property
    def match(self) -> str:
        """The prefix or the pattern, whichever is given."""
        return self.prefix if self.prefix is not None else self.pattern or ""

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions that it is about, one or two."""
        return ("in", "out") if self.direction == "both" else (self.direction,)


Dependent = Address | Broker | AutoLink | LinkRoute
"""A resource that refers to a Router."""


@dataclass(frozen=True, slots=True)
class Resources:
    """All that one mesh is made of: its Router and what refers to it."""

    router: Router
    addresses: tuple[Address, ...] = ()
    brokers: tuple[Broker, ...] = ()
    autolinks: tuple[AutoLink, ...] = ()
    linkroutes: tuple[LinkRoute, ...] = ()

    @property
    def dependents(self) -> tuple[tuple[str, Dependent], ...]:
        """What refers to the Router, each with its kind."""
        return (
            *(("Address", item) for item in self.addresses),
            *(("Broker", item) for item in self.brokers),
            *(("AutoLink", item) for item in self.autolinks),
            *(("LinkRoute", item) for item in self.linkroutes),
        )
