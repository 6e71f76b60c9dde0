"""Targets of a connector: host and port, then the URLs of failoverUrls."""

from __future__ import annotations

import pytest

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.transport.connector import configured_targets


def test_the_first_target_and_those_tried_after_it() -> None:
    urls = "amqp://b:5673, amqps://c,amqp://[::1]:7"
    found = configured_targets("x", {"host": "a", "port": "5672", "failoverUrls": urls})
    assert found == [("a", 5672), ("b", 5673), ("c", 5671), ("::1", 7)]
    assert configured_targets("x", {"host": None, "port": "amqp"}) == [("127.0.0.1", 5672)]


@pytest.mark.parametrize("url", ["amqp://", "b:port", "amqp://b:70000"])
def test_a_url_that_names_no_target(url: str) -> None:
    with pytest.raises(HostError, match="connector x"):
        configured_targets("x", {"host": "a", "port": "1", "failoverUrls": url})
