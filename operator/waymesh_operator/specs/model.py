"""The resources that the operator acts on. All values are as a validated manifest gives them, with defaults applied."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A resource of a known kind: namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A port for clients. `auth` is none, plain, scram or mtls."""

    name: str
    port: int
    tls: bool = False
    auth: str = "none"


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

    @property
    def match(self) -> str:
        """The prefix or the pattern, whichever is given."""
        return self.prefix if self.prefix is not None else self.pattern or ""
