"""The requests of qdstat and qdmanage to an agent that knows every entity type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.qdstat_requests import EVERYTHING, NODE_REQUESTS, QUERIES, Shape, check_rows
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.management.adapters import ConfiguredEntities
from waymesh_router.management.agent import Agent
from waymesh_schema.entities import ENTITY_TYPES

pytestmark = pytest.mark.engine_independent


def ask(shape: Shape) -> Any:
    """The body of the reply, across the codec."""
    agent = Agent({name: ConfiguredEntities(kind) for name, kind in ENTITY_TYPES.items()})
    agent.configure("listener", {"port": "amqp"})
    agent.configure("log", {"module": "DEFAULT"})
    request = Message(reply_to="temp.1", correlation_id="1", application_properties=shape.properties, body=shape.body)
    reply = agent.handle(decode_message(encode_message(request)), 0.0)
    assert reply is not None
    reply = decode_message(encode_message(reply))
    assert reply.application_properties is not None
    assert reply.application_properties["statusCode"] == shape.status, reply.application_properties
    return reply.body


@pytest.mark.parametrize("shape", [*QUERIES, EVERYTHING], ids=str)
def test_query(shape: Shape) -> None:
    check_rows(shape, ask(shape))


@pytest.mark.parametrize("shape", NODE_REQUESTS, ids=str)
def test_requests_to_the_node(shape: Shape) -> None:
    ask(shape)
