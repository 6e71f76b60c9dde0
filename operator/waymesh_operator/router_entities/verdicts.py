"""Verdicts on resources before any router is asked: conflicts, references that do not resolve, unusable Secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from waymesh_operator.resources.dependents import (
    Address,
    AutoLink,
    Broker,
    Dependent,
    LinkRoute,
    Resources,
    autolink_conflicts,
    broker_conflicts,
    by_container,
    conflicts,
    linkroute_conflicts,
    router_link_conflicts,
    unclaimed_names,
    vhost_policy_conflicts,
)
from waymesh_operator.resources.exchange import Exchange, exchange_conflicts
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.resources.router_link import ROLES, TOKEN_KEYS, RouterLink, read_token
from waymesh_operator.resources.vhost_policy import VhostPolicy

from .builders import address_entity
from .credentials import LINK_PARTS, SecretData, Secrets, broker_files, link_files, listener_keys, unusable_users
from .entities import entities_of, refusal
from .without_effect import listeners_without_users, reserved_address, takes_everything, unusable_endpoint


@dataclass(frozen=True, slots=True)
class Verdict:
    """The validity of a resource, as far as it can be judged without asking a router."""

    # The resource is valid.
    accepted: bool = True
    # All its references are resolved.
    resolved_refs: bool = True
    # An older resource has claimed the same.
    conflicted: bool = False
    # One word, and a sentence for users.
    reason: str = "Accepted"
    message: str = ""
    # Whether its existing entities stay unchanged.
    held: bool = False
    # Whether the resource can be ready although a reference is missing.
    spared: bool = False

    @property
    def good(self) -> bool:
        """Whether the resource is applied."""
        return self.accepted and self.resolved_refs and not self.conflicted


GOOD = Verdict()
DURABLE_NAMES_UNSET = (
    "valid, but durableNames is not set: as with container, another user with the same container-id gets the durable "
    "subscriptions of a user over LinkRoutes"
)
MAX_USER = 255
"""Maximum number of characters of a Broker's user name."""
MAX_FILES_BYTES = 768 * 1024
"""Maximum size of the files of all Brokers and RouterLinks of a mesh. The API server refuses a Secret of more than
1 MiB: then also users and certificates of listeners would stay as they are."""
SHOWN = 5
"""Maximum number of unusable users, and of listeners, named in a message."""
Verdicts = dict[tuple[str, Ref], Verdict]
Claims = Mapping[str, tuple[str, ...] | None]
"""Access modes of PersistentVolumeClaims by name; None for a claim that does not exist."""


def judge(resources: Resources, secrets: Secrets) -> Verdicts:
    """Return the verdict on every resource except the Router."""
    verdicts: Verdicts = {}
    for broker in resources.brokers:
        verdicts["Broker", broker.ref] = _unless_refused(broker, _broker(broker, resources.router, secrets), secrets)
    for link in resources.router_links:
        verdicts["RouterLink", link.ref] = _unless_refused(link, _router_link(link, resources.router, secrets), secrets)
    _refuse_large_files(resources, secrets, verdicts)
    for exchange in resources.exchanges:
        verdicts["Exchange", exchange.ref] = _unless_refused(exchange, _placed(exchange, resources.router), secrets)
    unclaimed = unclaimed_names(resources.vhost_policies)
    for kind, ref, winner in _conflicts(resources):
        message = f"{kind} {winner.ref} is older and already has {_what(winner)}"
        if closed := unclaimed.get(ref):
            message += f"; meanwhile its other host names allow no client: {', '.join(closed)}"
        verdicts[kind, ref] = Verdict(conflicted=True, reason="Conflicted", message=message)
    for address in resources.addresses:
        key = "Address", address.ref
        if key not in verdicts:
            verdicts[key] = _address(address)
    for kind, resource in resources.others:
        if (kind, resource.ref) not in verdicts:
            broker_ref = resource.broker if isinstance(resource, AutoLink | LinkRoute) else None
            verdict = GOOD if broker_ref is None else _reference(broker_ref, verdicts)
            if verdict.good and isinstance(resource, LinkRoute):
                verdict = Verdict(message=takes_everything(resource))
            verdicts[kind, resource.ref] = _unless_refused(resource, verdict, secrets)
    return verdicts


def _address(address: Address) -> Verdict:
    """Return the verdict on an Address alone, which is computed once."""
    known = address_entity(address).known
    if known.verdict is None:
        why = reserved_address(address)
        verdict = Verdict(accepted=False, reason="ReservedAddress", message=why, held=True) if why else GOOD
        known.verdict = _unless_refused(address, verdict, {})
    found: Verdict = known.verdict
    return found


