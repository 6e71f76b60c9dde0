"""The store's files through Hadoop, and two runs at one store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]


@pytest.fixture(params=["local", "hadoop"])
def storage(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Any:
    from waymesh_analytics.store.storage import HadoopStorage, open_storage

    (folder := tmp_path / "with space%20and more").mkdir()
    address = f"file://{folder}"
    return open_storage(spark, address) if request.param == "local" else HadoopStorage(spark, address)


def test_a_new_file_takes_no_other_one_s_place(storage: Any) -> None:
    storage.write_new("a/b", "first")
    with pytest.raises(FileExistsError):
        storage.write_new("a/b", "second")
    assert (storage.read_text("a/b"), storage.names("a")) == ("first", ["b"])
    storage.put("a/b", "third")
    assert storage.read_text("a/b") == "third"


def test_files_are_replaced_and_removed(storage: Any, tmp_path: Path) -> None:
    from waymesh_analytics.errors import AnalyticsError

    for content in (b"one", b"two"):
        storage.write_bytes("a/c", content)
    assert (storage.read_bytes("a/c"), storage.names("a"), storage.is_folder("a")) == (b"two", ["c"], True)
    assert (tmp_path / "with space%20and more/a/c").stat().st_mtime == pytest.approx(storage.modified("a/c"), abs=0.01)
    with pytest.raises(AnalyticsError, match="a/none"):
        storage.read_text("a/none")
    storage.delete("a/c")
    storage.delete("a")
    storage.delete("a")
    assert not storage.exists("a")
    assert storage.names("a") == []


def test_local_listing_skips_what_spark_skips(tmp_path: Path) -> None:
    from waymesh_analytics.store.local_storage import files_under

    for name in ("v1/kind=link/dt=1/one", "v1/.part/two", "v1/_x/three", "v1/kind=link/.four", "v1/_k=1/five"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12")
    (tmp_path / "v1/empty").touch()
    found = {(address.removeprefix(f"file:{tmp_path}/"), size) for address, size in files_under(tmp_path)}
    assert found == {("v1/kind=link/dt=1/one", 2), ("v1/_k=1/five", 2)}


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
