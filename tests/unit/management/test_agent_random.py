"""Random requests: each gets a reply with a known status, and none makes an invalid change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.management.adapters import ConfiguredEntities
from waymesh_router.management.agent import Agent
from waymesh_router.management.errors import INTERNAL_ERROR, STATUS_TEXT
from waymesh_schema.entities import ENTITY_TYPES

pytestmark = pytest.mark.engine_independent

NAMES = [*ENTITY_TYPES, *(kind.long_name for kind in ENTITY_TYPES.values()), "self", "router/A", "log/X", "", "no such"]
OPERATIONS = [
    "READ",
    "QUERY",
    "CREATE",
    "UPDATE",
    "DELETE",
    "GET-TYPES",
    "GET-SCHEMA",
    "GET-LOG",
    "CHECK-POLICY",
    "GET-MGMT-NODES",
    "x",
]
ATTRIBUTES = sorted({name for kind in ENTITY_TYPES.values() for name in kind.attributes})

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.floats(allow_nan=False),
    st.sampled_from(NAMES),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
bodies = st.one_of(values, st.dictionaries(st.sampled_from([*ATTRIBUTES, "attributeNames", "x"]), values, max_size=6))
properties = st.fixed_dictionaries(
    {"operation": st.sampled_from(OPERATIONS) | scalars},
    optional={
        "type": st.sampled_from(NAMES) | scalars,
        "name": scalars,
        "identity": scalars,
        "entityType": st.sampled_from(NAMES) | scalars,
        "offset": scalars,
        "count": scalars,
        "limit": scalars,
    },
)


def _agent() -> Agent:
    return Agent({name: ConfiguredEntities(kind) for name, kind in ENTITY_TYPES.items()})


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests=st.lists(st.tuples(properties, bodies), min_size=1, max_size=4))
def test_every_request_gets_a_reply_that_can_be_sent(requests: list[tuple[dict[str, Any], Any]]) -> None:
    agent = _agent()
    for sent, body in requests:
        request = Message(reply_to="r", correlation_id="c", application_properties=sent, body=body, body_kind="value")
        reply = agent.handle(decode_message(encode_message(request)), 0.0)
        assert reply is not None
        reply = decode_message(encode_message(reply))
        assert reply.application_properties is not None
        status = reply.application_properties["statusCode"]
        assert status in STATUS_TEXT
        assert status != INTERNAL_ERROR, reply.application_properties["statusDescription"]
        assert reply.correlation_id == "c"
