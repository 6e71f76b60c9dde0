"""Settings of a connection: fields of its open, limits and time-outs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from waymesh_amqp.negotiation import SaslClientExchange, SaslServerExchange
from waymesh_amqp.performatives import Open
from waymesh_amqp.relayed import RelayedClientExchange, RelayedServerExchange
from waymesh_amqp.sasl import SaslClient, SaslServer

Exchange: TypeAlias = SaslClientExchange | SaslServerExchange | RelayedClientExchange | RelayedServerExchange
"""A SASL exchange of a connection."""


@dataclass(slots=True)
class ConnectionSettings:
    """Settings of one connection. Times are in seconds."""

    container_id: str
    client: bool = False  # we opened the transport, so we send the first protocol header
    hostname: str | None = None
    max_frame_size: int = 16384
    channel_max: int = 32767
    max_links: int = 32768  # in all sessions together; the connection of a peer that attaches more is closed
    max_refused: int = 0x7FFFFFFF  # links that were refused and not detached by the peer: more end the connection
    links_at_once: int = 0x7FFFFFFF  # a connection with more links ends them in portions, see `Handler.ending`
    idle_timeout_s: float = 16.0  # 0: none
    handshake_timeout_s: float = 15.0
    close_timeout_s: float = 2.0
    window: int = 256  # incoming window of a session, in frames
    window_opens: bool = False  # it may be larger: `Handler.session_window` decides
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    sasl: SaslServer | SaslClient | RelayedServerExchange | RelayedClientExchange | None = None
    """Our side of the SASL exchange, None for plain AMQP."""
    require_sasl: bool = False  # servers: refuse peers that skip SASL
    offload: Callable[[Any, Callable[[], bytes]], bool] | None = None
    """`offload(connection, work)` runs `work` in a thread and then calls `connection.resume` with its result.

    It returns False if it is overloaded. Without it, slow work runs at once.
    """

    def open_performative(self) -> Open:
        """The open with these settings. Spec: 2.7.1."""
        return Open(
            container_id=self.container_id,
            hostname=self.hostname,
            max_frame_size=self.max_frame_size,
            channel_max=self.channel_max,
            # half of it, because peers may send heartbeats just in time. Spec: 2.4.5
            idle_time_out=int(self.idle_timeout_s * 500) if self.idle_timeout_s > 0 else None,
            offered_capabilities=self.offered_capabilities or None,
            desired_capabilities=self.desired_capabilities or None,
            properties=self.properties or None,
        )
