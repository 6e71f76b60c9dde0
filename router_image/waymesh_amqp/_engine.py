"""Which engine runs: the hot modules compiled by Cython, or the same files interpreted.

`WAYMESH_ENGINE` chooses:

- unset: compiled when every hot module has a compiled twin that is not older than its source, else interpreted;
- `interpreted`: the `.py` files, even where a compiled twin lies beside them;
- `compiled`: as it says, and an ImportError that names the module where the twin is missing or stale.

The choice holds for all hot modules together: compiled classes know each other's memory layout, so one interpreted
module among compiled ones would not load. This file is also read by `tools/build_engine.py` and stands on its own.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

HOT: Final[tuple[str, ...]] = (
    "waymesh_amqp.wire",
    "waymesh_amqp.buffer",
    "waymesh_amqp.outcome_ranges",
    "waymesh_amqp.time_outs",
    "waymesh_amqp.connection",
    "waymesh_amqp.connection_frames",
    "waymesh_amqp.frame_reader",
    "waymesh_amqp.preamble",
    "waymesh_amqp.session",
    "waymesh_amqp.flows",
    "waymesh_amqp.dispositions",
    "waymesh_amqp.link_frames",
    "waymesh_amqp.link",
    "waymesh_amqp.delivery",
    "waymesh_amqp.handler",
    "waymesh_amqp.outgoing",
    "waymesh_amqp.transfer",
    "waymesh_router.core.forwarding.annotations",
    "waymesh_router.core.forwarding.sections",
    "waymesh_router.core.model",
    "waymesh_router.core.forwarding.section_order",
    "waymesh_router.core.counters",
    "waymesh_router.core.forwarding.budget",
    "waymesh_router.core.settlement.outcomes",
    "waymesh_router.core.delivery_sampling",
    "waymesh_router.core.settlement.settlement",
    "waymesh_router.core.forwarding.choice",
    "waymesh_router.core.forwarding.sending",
    "waymesh_router.core.forwarding.multicast",
    "waymesh_router.core.forwarding.pending",
    "waymesh_router.core.addresses.table",
    "waymesh_router.core.link_routing.transfers",
    "waymesh_router.core.forwarding.credit",
    "waymesh_router.core.forwarding.later_frames",
    "waymesh_router.core.forwarding.message_address",
    "waymesh_router.core.forwarding.own_messages",
    "waymesh_router.core.forwarding.forwarder",
    "waymesh_router.core.settlement.interruptions",
    "waymesh_router.core.core",
    "waymesh_router.routing.graph",
    "waymesh_router.telemetry.deliveries",
    "waymesh_router.telemetry.lines",
    "waymesh_router.runtime.connection_io",
)
"""Dotted names of the modules that are compiled. A listed module without a source file is skipped."""

ROOT: Final = Path(__file__).resolve().parent.parent
"""The folder that holds the packages: `router_image/` of a checkout, or site-packages."""

VARIABLE: Final = "WAYMESH_ENGINE"
COMPILED: Final = "compiled"
INTERPRETED: Final = "interpreted"


def source_of(name: str, root: Path = ROOT) -> Path:
    """The `.py` file of a hot module, whether it exists or not."""
    return root.joinpath(*name.split(".")).with_suffix(".py")


def twin_of(name: str, root: Path = ROOT) -> Path | None:
    """The compiled file of a hot module for this interpreter, None where there is none."""
    stem = root.joinpath(*name.split("."))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        candidate = stem.with_name(stem.name + suffix)
        if candidate.exists():
            return candidate
    return None


def fault_of(name: str, root: Path = ROOT) -> str | None:
    """Why the module cannot run compiled, None when it can (or does not exist at all)."""
    source = source_of(name, root)
    if not source.exists():
        return None
    twin = twin_of(name, root)
    if twin is None:
        return f"{name} has no compiled twin beside {source.name}: run `make engine`"
    # In a checkout the builder touches what it finds up to date, so age tells; an installed wheel keeps no file times.
    if (root.parent / "setup.py").exists():
        newest = max(f.stat().st_mtime for f in (source, source.with_suffix(".pxd")) if f.exists())
        if twin.stat().st_mtime < newest:
            return f"{name} was changed after it was compiled: run `make engine`"
    return None


def choose(environ: Mapping[str, str], hot: Sequence[str] = HOT, root: Path = ROOT) -> str:
    """COMPILED or INTERPRETED, from the environment and from what lies on disk.

    Raises ImportError for an unknown value and for a compiled engine that is asked for and not there.
    """
    wish = environ.get(VARIABLE, "")
    if wish == INTERPRETED:
        return INTERPRETED
    if wish not in ("", COMPILED):
        raise ImportError(f"{VARIABLE}={wish}: neither {COMPILED} nor {INTERPRETED}")
    faults = [fault for fault in (fault_of(name, root) for name in hot) if fault]
    if wish == COMPILED and faults:
        raise ImportError(f"{VARIABLE}={COMPILED}: " + "; ".join(faults))
    present = any(source_of(name, root).exists() for name in hot)
    return COMPILED if present and not faults else INTERPRETED


class SourceFinder:
    """Meta-path finder that loads hot modules from their `.py` files, past the compiled files beside them."""

    def __init__(self, hot: Sequence[str]) -> None:
        self._hot = frozenset(hot)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a hot module's source; None for every other module."""
        if name not in self._hot or path is None:
            return None
        for folder in path:
            source = Path(folder, name.rpartition(".")[2] + ".py")
            if source.exists():
                return importlib.util.spec_from_file_location(name, source)
        return None


def install(environ: Mapping[str, str] = os.environ) -> str:
    """Makes the choice and puts it into force for this process; must run before a hot module is imported."""
    choice = choose(environ)
    if choice == INTERPRETED:
        sys.meta_path.insert(0, SourceFinder(HOT))
    _provide_cython()
    return choice


def _provide_cython() -> None:
    """Hot modules import `cython` for its decorators and type names; Cython itself is only needed to compile."""
    if importlib.util.find_spec("cython") is None:
        from waymesh_amqp import _cython_stub

        sys.modules["cython"] = _cython_stub