def _unless_refused(resource: Dependent, verdict: Verdict, secrets: Secrets) -> Verdict:
    """Return the verdict, or another one if it is good but routers would refuse an entity of the resource. Then running
    routers keep what they have, which an older image may have accepted, except that a vhost is closed on all routers.
    """
    if not verdict.good:
        return verdict
    wrong = next(filter(None, map(refusal, entities_of(resource, secrets))), "")
    if not wrong:
        return verdict
    policy = isinstance(resource, VhostPolicy)
    now = "; meanwhile its host names allow no client" if policy else "; running routers keep what they have of it"
    message = f"routers refuse it: {wrong}{now}"
    return Verdict(accepted=False, reason="RefusedByRouters", message=message, held=not policy)


def _refuse_large_files(resources: Resources, secrets: Secrets, verdicts: Verdicts) -> None:
    """Change the verdict on good Brokers and RouterLinks whose files do not fit beside those of older ones."""

    def files(peer: Broker | RouterLink) -> Mapping[str, bytes]:
        own = secrets.get(peer.secret) or {}
        if isinstance(peer, RouterLink):
            return link_files(peer, own)
        return broker_files(peer, own, (secrets.get(peer.tls.ca_secret) if peer.tls else None) or {})

    size = 0
    peers = [(kind, peer) for kind, peer in resources.others if isinstance(peer, Broker | RouterLink)]
    for kind, peer in sorted(peers, key=lambda item: (item[1].created, item[1].ref)):
        if verdicts[kind, peer.ref].good:
            own = sum(map(len, files(peer).values()))
            if size + own > MAX_FILES_BYTES:
                message = f"its files have {own:,} bytes, those of older Brokers and RouterLinks {size:,}: together, "
                message += f"more than {MAX_FILES_BYTES:,}"
                verdicts[kind, peer.ref] = Verdict(accepted=False, reason="SecretTooLarge", message=message)
            else:
                size += own


def stalled(verdict: Verdict, why: str) -> Verdict:
    """The verdict on a Router, otherwise as in `verdict`, whose routers cannot be started as desired."""
    wrong = "" if verdict.good or verdict.spared else verdict.message
    resolved = verdict.resolved_refs or verdict.spared
    return Verdict(False, resolved, reason="Stalled", message="; ".join(filter(None, (why, wrong))))


def judge_router(router: Router, secrets: Secrets, claims: Claims) -> Verdict:
    """The verdict on the Router itself."""
    listeners = (_judge_named(router, listener, secrets) for listener in router.listeners)
    wrong = together((judge_users(router, secrets), *listeners))
    return judge_telemetry(router, secrets, claims) if wrong.good else wrong


def _judge_named(router: Router, listener: Listener, secrets: Secrets) -> Verdict:
    """The verdict on a listener, with its name in the message."""
    if trusts_own_mesh(router.ref, listener):
        message = f"listener {listener.name}: closed, as its clientAuthorities are those of the mesh itself"
        return Verdict(accepted=False, reason="OwnAuthority", message=message)
    verdict = judge_listener(listener, secrets)
    if verdict.good:
        return verdict
    joins = verdict.reason == "SecretMissing" and listener.role in ROLES and listener.authorities
    how = f"; kubectl waymesh link create-token {router.ref.name} --listener {listener.name} makes it" if joins else ""
    return replace(verdict, held=False, message=f"listener {listener.name}: {verdict.message}{how}")


def trusts_own_mesh(router: Ref, listener: Listener) -> bool:
    """Return whether anyone with a certificate of the mesh, such as a client, could connect as a router of another
    mesh."""
    own = [f"{router.name}{suffix}" for suffix in ("-ca", "-tls", "-operator-tls")]
    return listener.role in ROLES and listener.authorities in own


def judge_users(router: Router, secrets: Secrets) -> Verdict:
    """Return whether the Secret with the users of the listeners exists, and all of them can log in."""
    if closed := listeners_without_users(router):
        return Verdict(resolved_refs=False, reason="NoUsers", message=closed)
    for name in sorted({listener.users for listener in router.listeners} - {""}):
        data = secrets.get(name)
        if data is None:
            message = f"Secret {name} with the users of the listeners does not exist: no user can log in"
            return Verdict(resolved_refs=False, reason="SecretMissing", message=message)
        bad = unusable_users(data)
        if bad:
            rejected = [f"{user} ({why})" for user, why in list(bad.items())[:SHOWN]]
            more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
            message = f"Secret {name}: these users cannot log in: {', '.join(rejected)}{more}"
            return Verdict(resolved_refs=False, reason="SecretUnusable", message=message)
    return GOOD


