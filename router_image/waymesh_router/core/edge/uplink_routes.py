"""Link routes of an edge router's containers, registered at the interior router.

Source: protocol/edge.md "Link routes".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.addresses.keys import MANAGEMENT, link_route_pattern, outgoing_route
from waymesh_router.core.edge.uplink_services import UplinkService
from waymesh_router.core.forwarding.annotations import AREA, INGRESS, TRACE

if TYPE_CHECKING:
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.edge.uplink_links import UplinkLinks
    from waymesh_router.core.forwarding.own_messages import OwnMessages

TYPE = "org.apache.qpid.dispatch.router.connection.linkRoute"
REPLY_CREDIT = 100
ANSWER_S = 10.0
"""Time without an answer from the interior router after which a request is sent again."""
CREATED, NO_CONTENT, NOT_FOUND = 201, 204, 404


@dataclass(slots=True)
class _Proxy:
    """One link route. `identity`: at the interior router, "" if it does not exist there."""

    wanted: bool = True
    identity: str = ""
    asked: str = ""  # correlation-id of the outstanding request
    until: float = math.inf
    refused: bool = False


class UplinkRoutes:
    """The link routes with a connected container, by key, and their state at the interior router."""

    def __init__(self, context: CoreContext, links: UplinkLinks, messages: OwnMessages) -> None:
        self._context = context
        self._proxies: dict[str, _Proxy] = {}
        self._numbers = 0
        self._service = UplinkService(links, messages, MANAGEMENT, REPLY_CREDIT, self._step_all, self._replied)

    def start(self) -> None:
        """The uplink is active. Raises AmqpError."""
        self._service.start()

    def stop(self) -> None:
        """The uplink is lost, with the link routes at the interior router."""
        self._service.stop()
        self._proxies = {key: _Proxy() for key, proxy in self._proxies.items() if proxy.wanted}

    def add(self, key: str) -> None:
        """A link route has a connected container."""
        proxy = self._proxies.setdefault(key, _Proxy())
        proxy.wanted, proxy.refused = True, False
        self._step(key, proxy)

    def remove(self, key: str) -> None:
        """The last container of a link route has disconnected."""
        proxy = self._proxies.get(key)
        if proxy is not None:
            proxy.wanted = False
            self._step(key, proxy)

    def remove_all(self) -> None:
        """The router drains: remove all link routes from the interior router."""
        for key in list(self._proxies):
            self.remove(key)

    def tick(self) -> None:
        """Repeat unanswered requests. Raises AmqpError if the interior router has no room."""
        self._service.tick()
        for key, proxy in list(self._proxies.items()):
            if proxy.asked and proxy.until <= self._context.now:
                proxy.asked = ""
                self._step(key, proxy)

    def _step_all(self) -> None:
        for key, proxy in list(self._proxies.items()):
            self._step(key, proxy)

    def _step(self, key: str, proxy: _Proxy) -> None:
        """Send the next request for a link route, if one is due."""
        if proxy.asked:
            return
        if not (proxy.wanted or proxy.identity):
            del self._proxies[key]
        elif self._service.ready and not proxy.refused and proxy.wanted != bool(proxy.identity):
            name = f"{self._context.router_id}/proxyLinkRoute/{key}"
            if proxy.wanted:
                direction = "out" if outgoing_route(key) else "in"
                body = {"type": TYPE, "name": name, "pattern": link_route_pattern(key), "direction": direction}
                self._ask(proxy, {"operation": "CREATE", "type": TYPE, "name": name}, body)
            else:
                named = {"operation": "DELETE", "type": TYPE, "name": name, "identity": proxy.identity}
                self._ask(proxy, named, {})

    def _ask(self, proxy: _Proxy, properties: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        self._numbers += 1
        proxy.asked, proxy.until = f"route-{self._numbers}", self._context.now + ANSWER_S
        stamp = AREA + self._context.router_id
        request = Message(
            message_annotations={INGRESS: stamp, TRACE: [stamp]},
            reply_to=self._service.reply_to,
            correlation_id=proxy.asked,
            application_properties=properties,
            body=body,
        )
        self._service.send(encode_message(request))

    def _replied(self, message: bytes) -> None:
        """The interior router answered a request."""
        try:
            reply = decode_message(message)
        except DecodeError:
            return
        found = ((key, proxy) for key, proxy in self._proxies.items() if proxy.asked == reply.correlation_id)
        key, proxy = next(found, ("", None))
        if proxy is None:
            return
        proxy.asked = ""
        properties = reply.application_properties or {}
        status = properties.get("statusCode")
        if status == CREATED and isinstance(reply.body, dict):
            proxy.identity = str(reply.body.get("identity"))
        elif proxy.identity and status in (NO_CONTENT, NOT_FOUND):
            proxy.identity = ""
        else:
            proxy.refused = True
            proxy.identity = ""
            text = properties.get("statusDescription")
            self._context.log("ROUTER_CORE", "warning", f"uplink: link route {key}: refused: {status} {text}")
        self._step(key, proxy)
