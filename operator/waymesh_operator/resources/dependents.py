"""The resources that refer to a Router (Address, Broker, AutoLink, LinkRoute …): fields, parsing, and conflicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from waymesh_schema.address_match import trimmed_match

from .exchange import Exchange
from .listener import tls_settings
from .router import Manifest, Ref, Router, local_ref, ref_of, server_metadata
from .router_link import RouterLink
from .vhost_policy import VhostPolicy


@dataclass(frozen=True, slots=True)
class Address:
    """How messages to addresses with a prefix, or matching a pattern, are distributed."""

    ref: Ref
    router: Ref
    # Exactly one of prefix and pattern is set.
    prefix: str | None = None
    pattern: str | None = None
    distribution: str = "balanced"
    waypoint: bool = False
    ingress_phase: int | None = None
    egress_phase: int | None = None
    priority: int | None = None
    enable_fallback: bool = False
    exclusive: bool = False
    message_groups: bool = False
    concurrency: int | None = None
    expired: str = "reject"
    # Creation time in the API server's format, "" outside a cluster. Of two with the same match, the oldest wins.
    created: str = ""
    uid: str = ""
    generation: int = 0
    # What represents it on routers (`names.made_once`): it never changes.
    made: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def match(self) -> str:
        """The prefix or the pattern, whichever is set."""
        return self.prefix if self.prefix is not None else self.pattern or ""


@dataclass(frozen=True, slots=True)
class BrokerTls:
    """TLS towards a broker."""

    # Empty: the system's certificate authorities are trusted.
    ca_secret: str = ""
    verify_hostname: bool = True
    # Attributes of the sslProfile by name, those that are set: protocols and ciphers.
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Broker:
    """An AMQP container outside the mesh."""

    ref: Ref
    router: Ref
    # (host, port), tried in turn; none if the broker connects to the routers.
    endpoints: tuple[tuple[str, int], ...]
    # The broker's virtual host.
    hostname: str = ""
    tls: BrokerTls | None = None
    mechanism: str = ""
    secret: str = ""
    # All, One or List; `ordinals` are the routers of a List.
    placement: str = "All"
    ordinals: tuple[int, ...] = ()
    # The container-id that all routers use towards the broker; empty: each router uses its own id.
    container_id: str = ""
    # user or container: whose durable subscriptions are kept apart at the broker; empty: not set.
    durable_names: str = ""
    # The broker's own container-id; set if it connects to the routers.
    incoming_id: str = ""
    # The virtual host whose group $connector limits its links; empty: no limits.
    policy_vhost: str = ""
    created: str = ""
    uid: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class AutoLink:
    """A link that routers attach themselves, to a Broker or to any container with this `container_id`."""

    ref: Ref
    router: Ref
    address: str
    direction: str
    broker: Ref | None = None
    container_id: str | None = None
    phase: int | None = None
    external_address: str | None = None
    fallback: bool = False
    selector: str | None = None
    no_local: bool = False
    distribution_mode: str | None = None
    capabilities: tuple[str, ...] = ()
    link_properties: tuple[tuple[str, str | int], ...] = ()
    deletion_policy: str = "Quiesce"
    created: str = ""
    uid: str = ""
    generation: int = 0
    # What represents it on routers (`names.made_once`): it never changes.
    made: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LinkRoute:
    """Addresses whose links are routed to a container."""

    ref: Ref
    router: Ref
    # in, out or both
    direction: str
    # Exactly one of prefix and pattern is set.
    prefix: str | None = None
    pattern: str | None = None
    broker: Ref | None = None
    container_id: str | None = None
    add_external_prefix: str | None = None
    del_external_prefix: str | None = None
    created: str = ""
    uid: str = ""
    generation: int = 0
    # What represents it on routers (`names.made_once`): it never changes.
    made: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def match(self) -> str:
        """The prefix or the pattern, whichever is given."""
        return self.prefix if self.prefix is not None else self.pattern or ""

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions of the entities: one or both."""
        return ("in", "out") if self.direction == "both" else (self.direction,)


MOST_ROUTERS = 64
"""Maximum of a Router's size."""
Dependent = Address | Broker | AutoLink | LinkRoute | VhostPolicy | RouterLink | Exchange
"""A resource that refers to a Router."""


