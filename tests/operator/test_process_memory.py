"""What the operator's process does about the memory of its C library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine_independent

PROGRAM = """
import ctypes, sys, threading
from waymesh_operator.places.kubernetes import operator

libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
if sys.argv[1] == "few":
    operator._give_back_memory()
together = threading.Barrier(4)

def work():
    together.wait()
    for _ in range(100):
        assert libc.malloc(1000)
    together.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, file)
libc.fclose(file)
"""


def arenas(folder: Path, how: str) -> int:
    """The number of arenas of a process with some threads."""
    file = folder / how
    subprocess.run([sys.executable, "-c", PROGRAM, how, str(file)], check=True)
    return file.read_text().count("<heap nr=")


def test_threads_have_no_arenas_of_their_own(tmp_path: Path) -> None:
    assert arenas(tmp_path, "few") == 1 < arenas(tmp_path, "many")
