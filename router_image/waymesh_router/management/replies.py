"""Replies to management requests. Source: AMQP Management (draft 9), 3.1."""

from __future__ import annotations

from typing import Any

from waymesh_amqp.message import Message
from waymesh_amqp.types import Int


def reply_to(request: Message, status: int, text: str, body: Any) -> Message:
    """The reply to a request."""
    correlation = request.correlation_id if request.correlation_id is not None else request.message_id
    properties = {"statusCode": Int(status), "statusDescription": text}
    return Message(
        to=request.reply_to,
        correlation_id=correlation,
        application_properties=properties,
        body=body,
        body_kind="value",
    )


def failed(request: Message, status: int, text: str) -> Message:
    """The reply to a request that failed."""
    return reply_to(request, status, text, {})
