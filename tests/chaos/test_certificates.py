"""Faults of certificates do to the files what they say, and leave them usable."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.chaos.certificates import Certificates
from tests.chaos.schedule import ALL, Planned

pytestmark = pytest.mark.engine_independent

RENEW, EXPIRE = Planned(0.0, "renew", "A", 1.0), Planned(0.0, "expire", "A", 1.0)
EXPIRE_ALL, AUTHORITY = Planned(0.0, "expire", ALL, 1.0), Planned(0.0, "authority", ALL, 1.0)


class Files:
    """The certificates of two routers, and a look at them as OpenSSL has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = Certificates(folder)
        for router in "AB":
            assert str(folder / f"{router}.pem") in self.made.configuration(router)

    def error(self, router: str = "A", trusted: bytes = b"") -> str:
        """Why a client that trusts what all do, or `trusted`, refuses a router; "" if it does not."""
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(self.folder / f"{router}.pem", self.folder / f"{router}.key")
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_verify_locations(cadata=(trusted or self.made.trusted.read_bytes()).decode())
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = client.wrap_bio(back, there, server_hostname="127.0.0.1"), server.wrap_bio(there, back, server_side=True)
        for end in (*ends, *ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
        return ""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_pair_does_not_fit_while_it_is_renewed(files: Files) -> None:
    before = (files.folder / "A.pem").read_bytes()
    files.made.begin(RENEW)
    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        files.error()
    assert files.error("B") == ""
    files.made.end(RENEW)
    assert files.error() == ""
    assert (files.folder / "A.pem").read_bytes() != before


def test_what_has_expired_is_refused_until_the_end(files: Files) -> None:
    files.made.begin(EXPIRE)
    assert (files.error("A"), files.error("B")) == ("certificate has expired", "")
    files.made.end(EXPIRE)
    files.made.begin(EXPIRE_ALL)
    assert (files.error("A"), files.error("B")) == ("certificate has expired",) * 2
    files.made.end(EXPIRE_ALL)
    assert (files.error("A"), files.error("B")) == ("", "")


def test_an_authority_is_replaced_in_steps(files: Files) -> None:
    old = files.made.trusted.read_bytes()
    files.made.begin(AUTHORITY)
    assert files.error() == files.error(trusted=old) == ""
    both = files.made.trusted.read_bytes()
    files.made.end(AUTHORITY)
    assert files.error() == files.error(trusted=both) == ""
    assert files.error(trusted=old) == "unable to get local issuer certificate"
    assert files.made.trusted.read_bytes() not in (old, both)


def test_faults_of_certificates_that_overlap_leave_them_usable(files: Files) -> None:
    for order in ((AUTHORITY, RENEW), (RENEW, AUTHORITY), (EXPIRE, AUTHORITY), (AUTHORITY, EXPIRE)):
        for fault in order:
            files.made.begin(fault)
        for fault in order:
            files.made.end(fault)
        assert (files.error("A"), files.error("B")) == ("", "")
