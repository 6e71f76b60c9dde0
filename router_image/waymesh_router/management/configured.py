"""Adapters of configuration entities: listener, connector, profiles, address, log, and the router itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from waymesh_router.core.containers.registry import ROUTE_CONTAINER, no_container
from waymesh_router.management.adapters import Attributes, ConfiguredEntities, EntityAdapter
from waymesh_router.management.connection_link_routes import connection_link_routes
from waymesh_router.management.errors import INTERNAL_ERROR, ManagementError, bad_request, conflict
from waymesh_router.management.exchanges import exchanges
from waymesh_router.management.identity import make_identity
from waymesh_router.management.statistics import router_statistics
from waymesh_router.management.view import RecordsView, RouterView
from waymesh_router.peers.failover import server_list
from waymesh_schema.entities import EntityType, entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.loglevels import LOG_MODULES
from waymesh_schema.validate import validate_create

Action = Callable[[Attributes], None]


class PermanentEntities(ConfiguredEntities):
    """Entities that always exist: the router, log modules, telemetry.

    The configuration file can set each of them once, by CREATE. Management requests can only update them.
    """

    def __init__(
        self,
        kind: EntityType,
        standing: Iterable[Attributes],
        *,
        on_update: Callable[[Attributes, Attributes], None] | None = None,
        on_publish: Callable[[], None] | None = None,
        live: Callable[[Attributes, float], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(kind, on_update=on_update, live=live)
        self._on_publish = on_publish
        for attributes in standing:
            super().create(attributes)
        self._set: set[str] = set()

    def create(self, attributes: Attributes) -> str:
        if self.entity_type.singleton:
            identity = next(iter(self.entities))
        else:
            identity = make_identity(self.entity_type.name, attributes, (), ())
        if identity in self._set:
            raise conflict(f"{identity} is already configured")
        self.update(identity, {name: value for name, value in attributes.items() if value is not None})
        self._set.add(identity)
        return identity

    def publish(self) -> None:
        if self._on_publish is None:
            super().publish()
        else:
            self._on_publish()


def configured(view: RouterView) -> list[EntityAdapter]:
    """The adapters of all configuration entity types."""
    listeners, connectors = _listener(view), _connector(view)
    return [
        _router(view),
        listeners,
        connectors,
        _ssl_profile(view),
        _simple("authServicePlugin", view.add_auth_service, view.remove_auth_service),
        _simple("tokenProfile", view.add_token_profile, view.remove_token_profile),
        _simple("router.config.address", view.add_address, view.remove_address),
        _link_route(view),
        connection_link_routes(view.core),
        _auto_link(view, (listeners, connectors)),
        *exchanges(view),
        _log(view),
        _telemetry(view),
    ]


def _simple(name: str, add: Action, remove: Action) -> EntityAdapter:
    return ConfiguredEntities(entity_type(name), on_create=_with_status(add), on_delete=_with_status(remove))


def _listener(view: RouterView) -> ConfiguredEntities:
    def update(attributes: Attributes) -> None:
        server_list(attributes["failoverUrls"] or "")  # reports errors now instead of at each client
        view.update_listener(attributes)

    return ConfiguredEntities(
        entity_type("listener"),
        on_create=_with_status(view.add_listener),
        on_update=lambda attributes, _changed: _with_status(update)(attributes),
        on_delete=_with_status(view.remove_listener),
    )


def _connector(view: RouterView) -> ConfiguredEntities:
    def live(attributes: Attributes, _now: float) -> Mapping[str, Any]:
        status, text = view.connector_status(attributes["name"])
        return {"connectionStatus": status, "connectionMsg": text}

    return ConfiguredEntities(
        entity_type("connector"),
        on_create=_with_status(view.add_connector),
        on_delete=_with_status(view.remove_connector),
        live=live,
    )


def _ssl_profile(view: RouterView) -> EntityAdapter:
    def live(attributes: Attributes, _now: float) -> Mapping[str, Any]:
        validity = view.certificates().get(attributes["name"])
        return {"notAfter": None if validity is None else int(validity.end)}

    return ConfiguredEntities(
        entity_type("sslProfile"),
        on_create=_with_status(view.add_ssl_profile),
        on_update=lambda attributes, _changed: _with_status(view.update_ssl_profile)(attributes),
        on_delete=_with_status(view.remove_ssl_profile),
        live=live,
    )


def _link_route(view: RouterView) -> EntityAdapter:
    def live(attributes: Attributes, _now: float) -> Mapping[str, Any]:
        active, links = view.core.linkroutes.status(attributes["identity"])
        return {"operStatus": "active" if active else "inactive", "linkCount": links}

    return ConfiguredEntities(
        entity_type("router.config.linkRoute"),
        on_create=_with_status(view.add_link_route),
        on_delete=_with_status(view.remove_link_route),
        live=live,
    )


def _auto_link(view: RouterView, places: Sequence[ConfiguredEntities]) -> EntityAdapter:
    def wrong_role(connection: str) -> str | None:
        roles = [role for role in (place.setting(connection, "role") for place in places) if role is not None]
        return None if not roles or ROUTE_CONTAINER in roles else no_container(connection, roles[0])

    def live(attributes: Attributes, _now: float) -> Mapping[str, Any]:
        auto = view.core.autolinks.find(attributes["identity"])
        if auto is None:
            return {}
        link = None if auto.link is None else str(auto.link.id)
        error = auto.last_error or wrong_role(attributes["connection"] or "")
        told = {"linkRef": link, "operStatus": auto.status, "lastError": error}
        return {"phase": auto.phase, "quiescing": auto.quiescing, **told}

    adapter = ConfiguredEntities(
        entity_type("router.config.autoLink"),
        on_create=_with_status(view.add_auto_link),
        on_update=view.update_auto_link,
        on_delete=_with_status(view.remove_auto_link),
        live=live,
    )
    view.core.autolinks.quiesced = adapter.delete
    return adapter


def _log(view: RouterView) -> EntityAdapter:
    kind = entity_type("log")
    modules = (validate_create(kind, {"module": module}) for module in LOG_MODULES)

    def configure(attributes: Attributes) -> None:
        try:
            view.configure_log(attributes)
        except SchemaError as error:
            if error.attribute != "outputFile":
                raise
            file = attributes["outputFile"]
            text = f"CError: Configuration: Failed to open log file '{file}': {error}"
            raise ManagementError(INTERNAL_ERROR, text) from error

    act = _with_status(configure)
    return PermanentEntities(kind, modules, on_update=lambda attributes, _changed: act(attributes))


def _telemetry(view: RouterView) -> EntityAdapter:
    kind = entity_type("telemetry")
    configure = _with_status(view.configure_telemetry)

    def publish() -> None:
        if view.collector is None:
            raise conflict("telemetry is off: it has no path")
        view.collector.publish()

    return PermanentEntities(
        kind,
        (validate_create(kind, {}),),
        on_update=lambda attributes, _changed: configure(attributes),
        on_publish=publish,
        live=lambda _attributes, _now: _records(view.collector),
    )


def _records(collector: RecordsView | None) -> Mapping[str, Any]:
    if collector is None:
        return {"records": 0, "droppedRecords": 0, "lastError": ""}
    made, lost = sum(collector.records.values()), sum(collector.dropped.values())
    return {"records": made, "droppedRecords": lost, "lastError": collector.error}


def _router(view: RouterView) -> EntityAdapter:
    return PermanentEntities(
        entity_type("router"),
        (view.attrs,),
        on_update=view.update_router,
        live=lambda _attributes, now: router_statistics(view, now),
    )


def _with_status(action: Action) -> Action:
    """Wrap an action: its exceptions become management errors."""

    def act(attributes: Attributes) -> None:
        try:
            action(attributes)
        except KeyError as error:
            raise bad_request(str(error.args[0] if error.args else error)) from error
        except (OSError, ValueError) as error:
            raise bad_request(str(error)) from error

    return act
