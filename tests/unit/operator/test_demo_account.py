"""The demo's account of messages."""

from __future__ import annotations

import pytest

from waymesh_operator.cli.demo_traffic import Account

pytestmark = pytest.mark.engine_independent


def test_the_account_finds_what_is_lost_and_what_came_twice() -> None:
    account = Account(sent=5)
    for number, now in ((0, 1.0), (1, 1.1), (1, 1.2), (3, 2.2)):
        account.arrived(number, now)
    assert (account.received, account.lost, account.duplicated) == (4, 2, 1)
    assert account.longest_gap_s == pytest.approx(1.0)
    assert account.rate == pytest.approx(4 / 1.2)


def test_nothing_sent_nothing_lost() -> None:
    assert (Account().lost, Account().duplicated, Account().rate) == (0, 0, 0.0)
