"""Codes of encoded delivery states."""

from __future__ import annotations

import pytest

from waymesh_amqp.outcomes import ACCEPTED_CODE, MODIFIED_CODE, REJECTED_CODE, RELEASED_CODE
from waymesh_router.core.settlement import outcomes


@pytest.mark.engine_independent
def test_each_outcome_has_a_name_and_a_rank() -> None:
    codes = {ACCEPTED_CODE, REJECTED_CODE, RELEASED_CODE, MODIFIED_CODE}
    assert outcomes.OUTCOME_NAMES.keys() == outcomes.MULTICAST_RANKS.keys() == codes


@pytest.mark.engine_independent
def test_rejected_wins_over_accepted_over_modified_over_released() -> None:
    ranked = sorted(outcomes.MULTICAST_RANKS, key=outcomes.MULTICAST_RANKS.__getitem__, reverse=True)
    assert [outcomes.OUTCOME_NAMES[code] for code in ranked] == ["rejected", "accepted", "modified", "released"]
