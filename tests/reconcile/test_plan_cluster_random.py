"""Any plan for a cluster, interrupted anywhere, is finished by the next."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waymesh_operator.planning.plan import plan
from waymesh_operator.resources.dependents import Address, AutoLink, Broker, LinkRoute, Resources
from waymesh_operator.resources.listener import Listener
from waymesh_operator.resources.router import Ref

from .cluster_model import MESH, ModelCluster, router

pytestmark = pytest.mark.engine_independent

NAMES = st.sampled_from("abc")


def _addresses(draw: st.DrawFn) -> tuple[Address, ...]:
    found: Mapping[str, str] = draw(st.dictionaries(NAMES, st.sampled_from(["x", "y", "z"]), max_size=3))
    return tuple(Address(Ref("ns", name), MESH, prefix=prefix) for name, prefix in found.items())


@st.composite
def resources(draw: st.DrawFn) -> Resources:
    """Any mesh with a few of everything."""
    ports = draw(st.lists(st.sampled_from([5000, 5100, 5200]), max_size=2, unique=True))
    placement, ordinals = draw(st.sampled_from([("All", ()), ("One", ()), ("List", (0, 2))]))
    brokers = tuple(
        Broker(Ref("ns", name), MESH, ((host, 5672),), placement=placement, ordinals=ordinals)
        for name, host in draw(st.dictionaries(NAMES, st.sampled_from(["h1", "h2"]), max_size=2)).items()
    )
    links = tuple(
        AutoLink(Ref("ns", name), MESH, queue, "in", broker=Ref("ns", broker))
        for name, (queue, broker) in draw(
            st.dictionaries(NAMES, st.tuples(st.sampled_from(["q", "r"]), NAMES), max_size=2)
        ).items()
    )
    routes = tuple(
        LinkRoute(Ref("ns", name), MESH, way, prefix="p", container_id="c")
        for name, way in draw(st.dictionaries(NAMES, st.sampled_from(["in", "out", "both"]), max_size=2)).items()
    )
    listeners = tuple(Listener(f"l{i}", port) for i, port in enumerate(ports))
    drawn = router(draw(st.integers(0, 8)), listeners=listeners, log_level=draw(st.sampled_from(["info", "debug"])))
    return Resources(drawn, _addresses(draw), brokers, links, routes)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(resources(), st.integers(0, 40)), min_size=1, max_size=4), resources())
def test_whatever_is_asked_and_wherever_it_is_broken_off_the_last_wish_comes_true(
    wishes: list[tuple[Resources, int]], last: Resources
) -> None:
    model = ModelCluster()
    for wish, steps in wishes:
        model.reconcile(wish, steps)  # the model refuses what a router would refuse, and the loss of messages
    model.converge(last)
    assert model.reconcile(last) == ()
    assert len(model.routers) == last.router.size
    assert model.restarts == 0
    fresh = ModelCluster()
    fresh.converge(last)
    for name, live in model.routers.items():
        assert {e.key for e in live.entities} == {e.key for e in fresh.routers[name].entities}


@settings(max_examples=20, deadline=None)
@given(resources(), resources(), st.data())
def test_every_prefix_of_a_plan_leads_on(first: Resources, then: Resources, data: st.DataObject) -> None:
    model = ModelCluster()
    model.converge(first)
    while actions := plan(model.desire(then), model.observed):
        model.apply(actions[0])  # the operator ends after each single step
        if data.draw(st.booleans()):
            model.settle()
    model.settle()
    model.converge(then)
    assert model.reconcile(then) == ()
