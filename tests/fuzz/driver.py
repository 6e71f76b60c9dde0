"""Runs a target on mutated inputs for a while; shrinks and saves failing inputs."""

from __future__ import annotations

import hashlib
import mmap
import random
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.fuzz.mutate import mutate

CORPUS = Path(__file__).parent / "corpus"
HANG_S = 5.0
SHRINK_S = 10.0
POOL = 400
NOTE_BYTES = 1 << 16


class Hang(Exception):
    """One input took too long."""


def seeds(name: str) -> list[bytes]:
    """The committed inputs of a target."""
    return [path.read_bytes() for path in sorted(CORPUS.glob(f"{name}-*"))]


def on_alarm(number: int, frame: FrameType | None) -> None:
    raise Hang(f"over {HANG_S} s")


def outcome_of(run: Callable[[bytes], None], data: bytes) -> str:
    """What the target did with an input: "" or a signature of the finding."""
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        run(data)
    except Exception as e:  # noqa: BLE001  every exception is a finding here
        place = traceback.extract_tb(e.__traceback__)[-1]
        return f"{type(e).__name__} at {Path(place.filename).name}:{place.name}: {str(e)[:80]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def shrink(run: Callable[[bytes], None], data: bytes, signature: str) -> bytes:
    """A smaller input that fails at the same place."""
    deadline = time.monotonic() + SHRINK_S
    place = signature.split(":", maxsplit=1)[0]
    size = max(len(data) // 2, 1)
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(data) and time.monotonic() < deadline:
            smaller = data[:at] + data[at + size :]
            if smaller and outcome_of(run, smaller).split(":")[0] == place:
                data = smaller
            else:
                at += size
        size //= 2
    return data


def save(name: str, data: bytes) -> Path:
    """Put an input into the corpus."""
    path = CORPUS / f"{name}-crash-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path


def fuzz(name: str, run: Callable[[bytes], None], seconds: float, seed: int, note: mmap.mmap) -> tuple[int, list[str]]:
    """Mutate until the time is over: runs made, findings. `note` holds the input under test, should it kill us."""
    signal.signal(signal.SIGALRM, on_alarm)
    rng = random.Random(seed)
    base = seeds(name)
    pool = list(base)
    found: dict[str, str] = {}
    runs = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutate(rng, pool)
        note[:4] = len(data).to_bytes(4, "big")
        note[4 : 4 + len(data)] = data
        signature = outcome_of(run, data)
        runs += 1
        if signature:
            if signature not in found and len(found) < 20:
                small = shrink(run, data, signature)
                found[signature] = f"{signature}  -> {save(name, small).name}"
        elif rng.random() < 0.05:  # drift away from the seeds, but not for ever
            pool.append(data)
            if len(pool) > POOL:
                pool = base + pool[-POOL // 2 :]
    note[:4] = bytes(4)
    return runs, list(found.values())
