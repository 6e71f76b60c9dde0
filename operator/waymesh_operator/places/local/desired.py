"""The desired state of a mesh in local mode: routers on this machine, no cluster objects. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.mesh import (
    DesiredConnector,
    DesiredListener,
    DesiredMesh,
    DesiredRouter,
    peers_below,
    seed_text,
)
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Http, Listener
from waymesh_operator.resources.router import Router, router_id
from waymesh_operator.router_entities.builders import (
    OPEN,
    ListenerOptions,
    Security,
    connector_entity,
    listener_entity,
    listener_profile,
    log_entities,
    options_of,
    router_settings,
    telemetry_entity,
)
from waymesh_operator.router_entities.credentials import ENTROPY_BYTES, KeptKeys, SecretData, listener_files, users_file
from waymesh_operator.router_entities.failover import address, server_urls
from waymesh_operator.router_entities.names import CONSOLE, CREDENTIALS, OPERATORS, ROUTER, TELEMETRY_FOLDER, Entity
from waymesh_operator.router_entities.placement import EntityPlacement, credential_files, place_entities
from waymesh_operator.router_entities.policies import MANAGEMENT_VHOST, management_vhost, policy_entity
from waymesh_operator.router_entities.tokens import UNKNOWN, token_files, token_profiles
from waymesh_operator.router_entities.verdicts import Verdicts, judge


@dataclass(frozen=True, slots=True)
class RouterAddresses:
    """The addresses and ports of one local router."""

    # The address to which it binds, and the host name for other routers.
    bind: str
    reach: str
    mesh_port: int
    management_port: int
    # The port of each client listener by its name.
    ports: Mapping[str, int] = field(default_factory=dict)
    # Of the console; 0: this router does not serve it.
    console_port: int = 0


@dataclass(frozen=True, slots=True)
class LocalContext:
    """Facts outside the resources on which the desired state in local mode depends."""

    # For each ordinal.
    places: Sequence[RouterAddresses]
    # Secrets of the Router's namespace.
    secrets: Mapping[str, SecretData] = field(default_factory=dict)
    # The folder with `DesiredState.files`.
    credentials: str = CREDENTIALS
    # The folder for exported telemetry, whatever the target in a cluster.
    telemetry: str = TELEMETRY_FOLDER
    # The present users file, and the source of salts: as in `ClusterContext`.
    users_now: bytes = b""
    entropy: bytes = field(default_factory=lambda: os.urandom(ENTROPY_BYTES), repr=False, compare=False)


def local_console(router: Router, built: bool) -> Router:
    """The Router as local mode runs it: without the listener of its console if that has no certificate, or if this
    installation has no console (`built`), as a router would not start with it."""
    kept = [item for item in router.listeners if not (item.http and item.http.console) or (built and item.certificate)]
    return replace(router, listeners=tuple(kept))


def desired_local(resources: Resources, context: LocalContext) -> DesiredState:
    """Compute the desired state from the resources and the context."""
    router = resources.router
    verdicts = judge(resources, context.secrets)
    found = place_entities(resources, context.secrets, verdicts, context.credentials)
    routers = tuple(_desired_router(router, ordinal, context, found) for ordinal in range(router.size))
    repair = router.drift == "Repair"
    mesh = DesiredMesh(router.ref, routers, router.drain_timeout_s, repair, router.paused, router.balance)
    seeds = {one.id: seed_text(one, context.credentials) for one in routers}
    return DesiredState(
        mesh,
        (),
        verdicts,
        size=router.size,
        placements=found.placements(router),
        containers=found.containers,
        seeds=seeds,
        files=_files(resources, context, verdicts),
    )


def _files(resources: Resources, context: LocalContext, verdicts: Verdicts) -> dict[str, bytes]:
    files = credential_files(resources, context.secrets, verdicts)
    users = next((item.users for item in resources.router.listeners if item.users), "")
    if users:
        files |= users_file(context.secrets.get(users, {}), KeptKeys(context.users_now, context.entropy))
    for listener in resources.router.listeners:
        files |= listener_files(listener, context.secrets)
    return files | dict(token_files(resources.router, context.secrets, UNKNOWN))


def _desired_router(router: Router, ordinal: int, context: LocalContext, found: EntityPlacement) -> DesiredRouter:
    own_id, places = router_id(router.ref, ordinal), context.places
    tokens = token_profiles(router, UNKNOWN, context.credentials)
    profiles = [listener_profile(router.ref, item, context.credentials) for item in router.listeners]
    listeners = tuple(_listeners(router, ordinal, context, tokens))
    connectors = tuple(
        DesiredConnector(router_id(router.ref, peer), places[peer].reach, places[peer].mesh_port)
        for peer in peers_below(router, ordinal)
    )
    own = (
        Entity(ROUTER, own_id, router_settings(router)),
        *tokens.values(),
        *(profile for profile in profiles if profile is not None),
        *(
            listener_entity(router.ref, item.part, (item.host, item.port), item.role, item.security, item.offer)
            for item in listeners
        ),
        *(connector_entity(router.ref, item.peer, (item.host, item.port)) for item in connectors),
        *found.only_on(ordinal),
    )
    logs = log_entities(router.log_level, dict(router.log_levels))
    telemetry = telemetry_entity(router.telemetry, str(router.ref), context.telemetry)
    managers = (management_vhost(router.ref),) if router.policy.enabled else ()
    shared = (*logs, policy_entity(router.policy), *managers, telemetry, *found.shared)
    return DesiredRouter(
        router.ref, own_id, ordinal, router.role, listeners, connectors, own, shared, router.worker_threads
    )


def _listeners(
    router: Router, ordinal: int, context: LocalContext, tokens: Mapping[str, Entity]
) -> Iterable[DesiredListener]:
    place = context.places[ordinal]
    for listener in router.listeners:
        port = place.ports[listener.name]
        security = Security(listener.tls, listener.auth, listener.peer_names, vhost=listener.vhost)
        if (profile := listener_profile(router.ref, listener, context.credentials)) is not None:
            security = replace(security, profile=profile.name)
        if listener.token_profile:
            security = replace(security, tokens=tokens[listener.token_profile].name)
        offer = options_of(listener, _failover(listener, ordinal, context) if listener.failover else ())
        yield DesiredListener(f"listener/{listener.name}", place.bind, port, listener.role, security, offer)
    managed = Security(vhost=MANAGEMENT_VHOST) if router.policy.enabled else OPEN
    yield DesiredListener(OPERATORS, place.bind, place.management_port, security=managed)
    if place.console_port:
        offer = ListenerOptions(management="write", http=Http(console=True))
        yield DesiredListener(CONSOLE, place.bind, place.console_port, security=managed, offer=offer)
    if router.role == "interior":
        yield DesiredListener("mesh", place.bind, place.mesh_port, role="inter-router")


def _failover(listener: Listener, ordinal: int, context: LocalContext) -> tuple[str, ...]:
    """Return the failover list. No address leads to all routers here, so the router's own comes last."""
    own = [[address(place.reach, place.ports[listener.name])] for place in context.places]
    return server_urls(listener, ordinal, own, own[ordinal])