def judge_listener(listener: Listener, secrets: Secrets) -> Verdict:
    """Return whether the Secrets with its certificate and authorities are complete."""
    return together(_secret(name, secrets.get(name), keys) for name, keys in listener_keys(listener))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The first verdict that is not good, with the messages of others of its kind: all that is to be mended at once."""
    bad = [verdict for verdict in verdicts if not verdict.good]
    if not bad:
        return GOOD
    messages = list(dict.fromkeys(one.message for one in bad if one.accepted == bad[0].accepted))
    more = f"; and {len(messages) - SHOWN} more" if len(messages) > SHOWN else ""
    return replace(bad[0], message="; ".join(messages[:SHOWN]) + more)


def _broker(broker: Broker, router: Router, secrets: Secrets) -> Verdict:
    if broker.incoming_id and not any(listener.role == "route-container" for listener in router.listeners):
        message = f"Router {router.ref.name} has no listener with role route-container, for the broker to connect to"
        return Verdict(accepted=False, reason="NoListener", message=message)
    placed = _placed(broker, router)
    if not placed.good:
        return placed
    wanted = {broker.secret: _keys(broker)} if broker.secret and broker.mechanism != "ANONYMOUS" else {}
    if broker.tls and broker.tls.ca_secret:
        wanted[broker.tls.ca_secret] = (*wanted.get(broker.tls.ca_secret, ()), "ca.crt")
    for name, keys in sorted(wanted.items()):
        verdict = _secret(name, secrets.get(name), keys)
        if not verdict.good:
            return verdict
    unsafe = not (broker.incoming_id or broker.durable_names)
    return Verdict(message=DURABLE_NAMES_UNSET) if unsafe else GOOD


def _placed(peer: Broker | RouterLink | Exchange, router: Router) -> Verdict:
    """Whether a router has one of the ordinals of a List."""
    if peer.placement == "List" and router.size and not any(k < router.size for k in peer.ordinals):
        message = f"no router has one of the ordinals in placement: the highest is {router.size - 1}"
        return Verdict(accepted=False, reason="NoSuchRouter", message=message)
    return GOOD


_ROLES = {"interior": "inter-router", "edge": "edge"}
"""The role of connections to other meshes, by the role of the Router."""


def _router_link(link: RouterLink, router: Router, secrets: Secrets) -> Verdict:
    wanted = _ROLES.get(router.role)
    if wanted is None:
        message = f"Router {router.ref.name} has role {router.role}, whose routers connect to no other router"
        return Verdict(accepted=False, reason="WrongRole", message=message)
    if link.role != wanted:
        message = f"Router {router.ref.name} has role {router.role}, so the role of its RouterLinks must be {wanted}"
        return Verdict(accepted=False, reason="WrongRole", message=message)
    placed = _placed(link, router)
    if not placed.good or not link.secret:
        return placed
    data = secrets.get(link.secret)
    verdict = _secret(link.secret, data, TOKEN_KEYS if link.token else LINK_PARTS)
    return _token(link, router, data) if verdict.good and link.token and data else verdict


def _token(link: RouterLink, router: Router, data: SecretData) -> Verdict:
    """Return whether a complete token matches the RouterLink."""
    try:
        token = read_token(data)
    except ValueError as error:
        return _unresolved("TokenUnusable", f"Secret {link.token}: {error}")
    if token.role != link.role:
        message = f"Secret {link.token} is for role {token.role}, not for {link.role}"
        return Verdict(accepted=False, reason="WrongToken", message=message)
    if token.mesh == router.ref.name:
        message = f"the mesh of Secret {link.token} is named {token.mesh} like this Router: router ids would be equal"
        return Verdict(accepted=False, reason="SameMesh", message=message)
    return GOOD


def _keys(broker: Broker) -> tuple[str, ...]:
    return ("tls.crt", "tls.key") if broker.mechanism == "EXTERNAL" else ("username", "password")


def judge_keys(name: str, data: SecretData | None, keys: tuple[str, ...]) -> tuple[str, str] | None:
    """Return reason and message if a Secret does not exist or lacks keys; None if it is complete."""
    if data is None:
        return "SecretMissing", f"Secret {name} does not exist"
    missing = [key for key in keys if not data.get(key)]
    return ("SecretIncomplete", f"Secret {name} lacks {', '.join(missing)}") if missing else None


def _secret(name: str, data: SecretData | None, keys: tuple[str, ...]) -> Verdict:
    """Return the verdict. A Secret that is briefly missing, as during a replacement, must not end the connection: hence
    `held`."""
    if wrong := judge_keys(name, data, keys):
        return _unresolved(*wrong)
    if data and "username" in keys and not _is_user(data["username"]):
        message = f"Secret {name}: username is not a name of at most {MAX_USER} printable characters"
        return _unresolved("SecretUnusable", message)
    return GOOD


def _unresolved(reason: str, message: str) -> Verdict:
    return Verdict(resolved_refs=False, reason=reason, message=message, held=True)


def _is_user(value: bytes) -> bool:
    """Whether it is a user name, perhaps with blanks or line ends around it. It becomes a part of the seed, with which
    all routers start."""
    try:
        user = value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return False
    return 0 < len(user) <= MAX_USER and user.isprintable()


def _reference(broker: Ref, verdicts: Mapping[tuple[str, Ref], Verdict]) -> Verdict:
    """Return whether the Broker that a resource refers to exists at the same Router and is usable."""
    found = verdicts.get(("Broker", broker))
    if found is None:
        message = f"there is no Broker {broker.name} at this Router"
        return Verdict(resolved_refs=False, reason="BrokerMissing", message=message)
    if not found.good:
        message = f"Broker {broker.name}: {found.message}"
        return Verdict(resolved_refs=False, reason="BrokerUnusable", message=message, held=found.held)
    return GOOD


_Winner = Address | Broker | AutoLink | LinkRoute | VhostPolicy | RouterLink | Exchange


def _conflicts(resources: Resources) -> list[tuple[str, Ref, _Winner]]:
    autolinks = by_container(resources.autolinks, resources.brokers)
    return [
        *(("Broker", ref, winner) for ref, winner in broker_conflicts(resources.brokers).items()),
        *(("Address", ref, winner) for ref, winner in conflicts(resources.addresses).items()),
        *(("AutoLink", ref, winner) for ref, winner in autolink_conflicts(autolinks).items()),
        *(("LinkRoute", ref, winner) for ref, winner in linkroute_conflicts(resources.linkroutes).items()),
        *(("VhostPolicy", ref, winner) for ref, winner in vhost_policy_conflicts(resources.vhost_policies).items()),
        *(("RouterLink", ref, winner) for ref, winner in router_link_conflicts(resources.router_links).items()),
        *(("Exchange", ref, winner) for ref, winner in exchange_conflicts(resources.exchanges).items()),
    ]


def _what(resource: _Winner) -> str:
    if isinstance(resource, Broker):
        return f"brokerContainerId {resource.incoming_id}"
    if isinstance(resource, RouterLink):
        return f"the token in Secret {resource.token}" if resource.token else "one of its endpoints"
    if isinstance(resource, Exchange):
        return f"address {resource.address}, or one of both sends to the other"
    if isinstance(resource, VhostPolicy):
        return f"one of its host names: {', '.join(resource.names)}"
    if isinstance(resource, AutoLink):
        return f"{resource.direction} {resource.address}"
    kind = "prefix" if resource.prefix is not None else "pattern"
    ways = f" {resource.direction}" if isinstance(resource, LinkRoute) else ""
    return f"{kind} {resource.match}{ways}"


S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""Keys of the Secret of an S3 target, as the uploader's environment variables."""


