"""User names from certificates: unique for each subject, and unchanged for ordinary ones."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waymesh_router.runtime.tls.identity import (
    SHORT_NAMES,
    SUBJECT_CODES,
    Identity,
    chosen_parts,
    identity_of,
    whole_subject,
)
from waymesh_router.runtime.tls.sockets import TlsSocket

pytestmark = pytest.mark.engine_independent

Subject = tuple[tuple[tuple[str, str], ...], ...]

_NAMES = st.sampled_from(["commonName", "organizationName", "organizationalUnitName", "1.2.3.4"])
_VALUES = st.text(alphabet='ab,;+=\\" <>#', min_size=1, max_size=6)
_SUBJECTS = st.lists(st.lists(st.tuples(_NAMES, _VALUES), min_size=1, max_size=2).map(tuple), max_size=3).map(tuple)


def cn(value: str, **more: str) -> Subject:
    return ((("commonName", value),), *(((name, text),) for name, text in more.items()))


def test_common_identities_are_unchanged() -> None:
    subject = ((("countryName", "CZ"),), (("organizationName", "Example s.r.o."),), (("commonName", 'a "b" <c>=d'),))
    assert whole_subject(subject) == 'C=CZ,O=Example s.r.o.,CN=a "b" <c>=d'
    assert chosen_parts(subject, b"", "nco") == 'a "b" <c>=d;CZ;Example s.r.o.'


def test_separators_in_values_are_escaped() -> None:
    assert whole_subject(cn("a,O=b")) == r"CN=a\,O=b"
    assert whole_subject(cn("a", organizationName="b")) == "CN=a,O=b"
    assert whole_subject(((("commonName", "a"), ("organizationName", "b")),)) == "CN=a+O=b"
    assert whole_subject(cn("a+O=b")) == r"CN=a\+O=b"
    assert chosen_parts(cn("a;b"), b"", "no") == r"a\;b"
    assert chosen_parts(cn("a", organizationName="b"), b"", "no") == "a;b"


def test_an_absent_part_is_told_from_another_one() -> None:
    assert chosen_parts(cn("a"), b"", "no") == "a"
    assert chosen_parts(cn("a"), b"", "on") == ";a"
    assert chosen_parts(((("organizationName", "a"),),), b"", "on") == "a"


@given(_SUBJECTS, _SUBJECTS)
@example(cn("a,O=b"), cn("a", organizationName="b"))
@example(cn("a\\"), cn("a\\\\"))
@example(cn("a\\", organizationName="b"), cn("a\\,O=b"))
def test_different_subjects_never_have_the_same_name(one: Subject, other: Subject) -> None:
    assert (whole_subject(one) == whole_subject(other)) == (one == other)


@given(st.permutations("nou").map("".join), _SUBJECTS, _SUBJECTS)
def test_different_choices_of_parts_never_have_the_same_name(codes: str, one: Subject, other: Subject) -> None:
    def parts(subject: Subject) -> list[str | None]:
        fields = {SHORT_NAMES.get(name, name): value for name, value in itertools.chain(*subject)}
        return [fields.get(SUBJECT_CODES[code]) for code in codes]

    same = chosen_parts(one, b"", codes) == chosen_parts(other, b"", codes)
    assert same == (parts(one) == parts(other))


class Shown:
    """A TLS connection whose peer has presented `fields`, or nothing; counts what it is asked for."""

    def __init__(self, fields: dict[str, Any] | None) -> None:
        self.asked: list[str] = []
        self.tls = self
        self._fields = fields

    def getpeercert(self, binary_form: bool = False) -> dict[str, Any] | bytes | None:
        self.asked.append("encoded" if binary_form else "decoded")
        return b"encoded" if binary_form and self._fields else self._fields

    def identity(self, uid_format: str | None = None) -> Identity | None:
        return identity_of(cast("TlsSocket", self), uid_format, {"worker": "friend"})


FIELDS = {
    "subject": cn("worker"), "serialNumber": "0A", "notBefore": "Jan  1 00:00:00 1970 GMT",
    "notAfter": "Jan  1 00:01:00 1970 GMT",
}  # fmt: skip


@pytest.mark.parametrize(
    ("uid_format", "user", "asked"),
    [
        (None, "CN=worker", ["decoded"]),
        ("n", "friend", ["decoded"]),
        ("n2", f"worker;{hashlib.sha256(b'encoded').hexdigest()}", ["decoded", "encoded"]),
    ],
)
def test_a_certificate_is_decoded_once(uid_format: str | None, user: str, asked: list[str]) -> None:
    shown = Shown(FIELDS)
    identity = shown.identity(uid_format)
    assert identity is not None
    assert identity.user == user
    assert (identity.certificate.number, identity.certificate.validity) == ("0A", (0.0, 60.0))
    assert shown.asked == asked


@pytest.mark.parametrize("fields", [None, {}])  # nothing presented; nothing verified
def test_a_peer_without_a_certificate_has_no_identity(fields: dict[str, Any] | None) -> None:
    shown = Shown(fields)
    assert shown.identity("n2") is None
    assert shown.asked == ["decoded"]
