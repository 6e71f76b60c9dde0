"""Revocation lists as the router parses them."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from tests.kit.certificates import Authority, KeyPair
from waymesh_router.runtime.tls.revocation import revoked_serials, serial_of

pytestmark = pytest.mark.engine_independent


def der(pair: KeyPair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text(encoding="ascii"))


def test_the_revoked_certificates_and_no_others(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pairs = [authority.issue(f"p{k}", {"CN": f"p{k}"}, algorithm="RSA" if k == 2 else "EC") for k in range(4)]
    found = revoked_serials(authority.revoke(pairs[1], pairs[2]))
    assert [serial_of(der(pair)) in found for pair in pairs] == [False, True, True, False]
    assert revoked_serials(authority.revoke()) == revoked_serials(b"") == frozenset()


def test_lists_of_several_authorities_and_equal_numbers(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = Authority(tmp_path), Authority(tmp_path / "other", "Other CA")
    first, second = one.issue("a", {"CN": "a"}), other.issue("b", {"CN": "b"})
    found = revoked_serials(one.revoke(first) + other.revoke(second))
    assert {serial_of(der(first)), serial_of(der(second))} == found
    assert serial_of(der(first)) not in revoked_serials(other.revoke(first)), "a number is of its issuer"


@pytest.mark.parametrize("length", [1, 2, 10])
def test_a_list_that_ends_too_early_is_refused(tmp_path: Path, length: int) -> None:
    authority = Authority(tmp_path)
    whole = authority.revoke(authority.issue("a", {"CN": "a"}))
    short = base64.b64encode(base64.b64decode(b"".join(whole.splitlines()[1:-1]))[:length])
    with pytest.raises(ValueError, match="truncated revocation list"):
        revoked_serials(b"-----BEGIN X509 CRL-----\n" + short + b"\n-----END X509 CRL-----\n")
