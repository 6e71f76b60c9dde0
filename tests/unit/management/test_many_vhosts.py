"""Many vhosts: a change costs the same however many there are."""

from __future__ import annotations

import pytest

from tests.unit.management.stub_router import Manager, StubRouter
from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.settings import Vhost, parse_vhost
from waymesh_router.policy.vhosts import VhostTable
from waymesh_schema.entities import entity_type
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent
MANY = 500


class CountingTree(PatternTree[str]):
    """Counts its changes."""

    changes = 0

    def add(self, pattern: str, value: str) -> None:
        CountingTree.changes += 1
        super().add(pattern, value)


def vhost(name: str, *aliases: str) -> Vhost:
    values = {"hostname": name, "aliases": ",".join(aliases)}
    return parse_vhost(validate_create(entity_type("vhost"), values), lambda _: ())


def test_each_change_touches_only_its_own_vhost() -> None:
    CountingTree.changes = 0
    table = VhostTable(CountingTree, True, (vhost(f"v{n}", f"a{n}") for n in range(MANY)))
    assert CountingTree.changes == 2 * MANY
    table.replace(vhost("v7", "a7"), vhost("v7", "b"))
    table.remove(vhost("v8", "a8"))
    assert CountingTree.changes == 2 * MANY + 2


def test_the_settings_of_all_changes_share_one_table() -> None:
    router = StubRouter()
    manager = Manager(router)
    assert manager.ask("CREATE", {"hostname": "v"}, type="vhost")[0] == 201
    first = router.policy.policy.vhosts
    for n in range(3):
        assert manager.ask("CREATE", {"hostname": f"v{n}"}, type="vhost")[0] == 201
        assert router.policy.policy.vhosts is first


@pytest.mark.parametrize("patterns", [False, True])
def test_a_refused_change_leaves_the_names_as_they_were(patterns: bool) -> None:
    router = StubRouter()
    manager = Manager(router)
    assert manager.ask("UPDATE", {"enableVhostNamePatterns": patterns}, type="policy")[0] == 200
    for name, aliases in (("a", "b,c"), ("d", "")):
        assert manager.ask("CREATE", {"hostname": name, "aliases": aliases}, type="vhost")[0] == 201
    before = dict(router.policy.policy.vhosts)
    assert manager.ask("UPDATE", {"aliases": "e,f,a"}, type="vhost", name="vhost/d")[0] == 400
    assert manager.ask("CREATE", {"hostname": "g", "aliases": "h,c"}, type="vhost")[0] == 400
    assert router.policy.policy.vhosts == before
    assert manager.ask("UPDATE", {"aliases": "e"}, type="vhost", name="vhost/d")[0] == 200
    assert manager.ask("DELETE", type="vhost", name="vhost/a")[0] == 204
    assert set(router.policy.policy.vhosts) == {"d", "e"}
    assert manager.ask("CREATE", {"hostname": "b", "aliases": "a c g h"}, type="vhost")[0] == 201
