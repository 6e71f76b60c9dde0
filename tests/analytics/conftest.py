"""One Spark session for all tests, and the report on the known mesh of world.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analytics import world
from tests.kit.built import java_libraries
from tests.s3 import ENVIRONMENT

S3A = Path(__file__).parents[2] / "spark/s3a"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from waymesh_analytics.spark import java_options
    from waymesh_analytics.spark.session import JAVA_OPTIONS, SMALL_DATA, open_session

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.local.dir": str(folder),
        "spark.driver.memory": "1g",
        # What `make analytics-bucket` adds.
        "spark.driver.extraClassPath": f"{java_libraries(S3A)}/*",
        # Little data: to start quickly counts, not to run fast.
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options.SMALL_DATA}",
        **SMALL_DATA,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, text in ENVIRONMENT.items():
            patch.setenv(name, text)  # Java keeps it as it is when it starts
        session = open_session("local[2]", settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world") / "export"
    world.build(root)
    return root


@pytest.fixture(scope="session")
def analyzed(spark: Any, exported: Path) -> Any:
    """The report of the world, written beside its export, in `out`."""
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    out = exported.parent / "out"
    return analyze(spark, Options(str(exported), str(out)), lambda text: None)


@pytest.fixture(scope="session")
def rows(analyzed: Any) -> Callable[..., list[dict[str, Any]]]:
    """`rows("links", state="stuck")`: the rows of a table with these values."""

    def find(table: str, **wanted: object) -> list[dict[str, Any]]:
        return [row for row in analyzed.tables[table].dicts() if wanted.items() <= row.items()]

    return find
