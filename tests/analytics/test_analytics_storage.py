"""The store's files through Hadoop, and two runs at one store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


def test_a_new_file_takes_no_other_one_s_place(spark: Any, tmp_path: Path) -> None:
    from waymesh_analytics.store.storage import Storage

    storage = Storage(spark, tmp_path.as_uri())
    storage.write_new("a/b", "first")
    with pytest.raises(FileExistsError):
        storage.write_new("a/b", "second")
    assert (storage.read_text("a/b"), storage.names("a")) == ("first", ["b"])
    storage.put("a/b", "third")
    assert storage.read_text("a/b") == "third"


def test_another_run_at_the_same_store_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from waymesh_analytics.errors import StoreBusy
    from waymesh_analytics.store import claim
    from waymesh_analytics.store.store import Store

    monkeypatch.setattr(claim, "HEARTBEAT_S", 0.05)
    with Store.write(spark, tmp_path.as_uri(), lambda text: None):
        with pytest.raises(StoreBusy, match="is writing to it"):
            with Store.write(spark, tmp_path.as_uri(), lambda text: None):
                pass
        assert Store.open(spark, tmp_path.as_uri()).manifest.hours == {}, "it can be read meanwhile"
    assert not list((tmp_path / "lock").iterdir())
    with Store.write(spark, tmp_path.as_uri(), lambda text: None) as store:
        assert store.catalog.claim is not None
        assert not store.catalog.claim.taken_over
