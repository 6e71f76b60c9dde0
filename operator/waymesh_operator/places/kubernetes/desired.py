"""The desired state of a mesh in a cluster: routers with their entities, objects, and a verdict on each resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from waymesh_operator.planning.desired import DesiredState
from waymesh_operator.planning.manifests import Manifest
from waymesh_operator.planning.mesh import (
    DesiredConnector,
    DesiredListener,
    DesiredMesh,
    DesiredRouter,
    only_live,
    own_seed,
    peers_below,
    render,
    shared_seeds,
)
from waymesh_operator.planning.parts import Obstacle, Obstacles
from waymesh_operator.resources.dependents import Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref, Router, router_id
from waymesh_operator.router_entities.builders import (
    MUTUAL,
    Security,
    connector_entity,
    http_entity,
    listener_entity,
    listener_profile,
    log_entities,
    mesh_profile,
    options_of,
    router_settings,
    telemetry_entity,
)
from waymesh_operator.router_entities.credentials import KeptKeys, listener_files, users_file
from waymesh_operator.router_entities.entities import refusal
from waymesh_operator.router_entities.names import (
    LISTENER,
    OPERATORS,
    POD,
    ROUTER,
    TELEMETRY_FOLDER,
    Entity,
    entity_name,
)
from waymesh_operator.router_entities.placement import EntityPlacement, credential_files, place_entities
from waymesh_operator.router_entities.policies import LOOPBACK, MANAGEMENT_VHOST, management_vhost, policy_entity
from waymesh_operator.router_entities.tokens import judge_tokens, token_files, token_profiles
from waymesh_operator.router_entities.verdicts import (
    Verdict,
    Verdicts,
    judge,
    judge_listener,
    judge_router,
    judge_telemetry,
    stalled,
    trusts_own_mesh,
)
from waymesh_operator.tls.rollover import OPERATOR, TlsRequest

from .context import HTTP_PORT, LOCAL_PORT, MANAGEMENT_PORT, MESH_PORT, ClusterContext
from .exposure import cluster_urls, exposure_objects, missing_api
from .objects import (
    LIMIT_BYTES,
    cert_manager_objects,
    client_service,
    credentials_secret,
    disruption_budget,
    mesh_service,
    metrics_service,
    network_policy,
    seed_bytes,
    seed_config_maps,
    tls_secrets,
)
from .stateful_set import image_of, reads_several, stateful_set


def desired_cluster(resources: Resources, context: ClusterContext) -> DesiredState:
    """Compute the desired state from the resources and the present state of the cluster."""
    router = resources.router
    verdicts = judge(resources, context.secrets)
    found = place_entities(resources, context.secrets, verdicts)
    tokens = token_profiles(router, context.service_accounts)
    listeners = _listener_entities(router, tokens)
    shared = (mesh_profile(), *tokens.values(), *listeners, *_own_settings(router, context), *found.shared)
    count = max(router.size, context.size_now or 0)
    routers = tuple(
        _desired_router(router, ordinal, found, shared, context, _failover_listeners(router, ordinal, tokens, context))
        for ordinal in range(count)
    )
    seeds, unusable = _seeds(router, routers, shared, context)
    verdict = _verdict(router, context)
    obstacles = Obstacles(tuple(_obstacles(router, context, verdict, unusable)))
    verdicts["Router", router.ref] = stalled(verdict, obstacles.starting) if obstacles.starting else verdict
    repair = router.drift == "Repair"
    mesh = DesiredMesh(
        router.ref, routers[: router.size], router.drain_timeout_s, repair, router.paused, router.balance
    )
    objects = (*_objects(resources, context, verdicts), *seeds, stateful_set(router, context))
    return DesiredState(
        mesh,
        objects,
        verdicts,
        uid=router.uid,
        size=router.size,
        obstacles=obstacles,
        restart_pending=_restart_pending(router, context),
        placements=found.placements(router),
        containers=found.containers,
        held=tuple(_held(verdicts)),
    )


def _without_certificates(router: Router, context: ClusterContext) -> str:
    """Return why nobody issues certificates; empty if somebody does."""
    if router.tls.issuer == "CertManager" and not context.cert_manager:
        return "tls.issuer is CertManager, but the cert-manager API is not installed in this cluster"
    if router.tls.issuer == "Internal" and context.tls is None:
        return "the certificates of the mesh do not exist yet"
    return ""


def _obstacles(router: Router, context: ClusterContext, verdict: Verdict, unusable: str) -> Iterable[Obstacle]:
    """Return what stands in the way of the parts. `unusable`: why routers cannot boot with their configuration."""
    if not verdict.good and not verdict.spared:
        yield Obstacle("access", verdict.reason, verdict.message, stalls=False)
    if missing := _without_certificates(router, context):
        yield Obstacle("certificates", "Stalled", missing)
    if unusable:
        yield Obstacle("configuration", "Stalled", unusable)
    if missing := missing_api(router, context.routes):
        yield Obstacle("exposure", "ApiMissing", missing)


def _verdict(router: Router, context: ClusterContext) -> Verdict:
    """The verdict on the Router."""
    found = judge_router(router, context.secrets, context.claims)
    tokens = judge_tokens(router, context.secrets, context.service_accounts)
    return found if (not found.good and not found.spared) or tokens.good else tokens


def _listener_entities(router: Router, tokens: Mapping[str, Entity]) -> list[Entity]:
    ref = router.ref
    entities = [
        entity
        for item in router.listeners
        for entity in _client_listener(ref, item, tokens)
        if not item.failover or entity.type != LISTENER
    ]
    names = TlsRequest(ref.name, ref.namespace)
    vhost = MANAGEMENT_VHOST if router.policy.enabled else ""
    operator = replace(MUTUAL, peers=names.operator_names, vhost=vhost)
    routers = replace(MUTUAL, peers=names.router_names)
    entities.append(listener_entity(ref, OPERATORS, ("", MANAGEMENT_PORT), "normal", operator))
    entities.append(listener_entity(ref, POD, (LOOPBACK, LOCAL_PORT), "normal", Security(vhost=vhost)))
    entities.append(http_entity(ref, HTTP_PORT))
    if router.role == "interior":
        entities.append(listener_entity(ref, "mesh", ("", MESH_PORT), "inter-router", routers))
    return entities


def _failover_listeners(
    router: Router, ordinal: int, tokens: Mapping[str, Entity], context: ClusterContext
) -> tuple[Entity, ...]:
    """Return the listeners with failover lists: the list differs on each router."""
    return tuple(
        entity
        for item in router.listeners
        if item.failover
        for entity in _client_listener(router.ref, item, tokens, cluster_urls(router, item, ordinal, context))
        if entity.type == LISTENER
    )


def _client_listener(
    ref: Ref, item: Listener, tokens: Mapping[str, Entity], failover: tuple[str, ...] = ()
) -> Iterable[Entity]:
    """Return the entities of a listener of the manifest, after its sslProfile if any; none if its tokenProfile is
    unknown, or if it would accept clients of the mesh as routers.

    They are desired without the Secrets too: routers refuse what they cannot load, and keep what they have loaded.
    """
    if (item.token_profile and item.token_profile not in tokens) or trusts_own_mesh(ref, item):
        return
    profile = listener_profile(ref, item)
    token = tokens[item.token_profile].name if item.token_profile else ""
    security = Security(item.tls, item.auth, item.peer_names, vhost=item.vhost, tokens=token)
    if profile is not None:
        yield profile
        security = replace(security, profile=profile.name)
    offer = options_of(item, failover)
    yield listener_entity(ref, f"listener/{item.name}", ("", item.port), item.role, security, offer)


def _own_settings(router: Router, context: ClusterContext) -> Iterable[Entity]:
    """Log, policy and telemetry entities. Telemetry stays unchanged while something that it needs is missing."""
    yield from log_entities(router.log_level, dict(router.log_levels))
    yield policy_entity(router.policy)
    if router.policy.enabled:
        other = router.tls.issuer_ref is not None
        yield management_vhost(router.ref, f"CN={OPERATOR}", any_certificate=other)
    if judge_telemetry(router, context.secrets, context.claims).good:
        yield telemetry_entity(router.telemetry, str(router.ref), TELEMETRY_FOLDER)


def _desired_router(
    router: Router,
    ordinal: int,
    found: EntityPlacement,
    shared: tuple[Entity, ...],
    context: ClusterContext,
    failover_listeners: tuple[Entity, ...],
) -> DesiredRouter:
    own_id = router_id(router.ref, ordinal)
    domain = f"{router.ref.name}-mesh.{router.ref.namespace}.svc.{context.settings.cluster_domain}"
    peers = [router_id(router.ref, peer) for peer in peers_below(router, ordinal)]
    connectors = tuple(DesiredConnector(peer, f"{peer}.{domain}", MESH_PORT) for peer in peers)
    own = (
        Entity(ROUTER, own_id, router_settings(router) | {"drainTimeoutSeconds": router.drain_timeout_s}),
        *failover_listeners,
        *(connector_entity(router.ref, item.peer, (item.host, item.port), MUTUAL) for item in connectors),
        *found.only_on(ordinal),
    )
    listeners = tuple(
        DesiredListener(f"listener/{item.name}", "", item.port, security=Security(item.tls, item.auth))
        for item in router.listeners
    )
    return DesiredRouter(
        router.ref, own_id, ordinal, router.role, listeners, connectors, own, shared, router.worker_threads
    )


SEED_MAPS = (1, 2, 4)
"""Numbers of ConfigMaps over which the seeds are spread. It does not become smaller while a mesh exists."""


def _seeds(
    router: Router, routers: tuple[DesiredRouter, ...], shared: tuple[Entity, ...], context: ClusterContext
) -> tuple[list[Manifest], str]:
    """The ConfigMaps with seeds, and an error message: they are too large, or routers would not start with them."""
    own = {item.id: own_seed(item) for item in routers}
    live = [entity for entity in shared if only_live(entity)]
    several = reads_several(router, context)
    found: list[Manifest] = []
    for count in [count for count in SEED_MAPS if count >= context.seeds_now] if several else SEED_MAPS[:1]:
        packed = shared_seeds(shared, count)
        found = seed_config_maps(router, packed, own, render(live) if live else "", several=several)
        if all(seed_bytes(config_map) <= LIMIT_BYTES for config_map in found):
            break
    wrong = _too_large(found, several)
    entities = (*shared, *(entity for item in routers for entity in item.own))
    if refused := next(filter(None, map(refusal, entities)), ""):
        wrong = f"routers would not start with the configuration: {refused}"
    return found, wrong


def _too_large(config_maps: Sequence[Manifest], several: bool) -> str:
    size, name = max((seed_bytes(config_map), str(config_map["metadata"]["name"])) for config_map in config_maps)
    if size <= LIMIT_BYTES:
        return ""
    text = f"the configuration in ConfigMap {name} has {size:,} bytes, more than one ConfigMap can hold"
    return text if several else f"{text}; with their next image (spec.pod.image), routers read {SEED_MAPS[-1]}"


def _objects(resources: Resources, context: ClusterContext, verdicts: Verdicts) -> list[Manifest]:
    """Return all objects except the ConfigMaps with seeds and the StatefulSet."""
    router = resources.router
    found: list[Manifest] = []
    if context.tls is not None:
        found += tls_secrets(router, context.tls)
    elif context.cert_manager:
        found += cert_manager_objects(router, context.settings.cluster_domain)
    found.append(credentials_secret(router, _credentials(resources, context, verdicts)))
    services = (mesh_service(router), client_service(router), metrics_service(router))
    found += [service for service in services if service is not None]
    found += exposure_objects(router, max(router.size, context.size_now or 0), context.routes)
    return [*found, disruption_budget(router), network_policy(router, context.settings)]


def _credentials(resources: Resources, context: ClusterContext, verdicts: Verdicts) -> dict[str, bytes]:
    data: dict[str, bytes] = {}
    users = next((item.users for item in resources.router.listeners if item.users), "")
    if users:
        kept = KeptKeys(context.users_now, context.entropy)
        data |= users_file(context.secrets.get(users) or {}, kept)
    for listener in resources.router.listeners:
        if judge_listener(listener, context.secrets).good:
            data |= listener_files(listener, context.secrets)
    data |= token_files(resources.router, context.secrets, context.service_accounts)
    return data | credential_files(resources, context.secrets, verdicts)


def _held(verdicts: Verdicts) -> Iterable[str]:
    for (kind, ref), verdict in verdicts.items():
        if kind != "Router" and verdict.held:
            yield entity_name(ref, kind)


def _restart_pending(router: Router, context: ClusterContext) -> str:
    runs, default = image_of(router, context), context.settings.router_image
    if router.pod.image or runs == default:
        return ""
    return f"the pods run {runs}, the operator's default is now {default}: set pod.image to update them"
