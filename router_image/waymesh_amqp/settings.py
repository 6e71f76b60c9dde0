"""What a connection says of itself in its open, and how it behaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from waymesh_amqp.sasl import SaslClient, SaslServer


@dataclass(slots=True)
class ConnectionSettings:
    """`client`: we opened the transport, so we speak first.

    `sasl`: our side of the SASL exchange, None for plain AMQP. `require_sasl` (servers): a peer that skips SASL is
    turned away. `max_links`: links of all sessions together; a peer that attaches more loses the connection.
    `links_at_once`: when a connection with more links is over, its handler ends them bit by bit, see `Handler.ending`.
    `window`: session incoming window in frames. Times in seconds; `idle_timeout_s` 0 means none.

    `offload(connection, work)` has `work` done elsewhere and then `connection.resume` called with what it returned;
    False: there is no room for it now. Without it, what is slow is done at once.
    """

    container_id: str
    client: bool = False
    hostname: str | None = None
    max_frame_size: int = 16384
    channel_max: int = 32767
    max_links: int = 32768
    links_at_once: int = 0x7FFFFFFF
    idle_timeout_s: float = 16.0
    handshake_timeout_s: float = 15.0
    close_timeout_s: float = 2.0
    window: int = 256
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    sasl: SaslServer | SaslClient | None = None
    require_sasl: bool = False
    offload: Callable[[Any, Callable[[], bytes]], bool] | None = None