def judge_telemetry(router: Router, secrets: Secrets, claims: Claims) -> Verdict:
    """Return whether the claim or the Secret that the export needs exists and is usable."""
    telemetry = router.telemetry
    if telemetry.target == "Claim":
        return _claim(router, claims.get(telemetry.claim))
    if telemetry.s3 is None:
        return GOOD
    if why := unusable_endpoint(telemetry.s3.endpoint) if telemetry.s3.endpoint else "":
        return _export_unresolved("EndpointUnusable", why)
    if not telemetry.s3.secret:
        return GOOD
    data = secrets.get(telemetry.s3.secret)
    if data is None:
        return _export_unresolved("SecretMissing", f"Secret {telemetry.s3.secret} does not exist")
    missing = [key for key in S3_KEYS if not data.get(key)]
    if missing:
        return _export_unresolved("SecretIncomplete", f"Secret {telemetry.s3.secret} lacks {', '.join(missing)}")
    return GOOD


def _claim(router: Router, modes: tuple[str, ...] | None) -> Verdict:
    name = router.telemetry.claim
    if modes is None:
        return _export_unresolved("ClaimMissing", f"PersistentVolumeClaim {name} does not exist")
    if "ReadWriteMany" not in modes:
        return _export_unresolved("ClaimUnusable", f"PersistentVolumeClaim {name} is not ReadWriteMany")
    return GOOD


def _export_unresolved(reason: str, message: str) -> Verdict:
    text = f"telemetry: {message}; the export is not changed"
    return Verdict(resolved_refs=False, reason=reason, message=text, spared=True)
