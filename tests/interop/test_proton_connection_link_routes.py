"""A proton client on a connection of role route-container creates link routes to itself."""

from __future__ import annotations

import pytest

from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

KIND = "router.connection.linkRoute"
JOBS = {"pattern": "jobs.#", "direction": "in"}


def test_a_container_makes_a_link_route_that_ends_with_it(start_router: StartRouter) -> None:
    port = free_port()
    listener = section("listener", name="containers", host="127.0.0.1", port=port, role="route-container")
    router = start_router(extra=listener)
    with ManagementClient(router.url) as client:
        with pytest.raises(ManagementError) as refused:
            client.create(KIND, JOBS)
        assert refused.value.status == 403
        with ManagementClient(f"amqp://127.0.0.1:{port}") as container:
            made = container.create(KIND, JOBS, name="mine")
            assert not client.query(KIND)  # it is not his
            (seen,) = container.query(KIND)
            assert client.query("router.address", where="name = 'Cjobs'")  # a prefix
            assert (seen["name"], seen["pattern"], seen["identity"]) == ("mine", "jobs.#", made["identity"])
            with pytest.raises(ManagementError) as refused:
                container.create(KIND, JOBS, name="other")
            assert refused.value.status == 409
        wait_until(lambda: not client.query("router.address", where="name = 'Cjobs'"))
