"""The table of telemetry records and its file names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_schema.telemetry import KINDS, TYPES, FileName, Kind, parse_path

pytestmark = pytest.mark.engine_independent

NAMES = st.builds(
    FileName,
    kind=st.sampled_from(sorted(KINDS)),
    dt=st.dates().map(lambda day: day.isoformat()),
    hr=st.integers(0, 23),
    router=st.text(min_size=1),
    boot=st.integers(0, 2**62),
    first=st.integers(0, 2**62),
    count=st.integers(0, 2**31),
)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_fields_have_names_of_their_own_and_known_types(kind: Kind) -> None:
    names = [field.name for field in kind.fields]
    assert len(set(names)) == len(names)
    assert all(field.type in TYPES and field.description.endswith(".") for field in kind.fields)


@given(NAMES, st.sampled_from(["", "spool/", "/a/b=c/"]))
def test_a_path_says_what_the_name_was_made_of(name: FileName, root: str) -> None:
    assert parse_path(root + name.path) == name


@pytest.mark.parametrize(
    "path",
    [
        "v1/kind=event/dt=2026-01-31/hr=07/.tmp-a-5-000000000001.ndjson.gz",
        "v1/kind=event/dt=2026-01-31/hr=07/.tmp-a-5-000000000001-3.ndjson.gz",
        "v2/kind=event/dt=2026-01-31/hr=07/a-5-000000000001-3.ndjson.gz",
        "v1/kind=other/dt=2026-01-31/hr=07/a-5-000000000001-3.ndjson.gz",
        "v1/kind=event/dt=2026-01-31/hr=24/a-5-000000000001-3.ndjson.gz",
        "v1/kind=event/dt=2026-01-31/a-5-000000000001-3.ndjson.gz",
        "a-5-000000000001-3.ndjson.gz",
        "",
    ],
)
def test_other_paths_are_no_finished_files(path: str) -> None:
    assert parse_path(path) is None
