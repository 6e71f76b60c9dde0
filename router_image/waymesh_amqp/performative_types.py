"""The performatives of connections, sessions, links and SASL as dataclasses. Spec: 2.7, 5.3.3

An absent field is None. Flags with default false are booleans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from waymesh_amqp.codec_values import Described, Raw
from waymesh_amqp.terminus import ErrorInfo, Terminus

SENDER = False  # role. Spec: 2.8.1
RECEIVER = True


@dataclass(slots=True)
class Open:
    """Spec: 2.7.1. `idle_time_out` in milliseconds."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: list[str] | None = None
    incoming_locales: list[str] | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Any, Any] | Raw | None = None


@dataclass(slots=True, kw_only=True)
class Begin:
    """Spec: 2.7.2"""

    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Any, Any] | Raw | None = None


@dataclass(slots=True)
class Attach:
    """Spec: 2.7.3. `role` is that of the sender of the frame: False sender, True receiver."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Terminus | None = None
    target: Terminus | None = None
    unsettled: dict[Any, Any] | Raw | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: list[str] | Raw | None = None
    desired_capabilities: list[str] | Raw | None = None
    properties: dict[Any, Any] | Raw | None = None
    raw: dict[str, Raw] = field(default_factory=dict, compare=False, repr=False)
    """Encoded fields of a received attach, of those with compound values."""

    @property
    def remote_terminus(self) -> Terminus | None:
        """The terminus at the recipient of this attach: the source if its sender receives messages, else the target."""
        return self.source if self.role else self.target


@dataclass(slots=True, kw_only=True)
class Flow:
    """Spec: 2.7.4"""

    next_incoming_id: int | None = None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: dict[Any, Any] | Raw | None = None


@dataclass(slots=True)
class Transfer:
    """Spec: 2.7.5. `settled` None: absent in this frame."""

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: Described | Raw | None = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


@dataclass(slots=True)
class Disposition:
    """Spec: 2.7.6. `role` is that of the sender of the frame; `last` None means `first` alone."""

    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: Described | Raw | None = None
    batchable: bool = False


@dataclass(slots=True)
class Detach:
    """Spec: 2.7.7"""

    handle: int
    closed: bool = False
    error: ErrorInfo | None = None


@dataclass(slots=True)
class End:
    """Spec: 2.7.8"""

    error: ErrorInfo | None = None


@dataclass(slots=True)
class Close:
    """Spec: 2.7.9"""

    error: ErrorInfo | None = None


@dataclass(slots=True)
class SaslMechanisms:
    """Spec: 5.3.3.1"""

    sasl_server_mechanisms: list[str]


@dataclass(slots=True)
class SaslInit:
    """Spec: 5.3.3.2"""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(slots=True)
class SaslChallenge:
    """Spec: 5.3.3.3"""

    challenge: bytes


@dataclass(slots=True)
class SaslResponse:
    """Spec: 5.3.3.4"""

    response: bytes


@dataclass(slots=True)
class SaslOutcome:
    """Spec: 5.3.3.5. `code`: 0 ok, 1 auth, 2 sys, 3 sys-perm, 4 sys-temp."""

    code: int
    additional_data: bytes | None = None


SaslPerformative: TypeAlias = SaslMechanisms | SaslInit | SaslChallenge | SaslResponse | SaslOutcome
Performative: TypeAlias = (
    Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close | SaslPerformative
)
