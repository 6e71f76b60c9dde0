"""Status: how many consumers an Address has, by the addresses of routers that it matches."""

from __future__ import annotations

import pytest

from waymesh_operator.planning.status.conditions import consumers_by_address
from waymesh_operator.resources.dependents import Address
from waymesh_operator.resources.router import Ref

pytestmark = pytest.mark.engine_independent

MESH = Ref("ns", "mesh")


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({"prefix": "a"}, 1 + 2 + 4 + 16),
        ({"prefix": "a.b"}, 2 + 4),
        ({"prefix": "a.b/"}, 2 + 4),
        ({"prefix": "/a.b"}, 2 + 4),
        ({"prefix": "nothing"}, 0),
        ({"pattern": "a.*"}, 2 + 16),
        ({"pattern": "a.#"}, 1 + 2 + 4 + 16),
        ({"pattern": "/a.*."}, 2 + 16),
        ({"pattern": "#"}, 31),
        ({"pattern": "*/b/#"}, 2 + 4),
        ({"pattern": "#.c"}, 4 + 16),
        ({"pattern": "a.b"}, 2),
    ],
)
def test_consumers_of_an_address_are_those_of_all_that_match(match: dict[str, str], expected: int) -> None:
    live = {"a": 1, "a.b": 2, "a.b/c": 4, "ab": 8, "a.c": 16}
    address = Address(Ref("ns", "x"), MESH, **match)  # type: ignore[arg-type]
    assert consumers_by_address([address], live) == {address.ref: expected}
