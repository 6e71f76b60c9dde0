"""Conditions of resources, the snapshot of a mesh from which statuses are computed, and the expiry of certificates and
revocation lists from users' Secrets (rows, conditions, metrics)."""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from waymesh_operator.planning.actions import Action
from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.mesh import DesiredRouter
from waymesh_operator.planning.parts import Obstacle
from waymesh_operator.planning.plan import Drift, ObservedState
from waymesh_operator.resources.dependents import Address
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.resources.router_link import RouterLink
from waymesh_operator.router_entities.credentials import SecretData
from waymesh_operator.router_entities.names import ADDRESS, Entity
from waymesh_operator.router_entities.verdicts import Verdict
from waymesh_operator.routers.observed import VhostCounts
from waymesh_operator.tls.certificates import Validity, of_certificates, of_revocation_lists
from waymesh_operator.tls.rollover import MeshTls
from waymesh_schema.address_match import trimmed_match

_WORDS = {True: "True", False: "False", None: "Unknown"}
MESSAGE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a resource."""

    type: str
    # None: Unknown
    holds: bool | None
    reason: str
    message: str = ""


def timestamp(moment: datetime) -> str:
    """Format a time as the API server does. `moment` has a time zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rendered(
    conditions: Iterable[Condition], before: Mapping[str, Any], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Render conditions for a status, which must not be changed. A condition that has not changed since `before` keeps
    its time."""
    former = {item.get("type"): item for item in before.get("conditions") or ()}
    return [_one(condition, former.get(condition.type, {}), generation, now) for condition in conditions]


def _one(condition: Condition, former: Mapping[str, Any], generation: int, now: datetime) -> dict[str, Any]:
    word = _WORDS[condition.holds]
    kept = former.get("lastTransitionTime") if former.get("status") == word else None
    message = condition.message[:MESSAGE_LIMIT]
    return _same(condition.type, word, generation, kept or timestamp(now), condition.reason, message)


@functools.lru_cache(maxsize=1024)
def _same(kind: str, word: str, generation: int, since: str, reason: str, message: str) -> dict[str, Any]:
    """Return a condition. Equal ones are one object: thousands of resources have the same."""
    return {
        "type": kind,
        "status": word,
        "observedGeneration": generation,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


UNREADABLE = "Unreadable"
"""The reason of conditions of a resource that this version of the operator cannot parse."""
ROUTER_MISSING = "RouterMissing"


def unread_status(body: Mapping[str, Any], why: str, now: datetime) -> dict[str, Any]:
    """Return the status of a resource that cannot be parsed: its former one, with the reason in its conditions."""
    before = body.get("status") or {}
    found = [Condition(kind, False, UNREADABLE, why) for kind in ("Accepted", "Programmed", "Ready")]
    generation = int(body["metadata"].get("generation") or 0)
    changed = rendered(found, before, generation, now)
    kept = [item for item in before.get("conditions") or () if item["type"] not in {one.type for one in found}]
    phase = {"phase": "NotReady"} if body["kind"] == "Router" else {}
    return {**before, "observedGeneration": generation, **phase, "conditions": [*changed, *kept]}


def unread_router(status: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return the status of a resource whose Router exists, but cannot be parsed."""
    text = f"the Router cannot be read: {why}"
    conditions = [
        {**item, "reason": "RouterUnreadable", "message": text} if item["reason"] == ROUTER_MISSING else item
        for item in status["conditions"]
    ]
    return {**status, "conditions": conditions}


Key = tuple[str, str]
_SEPARATORS = re.compile(r"[./]")


class LiveEntities:
    """The entities of one router by their key. For addresses, of which there may be thousands, no object is made."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._addresses: dict[str, Entity] = {}
        self._others: dict[Key, list[Entity]] = {}
        for entity in entities:
            if entity.type == ADDRESS and "~" not in entity.name:
                self._addresses[entity.name] = entity
            else:
                self._others.setdefault(entity.key, []).append(entity)

    def get(self, key: Key) -> Sequence[Entity]:
        """Return the entities with this key: several while one replaces another."""
        address = self._addresses.get(key[1]) if key[0] == ADDRESS else None
        others = self._others.get(key, ())
        return others if address is None else (address, *others)


@dataclass(frozen=True)
class MeshSnapshot:
    """The observations of one mesh at one moment; statuses are computed from it."""

    desired: DesiredState
    observed: ObservedState
    # With time zone.
    now: datetime
    # Why a router refused an entity, by (router id, `Entity.key`), until it accepts it or it is no longer desired.
    refused: Mapping[tuple[str, Key], str] = field(default_factory=dict)
    # Descriptions of failed actions on objects.
    errors: tuple[str, ...] = ()
    # The subset about objects that the API server refuses, or that others own.
    obstacles: tuple[Obstacle, ...] = ()
    # Actions of the last plan that are still pending.
    pending: tuple[Action, ...] = ()
    # The result of `consumers_by_address`.
    consumers: Mapping[Ref, int] = field(default_factory=dict)
    vhosts: VhostCounts = field(default_factory=VhostCounts)
    drift: Drift = field(default_factory=Drift)
    # Number of repairs since the Router was created.
    repaired: int = 0
    tls: MeshTls | None = None
    # Data of the Secrets that resources refer to, None for one that does not exist.
    secrets: Mapping[str, SecretData | None] = field(default_factory=dict)
    # Namespaces of other operators that watch the Router, too, and leave it alone.
    others: tuple[str, ...] = ()

    def verdict(self, kind: str, ref: Ref) -> Verdict:
        """Return the verdict on a resource; valid if the resource was created after the desired state was computed."""
        return self.desired.verdicts.get((kind, ref), Verdict())

    def placed(self, name: str) -> tuple[DesiredRouter, ...]:
        """Return the routers on which the entity with this name is placed."""
        routers = self.desired.mesh.routers
        places = self.desired.placements.get(name)
        return routers if places is None else tuple(router for router in routers if router.id in places)

    def connected(self, container: str) -> frozenset[str]:
        """Return the routers to which a broker with this container-id is connected."""
        routers = self.observed.mesh.routers.values()
        return frozenset(one.id for one in routers if container in one.facts.containers)

    @functools.cached_property
    def live(self) -> Mapping[str, LiveEntities]:
        """Return live entities by router and key."""
        return {name: LiveEntities(router.entities) for name, router in self.observed.mesh.routers.items()}


def consumers_by_address(addresses: Iterable[Address], live: Mapping[str, int]) -> dict[Ref, int]:
    """Return the number of consumers of each Address; `live` has it for each mobile address, over all routers."""
    if not live:
        return {}
    prefixes: dict[str, int] = {}
    for address, count in live.items():
        for prefix in _prefixes(address):
            prefixes[prefix] = prefixes.get(prefix, 0) + count
    found = {}
    for resource in addresses:
        match = trimmed_match(resource.match)
        if resource.prefix is not None:
            found[resource.ref] = prefixes.get(match, 0)
        elif match in live and not {"*", "#"} & set(_SEPARATORS.split(match)):
            found[resource.ref] = live[match]
        else:
            matches = _pattern(match).fullmatch
            found[resource.ref] = sum(count for address, count in live.items() if matches(f"/{address}"))
    return found


def _prefixes(address: str) -> Iterator[str]:
    """Return all prefixes that match an address: the part before each separator, and the whole address."""
    for separator in _SEPARATORS.finditer(address):
        yield address[: separator.start()]
    yield address


@functools.lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of tokens separated by dots or slashes, where * is any one token and # any number of them."""
    text = ""
    for token in _SEPARATORS.split(pattern):
        # Each token includes the separator before it; the address is matched with a leading separator too.
        text += r"(?:[./][^./]*)*" if token == "#" else r"[./]" + (r"[^./]+" if token == "*" else re.escape(token))
    return re.compile(text)


EXPIRING = "CertificateExpiring"
_FIELDS = ("certificateNotAfter", "authoritiesNotAfter", "revocationNotAfter")
SHOWN = 3
"""Maximum number of names in a message."""
_Reader = Callable[[bytes], Validity | None]


@dataclass(frozen=True, slots=True)
class End:
    """A certificate or list that expires."""

    # The name of a listener; empty for those of the mesh.
    listener: str
    # Field of a listener's row.
    field: str
    what: str
    secret: str
    validity: Validity


def expiry_rows(router: Router, seen: MeshSnapshot) -> list[dict[str, Any]]:
    """Return when the certificates and authorities of each listener that has some expire."""
    rows: dict[str, dict[str, Any]] = {}
    for one in _ends(router, seen):
        rows.setdefault(one.listener, {"name": one.listener})[one.field] = timestamp(one.validity.end)
    return list(rows.values())


def expiring(router: Router, seen: MeshSnapshot) -> Condition:
    """Return the condition: whether one of them expires soon or has expired."""
    ends = (*mesh_ends(router, seen), *_ends(router, seen))
    found = sorted((one for one in ends if one.validity.soon(seen.now)), key=lambda one: one.validity.end)
    if not found:
        return Condition(EXPIRING, False, "NotExpiring", "no certificate of the mesh or of a listener ends soon")
    texts = [_text(one, seen.now) for one in found[:SHOWN]]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    ended = found[0].validity.end <= seen.now
    return Condition(EXPIRING, True, "CertificateEnded" if ended else "CertificateEndsSoon", "; ".join(texts) + more)


def link_validity(link: RouterLink, seen: MeshSnapshot | None) -> Validity | None:
    """Return the validity of the routers' client certificate for the other mesh; None if there is none or it is
    unreadable."""
    data = seen.secrets.get(link.secret) if seen is not None and link.secret else None
    return of_certificates((data or {}).get("tls.crt", b""))


def link_expiring(link: RouterLink, validity: Validity, now: datetime) -> Condition:
    """Return the condition: whether it expires soon or has expired."""
    if not validity.soon(now):
        return Condition(EXPIRING, False, "NotExpiring", "the certificate does not end soon")
    ended = validity.end <= now
    what = f"the certificate in Secret {link.secret} {'ended' if ended else 'ends'} at {timestamp(validity.end)}"
    return Condition(EXPIRING, True, "CertificateEnded" if ended else "CertificateEndsSoon", what)


def ends_in_seconds(status: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return by listener and field when certificates and lists in a Router's status expire, in seconds since 1970."""
    return {
        (row["name"], field): datetime.fromisoformat(moment).timestamp()
        for row in status.get("listeners") or ()
        for field, moment in row.items()
        if field in _FIELDS
    }


def _text(one: End, now: datetime) -> str:
    verb = "ended" if one.validity.end <= now else "ends"
    whose = f"listener {one.listener}" if one.listener else "mesh"
    return f"{whose}: {one.what} in Secret {one.secret} {verb} at {timestamp(one.validity.end)}"


AUTHORITY, LEAF = "the authority", "the certificate of the routers"
_OWN = (("-ca", AUTHORITY), ("-tls", LEAF), ("-operator-tls", "the certificate of the operator"))


def mesh_ends(router: Router, seen: MeshSnapshot) -> Iterable[End]:
    """Return when the certificates of the mesh expire that its Secrets hold now."""
    for suffix, what in _OWN:
        secret = seen.observed.objects.get(("Secret", router.ref.name + suffix)) or {}
        text = (secret.get("data") or {}).get("tls.crt", "")
        validity = of_certificates(base64.b64decode(text))
        if validity is not None:
            yield End("", "", what, router.ref.name + suffix, validity)


def _ends(router: Router, seen: MeshSnapshot) -> Iterable[End]:
    for listener in router.listeners:
        for name, what, secret, key, read in _parts(listener):
            validity = read((seen.secrets.get(secret) or {}).get(key, b""))
            if validity is not None:
                yield End(listener.name, name, what, secret, validity)


def _parts(listener: Listener) -> Iterable[tuple[str, str, str, str, _Reader]]:
    if listener.certificate:
        yield "certificateNotAfter", "the certificate", listener.certificate, "tls.crt", of_certificates
    if listener.authorities:
        yield "authoritiesNotAfter", "an authority", listener.authorities, "ca.crt", of_certificates
        if listener.revocation:
            yield "revocationNotAfter", "a revocation list", listener.authorities, "ca.crl", of_revocation_lists
