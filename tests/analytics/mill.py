"""An in-memory store without Spark: its files, a runner for the steps of a run, and interruptions of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from waymesh_analytics.log import Log
from waymesh_analytics.options import Retention
from waymesh_analytics.store.catalog import Catalog
from waymesh_analytics.store.claim import Clock, Owner
from waymesh_analytics.store.files import Files
from waymesh_analytics.store.manifest import Hour
from waymesh_analytics.store.retention import retain


class Memory:
    """`Files` in memory: `texts` by path."""

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self.texts = dict(texts or {})

    def full(self, path: str) -> str:
        return f"memory:/{path}"

    def exists(self, path: str) -> bool:
        return any(f"{each}/".startswith(f"{path}/" if path else "") for each in list(self.texts))

    def names(self, path: str) -> list[str]:
        start = f"{path}/" if path else ""
        return sorted({each[len(start) :].partition("/")[0] for each in list(self.texts) if each.startswith(start)})

    def read_text(self, path: str) -> str:
        if path not in self.texts:
            raise FileNotFoundError(path)
        return self.texts[path]

    def write_new(self, path: str, text: str) -> None:
        if path in self.texts:
            raise FileExistsError(path)
        self.texts[path] = text

    def put(self, path: str, text: str) -> None:
        self.texts[path] = text

    def delete(self, path: str) -> None:
        for each in [each for each in self.texts if each == path or each.startswith(f"{path}/")]:
            del self.texts[each]


class Killed(BaseException):
    """The process ends here; nothing of it is cleaned up."""


class Breaking:
    """The same files until `step`: each change counts as three, one before it, one in the midst of it, one after it.
    From then on nothing is changed any more."""

    def __init__(self, files: Memory, step: int) -> None:
        self.files = files
        self.left = step
        self.exists, self.names, self.read_text, self.full = files.exists, files.names, files.read_text, files.full

    def write_new(self, path: str, text: str) -> None:
        self._step()
        folder, _, name = path.rpartition("/")
        part = f"{folder}/.{name}.tmp"
        self.files.put(part, text)
        self._step()
        self.files.delete(part)
        self.files.write_new(path, text)
        self._step()

    def put(self, path: str, text: str) -> None:
        self._step()
        self.files.put(path, text[: len(text) // 2])
        self._step()
        self.files.put(path, text)
        self._step()

    def delete(self, path: str) -> None:
        self._step()
        for each in [each for each in sorted(self.files.texts) if each.startswith(f"{path}/")][:1]:
            self.files.delete(each)
        self._step()
        self.files.delete(path)
        self._step()

    def _step(self) -> None:
        if self.left <= 0:
            raise Killed
        self.left -= 1


class Mill:
    """What a run does, but for Spark: an hour's raw file, {router: text}, becomes one curated file and one rollup."""

    def __init__(self) -> None:
        self.store = Memory()
        self.raw = Memory()
        self.runs = 0

    def copy(self) -> Mill:
        """Another one as it is now."""
        made = Mill()
        made.store, made.raw, made.runs = Memory(self.store.texts), Memory(self.raw.texts), self.runs
        return made

    def export(self, hour: str, router: str) -> None:
        """A file of a router."""
        self.raw.put(f"{hour}/{router}", router)

    def run(
        self, files: Files | None = None, retention: Retention | None = None, log: Log = lambda text: None, **claim: Any
    ) -> None:
        """Bring the store up to date."""
        store = files or self.store
        self.runs += 1
        alone = {"owner": Owner(f"host-{self.runs}", 1, ""), "clock": still()}
        with Catalog.write(store, log, **{**alone, **claim}) as catalog:
            listed = {hour: self.raw.names(hour) for hour in self.raw.names("")}
            for hour, routers in listed.items():
                self.work_up(catalog, store, hour, routers)
            catalog.remove_orphans()
            if retention is not None:
                files_of = {h: [SimpleNamespace(path=f"{h}/{r}") for r in routers] for h, routers in listed.items()}
                listing: Any = SimpleNamespace(files={"delivery": files_of})
                remove = self.raw.delete if files is None else Breaking(self.raw, getattr(files, "left", 0)).delete
                retain(catalog, listing, retention, datetime(2027, 1, 1, tzinfo=UTC), remove, log)

    def work_up(self, catalog: Catalog, store: Files, hour: str, routers: list[str]) -> None:
        """As `compaction.compact_batch`."""
        known = catalog.manifest.of("delivery").get(hour)
        text = " ".join(routers)
        if known and (known.fingerprint == text or known.sealed or known.promised > len(routers)):
            return
        run = f"{self.runs:04d}"
        place = f"delivery/{run}-{hour}/part={hour}/part-0.parquet"
        for area in ("curated", "rollups"):
            store.put(f"{area}/{place}", text)
        paths: dict[str, tuple[str, ...]] = {"flow": (f"rollups/{place}",)}
        catalog.commit_hours("delivery", {hour: Hour(text, 1, len(routers), 1, 0, (), (f"curated/{place}",), paths)})

    def found(self) -> dict[str, str]:
        """What a reader finds: hour → content. Every file that the manifest names is there."""
        entries = Catalog.read(self.store).manifest.of("delivery")
        read = {hour: self.store.read_text(entry.curated[0]) for hour, entry in entries.items() if entry.curated}
        assert read == {h: self.store.read_text(e.rollups["flow"][0]) for h, e in entries.items() if e.curated}
        return read

    def files(self) -> list[str]:
        """The files of the areas, which should be those that the manifest names."""
        return sorted(path for path in self.store.texts if path.startswith(("curated/", "rollups/")))

    def named(self) -> list[str]:
        """The files that the manifest names."""
        return sorted(Catalog.read(self.store).manifest.paths())


def still(watched: Callable[[], None] = lambda: None) -> Clock:
    """A clock that goes on when somebody waits; `watched` is called each time."""
    moment = [0.0]

    def wait(seconds: float) -> None:
        moment[0] += seconds
        watched()

    return Clock(lambda: moment[0], wait)
