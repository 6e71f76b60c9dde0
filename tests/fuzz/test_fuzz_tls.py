"""Some peers of the fuzzer of TLS, always the same: see `tls`."""

from __future__ import annotations

import pytest

from tests.fuzz.tls import LOT, fuzz

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


def test_bad_peers_over_tls_take_nothing_from_others() -> None:
    seen = fuzz(240.0, 41, most=2 * LOT)
    assert seen.total() == 2 * LOT
    assert seen["another handshake: refused"] == 2
