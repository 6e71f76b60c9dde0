"""The names of all AMQP error conditions, and exceptions with the condition to send to the peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waymesh_amqp.session import Session

# Spec: 2.8.15 amqp-error
INTERNAL_ERROR = "amqp:internal-error"
NOT_FOUND = "amqp:not-found"
UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
DECODE_ERROR = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
NOT_ALLOWED = "amqp:not-allowed"
INVALID_FIELD = "amqp:invalid-field"
NOT_IMPLEMENTED = "amqp:not-implemented"
RESOURCE_LOCKED = "amqp:resource-locked"
PRECONDITION_FAILED = "amqp:precondition-failed"
RESOURCE_DELETED = "amqp:resource-deleted"
ILLEGAL_STATE = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"

# Spec: 2.8.16 connection-error
CONNECTION_FORCED = "amqp:connection:forced"
FRAMING_ERROR = "amqp:connection:framing-error"
CONNECTION_REDIRECT = "amqp:connection:redirect"

# Spec: 2.8.17 session-error
WINDOW_VIOLATION = "amqp:session:window-violation"
ERRANT_LINK = "amqp:session:errant-link"
HANDLE_IN_USE = "amqp:session:handle-in-use"
UNATTACHED_HANDLE = "amqp:session:unattached-handle"

# Spec: 2.8.18 link-error
DETACH_FORCED = "amqp:link:detach-forced"
TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
LINK_REDIRECT = "amqp:link:redirect"
LINK_STOLEN = "amqp:link:stolen"

# Spec: 4.5.8 transaction-error
TRANSACTION_UNKNOWN_ID = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT = "amqp:transaction:timeout"

NO_TRANSACTIONS = "transactions are only supported on link-routed addresses"
"""Description of the error for a transactional delivery or disposition on any other link."""


class AmqpError(Exception):
    """A protocol error or a refusal, with the error to send to the peer.

    `condition` is one of the names above, `description` a text for people. `ends` is a session in which a frame could
    not be written: it ends alone if it belongs to another connection than the one that is read. Otherwise that
    connection ends. Errors of only a link or a delivery are not raised: the link is detached, the delivery refused.
    """

    def __init__(self, condition: str, description: str = "", ends: Session | None = None) -> None:
        super().__init__(f"{condition}: {description}" if description else condition)
        self.condition = condition
        self.description = description
        self.ends = ends


class DecodeError(AmqpError):
    """Invalid encoding; `position` is the offset in the decoded buffer, if it is known."""

    def __init__(self, description: str, position: int | None = None) -> None:
        where = "" if position is None else f" (at byte {position})"
        super().__init__(DECODE_ERROR, description + where)
        self.position = position


class FramingError(AmqpError):
    """An invalid frame header: the boundaries of further frames are unknown. Spec: 2.3.1"""

    def __init__(self, description: str) -> None:
        super().__init__(FRAMING_ERROR, description)
