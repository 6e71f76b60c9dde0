"""Reports who changed what by management requests, in the log and as telemetry events, without attribute values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from waymesh_router.events.event import MAX_CHARACTERS, Event
from waymesh_router.management.request import Request
from waymesh_router.management.view import CoreView
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection

Changed = Callable[[Request, str, str, Sequence[str]], None]
"""Called after a change: with the request, the type and identity of the entity, and the names of the attributes that
were given or changed."""


def change_report(core: CoreView) -> Changed:
    """Reports each change as `management.create`, `management.update` or `management.delete`."""

    def changed(request: Request, kind: str, identity: str, attributes: Sequence[str]) -> None:
        event = f"management.{request.operation.lower()}"
        about = {"type": kind, "identity": identity, "attributes": ",".join(attributes)}
        detail = about | _actor(core.connections.get(int(request.connection or 0)))
        detail = {name: text[:MAX_CHARACTERS] for name, text in detail.items()}
        text = f"{event} {' '.join(f'{name}={text}' for name, text in detail.items())}"
        who = {name: text for name, text in detail.items() if name not in about}
        report = Event(LogEvent(event), who, {name: text for name, text in detail.items() if name in about})
        core.log("AGENT", "info", text, report)
        core.context.telemetry.event(event, "info", detail.pop("identity"), detail)

    return changed


def _actor(connection: RouterConnection | None) -> dict[str, str]:
    """The client that sent a request. Of a request from another router, only the neighbour is known."""
    if connection is None:
        return {"router": "this"}
    if connection.is_router():
        return {"router": "" if connection.remote is None else str(connection.remote.container_id)}
    where = "connector" if connection.settings.client else "listener"
    return {"user": connection.user or "", "host": connection.peer.host, where: str(connection.origin)}