@dataclass(frozen=True, slots=True)
class Resources:
    """A Router and the resources that refer to it."""

    router: Router
    addresses: tuple[Address, ...] = ()
    brokers: tuple[Broker, ...] = ()
    autolinks: tuple[AutoLink, ...] = ()
    linkroutes: tuple[LinkRoute, ...] = ()
    vhost_policies: tuple[VhostPolicy, ...] = ()
    router_links: tuple[RouterLink, ...] = ()
    exchanges: tuple[Exchange, ...] = ()

    @property
    def dependents(self) -> tuple[tuple[str, Dependent], ...]:
        """The resources that refer to the Router, each with its kind."""
        return (*(("Address", item) for item in self.addresses), *self.others)

    @property
    def others(self) -> tuple[tuple[str, Dependent], ...]:
        """Those that are no Addresses, of which there may be thousands, each with its kind."""
        return (
            *(("Broker", item) for item in self.brokers),
            *(("AutoLink", item) for item in self.autolinks),
            *(("LinkRoute", item) for item in self.linkroutes),
            *(("VhostPolicy", item) for item in self.vhost_policies),
            *(("RouterLink", item) for item in self.router_links),
            *(("Exchange", item) for item in self.exchanges),
        )


def parse_address(manifest: Manifest) -> Address:
    """The Address of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    return Address(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        prefix=spec.get("prefix"),
        pattern=spec.get("pattern"),
        distribution=spec["distribution"],
        waypoint=spec["waypoint"],
        ingress_phase=spec.get("ingressPhase"),
        egress_phase=spec.get("egressPhase"),
        priority=spec.get("priority"),
        enable_fallback=spec["enableFallback"],
        exclusive=spec["exclusive"],
        message_groups=spec["messageGroups"],
        concurrency=spec.get("concurrency"),
        expired=spec["expired"],
        **server_metadata(manifest),
    )


def parse_broker(manifest: Manifest) -> Broker:
    """The Broker of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    auth, placement = spec.get("auth", {}), spec["placement"]
    return Broker(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        endpoints=tuple((item["host"], item["port"]) for item in spec.get("endpoints", ())),
        hostname=spec.get("hostname", ""),
        container_id=spec.get("containerId", ""),
        durable_names=spec.get("durableNames", ""),
        incoming_id=spec["brokerContainerId"] if spec["direction"] == "Incoming" else "",
        policy_vhost=spec.get("policyVhost", ""),
        tls=_broker_tls(spec["tls"]) if "tls" in spec else None,
        mechanism=auth.get("mechanism", ""),
        secret=auth.get("secretRef", {}).get("name", ""),
        placement=placement["routers"],
        ordinals=tuple(sorted(placement.get("ordinals", ()))),
        **server_metadata(manifest),
    )


def _broker_tls(spec: Mapping[str, Any]) -> BrokerTls:
    settings = tls_settings(spec.get("protocols"), spec.get("ciphers"))
    return BrokerTls(spec.get("caSecretRef", {}).get("name", ""), spec["verifyHostname"], settings)


def parse_autolink(manifest: Manifest) -> AutoLink:
    """The AutoLink of a validated manifest; its Router and Broker are in the same namespace."""
    spec = manifest["spec"]
    return AutoLink(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        address=spec["address"],
        direction=spec["direction"],
        broker=local_ref(manifest, "brokerRef") if "brokerRef" in spec else None,
        container_id=spec.get("containerId"),
        phase=spec.get("phase"),
        external_address=spec.get("externalAddress"),
        fallback=spec["fallback"],
        selector=spec.get("selector"),
        no_local=spec["noLocal"],
        distribution_mode=spec.get("distributionMode"),
        capabilities=tuple(sorted(spec.get("capabilities", ()))),
        link_properties=tuple(sorted(spec.get("linkProperties", {}).items())),
        deletion_policy=spec["deletionPolicy"],
        **server_metadata(manifest),
    )


def parse_linkroute(manifest: Manifest) -> LinkRoute:
    """The LinkRoute of a validated manifest; its Router and Broker are in the same namespace."""
    spec = manifest["spec"]
    return LinkRoute(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        direction=spec["direction"],
        prefix=spec.get("prefix"),
        pattern=spec.get("pattern"),
        broker=local_ref(manifest, "brokerRef") if "brokerRef" in spec else None,
        container_id=spec.get("containerId"),
        add_external_prefix=spec.get("addExternalPrefix"),
        del_external_prefix=spec.get("delExternalPrefix"),
        **server_metadata(manifest),
    )


_R = TypeVar("_R", Address, Broker, AutoLink, LinkRoute, VhostPolicy, RouterLink)
_L = TypeVar("_L", AutoLink, LinkRoute)


