"""`python -m tests.fuzz --seconds 60 --seed 1`: in a child process, so that a crash of the interpreter is found too.

WAYMESH_ENGINE chooses the engine. Findings are shrunk and written to tests/fuzz/corpus; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import sys
import tempfile
from pathlib import Path

import waymesh_amqp
from tests.fuzz import driver
from tests.fuzz.targets import target


def parse(arguments: list[str]) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=("engine", "parties", "config", "all"), default="all")
    return parser.parse_args(arguments)


def child(name: str, seconds: float, seed: int, note: mmap.mmap) -> int:
    """One target, in this process."""
    runs, findings = driver.fuzz(name, target(name), seconds, seed, note)
    print(f"{name} ({waymesh_amqp.engine()}): {runs} inputs in {seconds:.0f} s, {len(findings)} findings", flush=True)
    for text in findings:
        print("  " + text, flush=True)
    return 1 if findings else 0


def guarded(name: str, seconds: float, seed: int) -> bool:
    """Fork, wait, and save the input that killed the child, if one did."""
    with tempfile.TemporaryFile() as file:
        file.truncate(driver.NOTE_BYTES)
        note = mmap.mmap(file.fileno(), driver.NOTE_BYTES)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os._exit(child(name, seconds, seed, note))
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 1):
            path: Path = driver.save(name, note[4 : 4 + int.from_bytes(note[:4], "big")])
            print(f"{name}: the process ended with {code}  -> {path.name}", flush=True)
        return code == 0


def main() -> int:
    """Fuzz what was asked for."""
    options = parse(sys.argv[1:])
    names = ("engine", "parties", "config") if options.target == "all" else (options.target,)
    clean = [guarded(name, options.seconds, options.seed) for name in names]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
