"""The Router resource as a typed value: its fields, their defaults, and how a validated manifest is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .listener import Listener, parse_console, parse_listener


class Ref(NamedTuple):
    """A resource of a known kind: namespace and name. As a tuple, because thousands are compared and looked up."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class TokenProfile:
    """Which bearer tokens are accepted."""

    name: str
    audience: str
    # Empty: the issuer of the cluster's ServiceAccounts, whose keys the operator reads.
    issuer: str = ""
    # Name of the Secret with the keys; empty: the keys are at the URL, or those of the cluster.
    keys_secret: str = ""
    # Name of the Secret with the authorities for the URL; empty: those of the system.
    ca_secret: str = ""
    # Other attributes of the router's tokenProfile by name, those that are set.
    settings: tuple[tuple[str, str | int | bool], ...] = ()

    @property
    def of_cluster(self) -> bool:
        """Whether it accepts tokens of the cluster's ServiceAccounts."""
        return not self.issuer


@dataclass(frozen=True, slots=True)
class Pod:
    """Settings of the pods of a Router; the mappings have the form of the Kubernetes API."""

    image: str = ""
    image_pull_policy: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    spread: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    # Empty: the default one of the namespace.
    service_account: str = ""
    # The platform chooses the user of the pods.
    platform_user: bool = False
    # Names of Secrets.
    pull_secrets: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouterTls:
    """Who issues the routers' certificates."""

    issuer: str = "Internal"
    # A higher number requests a new authority.
    authority: int = 1
    # (name, kind, group) of a cert-manager issuer; None: an issuer of this mesh.
    issuer_ref: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class S3:
    """A bucket."""

    bucket: str
    prefix: str = ""
    # Empty: AWS.
    endpoint: str = ""
    region: str = ""
    # Name of the Secret with the access keys.
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Export of telemetry."""

    # Off, EmptyDir, Claim or S3
    target: str = "Off"
    # Name of the PersistentVolumeClaim, for the target Claim.
    claim: str = ""
    s3: S3 | None = None
    interval_s: int = 60
    rotate_s: int = 300
    sample_one_in: int = 100
    samples_per_second: int = 100
    max_megabytes: int = 512


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of each router for clients, and whether VhostPolicies are enforced."""

    enabled: bool = False
    # Empty: none.
    default_vhost: str = "$default"
    max_connections: int = 65535
    # Bytes; 0: no limit.
    max_message_size: int = 0
    hostname_patterns: bool = False
    # 0: no warning.
    warn_at_percent: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Router:
    """A set of routers with the same configuration."""

    ref: Ref
    size: int = 1
    role: str = "interior"
    topology: str = "Auto"
    listeners: tuple[Listener, ...] = ()
    drain_timeout_s: int = 30
    drift: str = "Repair"
    # Whether clients move to added routers.
    balance: bool = True
    log_level: str = "info"
    # (module, minimum level), sorted by module.
    log_levels: tuple[tuple[str, str], ...] = ()
    paused: bool = False
    tls: RouterTls = RouterTls()
    pod: Pod = field(default_factory=Pod)
    telemetry: Telemetry = Telemetry()
    policy: Policy = Policy()
    token_profiles: tuple[TokenProfile, ...] = ()
    # Bytes of memory of each router; 0: no limit; None: the container's limit.
    max_memory: int | None = None
    # Seconds; 0: never; None: the routers' default.
    stuck_after_s: int | None = None
    # Threads of each router; those after the first one do TLS.
    worker_threads: int = 1
    uid: str = ""
    generation: int = 0
    created: str = ""


_TOKEN_SETTINGS = (
    "keysUrl", "userClaim", "groupsClaim", "clockSkewSeconds", "allowNoExpiry", "refreshSeconds", "minRefreshSeconds",
    "keepKeysSeconds",
)  # fmt: skip


def router_id(ref: Ref, ordinal: int) -> str:
    """The id of a router. It depends on name and ordinal only, so a restart does not change it."""
    return f"{ref.name}-{ordinal}"


Manifest = Mapping[str, Any]


def ref_of(manifest: Manifest) -> Ref:
    """Return namespace (default: `default`) and name of a manifest."""
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
        listeners=_listeners(spec),
        drain_timeout_s=spec["drain"]["timeoutSeconds"],
        drift=spec["drift"],
        balance=spec["balance"] == "Auto",
        log_level=logging["level"],
        log_levels=tuple(sorted((item["module"], item["level"]) for item in logging.get("modules", ()))),
        paused=spec["paused"],
        tls=_router_tls(spec["tls"]),
        pod=_pod(spec.get("pod", {})),
        telemetry=_telemetry(spec["telemetry"]) if "telemetry" in spec else Telemetry(),
        policy=_policy(spec["policy"]) if "policy" in spec else Policy(),
        token_profiles=tuple(_token_profile(item) for item in spec.get("tokenProfiles", ())),
        max_memory=_bytes(spec["maxMemory"]) if "maxMemory" in spec else None,
        stuck_after_s=spec.get("stuckAfterSeconds"),
        worker_threads=spec.get("workerThreads", 1),
        **server_metadata(manifest),
    )


def _listeners(spec: Mapping[str, Any]) -> tuple[Listener, ...]:
    """Those of `listeners`, and that of the console after them."""
    own = tuple(parse_listener(item) for item in spec["listeners"])
    return own + (parse_console(spec["console"]) if "console" in spec else ())


def server_metadata(manifest: Manifest) -> dict[str, Any]:
    """Metadata that only the API server sets; empty outside a cluster."""
    metadata = manifest["metadata"]
    return {
        "uid": metadata.get("uid") or "",
        "generation": metadata.get("generation") or 0,
        "created": metadata.get("creationTimestamp") or "",
    }


def local_ref(manifest: Manifest, name: str) -> Ref:
    """A reference to a resource in the same namespace."""
    return Ref(ref_of(manifest).namespace, manifest["spec"][name]["name"])


def _policy(spec: Mapping[str, Any]) -> Policy:
    return Policy(
        enabled=spec["enabled"],
        default_vhost=spec["defaultVhost"],
        max_connections=spec["maxConnections"],
        max_message_size=spec["maxMessageSize"],
        hostname_patterns=spec["hostnamePatterns"],
        warn_at_percent=spec["warnAtPercent"],
        dry_run=spec["dryRun"],
    )


def _token_profile(item: Mapping[str, Any]) -> TokenProfile:
    settings = [(name, item[name]) for name in _TOKEN_SETTINGS if name in item]
    if "algorithms" in item:
        settings.append(("algorithms", " ".join(item["algorithms"])))
    return TokenProfile(
        item["name"],
        item["audience"] if "issuer" in item else item["serviceAccounts"]["audience"],
        issuer=item.get("issuer", ""),
        keys_secret=item.get("keysSecretRef", {}).get("name", ""),
        ca_secret=item.get("caSecretRef", {}).get("name", ""),
        settings=tuple(settings),
    )


def _bytes(quantity: str | int) -> int:
    """Return the bytes of a quantity as the CRD allows it: a number with a unit, or 0."""
    text = str(quantity)
    number = text.rstrip("MGTi")
    power = " MGT".find(text[len(number) :][:1] or " ")
    unit: int = 1024 ** (power + 1) if text.endswith("i") else 1000 ** (power + 1)
    return int(number) * unit


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
        service_account=spec.get("serviceAccountName", ""),
        platform_user=spec.get("user") == "Platform",
        pull_secrets=tuple(item["name"] for item in spec.get("imagePullSecrets", ())),
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