def _comparable_match(resource: Address | LinkRoute) -> tuple[bool, str]:
    """Whether the match is a pattern, and the match without separators at its ends, which routers ignore."""
    return resource.prefix is None, trimmed_match(resource.match)


def conflicts(addresses: Iterable[Address]) -> dict[Ref, Address]:
    """Return Addresses with the same match as an older Address of the same Router: loser → winner."""
    addresses = list(addresses)
    if len(set(map(_comparable_match, addresses))) == len(addresses):
        return {}  # nearly always: then thousands need not be sorted
    return _losers(addresses, lambda a: [(a.router, *_comparable_match(a))])


def broker_conflicts(brokers: Iterable[Broker]) -> dict[Ref, Broker]:
    """Return Brokers that connect to the routers with the same container-id as an older one: loser → winner."""
    return _losers(brokers, lambda b: [(b.router, b.incoming_id)] if b.incoming_id else [])


def by_container(links: Iterable[_L], brokers: Iterable[Broker]) -> list[_L]:
    """Return the links; those to a Broker that connects to the routers refer to its container-id instead."""
    ids = {broker.ref: broker.incoming_id for broker in brokers if broker.incoming_id}
    return [replace(link, broker=None, container_id=ids[link.broker]) if link.broker in ids else link for link in links]


_NOT_OF_LINK: Mapping[str, Any] = {
    "ref": Ref("", ""), "fallback": False, "deletion_policy": "", "created": "", "uid": "", "generation": 0,
}  # fmt: skip
"""Fields in which two AutoLinks may differ although they request the same link."""


def autolink_conflicts(autolinks: Iterable[AutoLink]) -> dict[Ref, AutoLink]:
    """Return AutoLinks that would attach the same link as an older one: loser → winner."""
    return _losers(autolinks, lambda a: [replace(a, **_NOT_OF_LINK)])


def linkroute_conflicts(linkroutes: Iterable[LinkRoute]) -> dict[Ref, LinkRoute]:
    """Return LinkRoutes with the same match as an older one in one of their directions: loser → winner."""
    return _losers(linkroutes, lambda r: [(r.router, *_comparable_match(r), way) for way in r.directions])


def router_link_conflicts(links: Iterable[RouterLink]) -> dict[Ref, RouterLink]:
    """Return RouterLinks with the token or an endpoint of an older one of the same Router: loser → winner.

    Those with lists of other routers do not conflict.
    """
    return _losers(links, _link_claims)


def _link_claims(link: RouterLink) -> list[Hashable]:
    ordinals = link.ordinals if link.placement == "List" else range(MOST_ROUTERS)
    places = [place for place in (link.token, *link.endpoints) if place]
    return [(link.router, place, ordinal) for place in places for ordinal in ordinals]


def vhost_policy_conflicts(policies: Iterable[VhostPolicy]) -> dict[Ref, VhostPolicy]:
    """Return VhostPolicies with a host name or alias of an older one of the same Router: loser → winner."""
    return _losers(policies, lambda p: [(p.router, name) for name in p.names])


def unclaimed_names(policies: Iterable[VhostPolicy]) -> dict[Ref, tuple[str, ...]]:
    """Return the host names of each loser of `vhost_policy_conflicts` that no other VhostPolicy of its Router has.

    Of several losers with a common name, the oldest gets it.
    """
    policies = list(policies)
    lost = vhost_policy_conflicts(policies)
    taken = {(policy.router, name) for policy in policies if policy.ref not in lost for name in policy.names}
    left: dict[Ref, tuple[str, ...]] = {}
    for policy in sorted((p for p in policies if p.ref in lost), key=lambda p: (p.created, p.ref)):
        left[policy.ref] = tuple(name for name in policy.names if (policy.router, name) not in taken)
        taken.update((policy.router, name) for name in left[policy.ref])
    return left


def _losers(resources: Iterable[_R], keys: Callable[[_R], list[Hashable]]) -> dict[Ref, _R]:
    """Return the losers. A loser does not claim a key, so it cannot conflict with a third resource."""
    winners: dict[Hashable, _R] = {}
    lost: dict[Ref, _R] = {}
    for resource in sorted(resources, key=lambda r: (r.created, r.ref.namespace, r.ref.name)):
        wanted = keys(resource)
        winner = next((winners[key] for key in wanted if key in winners), None)
        if winner is None:
            winners.update(dict.fromkeys(wanted, resource))
        else:
            lost[resource.ref] = winner
    return lost
