"""Who gets in, by rhea and go-amqp: the rows of test_tls_sasl_matrix.py that these clients can ask for."""

from __future__ import annotations

import pytest

from tests.interop.programs import Program
from tests.interop.tls_sasl_world import World, logins, running

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

world = pytest.fixture(scope="module")(running)


def test_clients_of_other_libraries_get_in_or_not_as_those_of_proton(world: World, program: Program) -> None:
    cases = logins(world)
    run = program("login", ca=str(world.authority.cert), logins=[case.arguments for case in cases])
    got_in = {row["name"]: not row["error"] for row in run.result()["results"]}
    assert got_in == {case.arguments["name"]: case.gets_in for case in cases}
