"""Replacement for the module `cython` where Cython is not installed.

Hot modules are written in Cython's pure-Python mode: they import `cython` for decorators, type names and casts.
In interpreted code, these have no effect: decorators return the decorated object, casts return their argument, and
types are only names. Values are not wrapped to the width of a C type, so code that relies on overflow must mask
explicitly, as with the real module. Names that are missing here raise AttributeError on purpose: add them when a hot
module needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False
"""What `if cython.compiled:` reads: False wherever this module is in use."""


class CType:
    """A C type by name: can be subscripted (`const[uchar]`, `uchar[::1]`) and called (`uint(5)`)."""

    def __init__(self, name: str, convert: Callable[[Any], Any] | None = None) -> None:
        self.name = name
        self._convert = convert

    def __getitem__(self, item: object) -> CType:
        return self

    def __call__(self, value: Any = 0) -> Any:
        return value if self._convert is None else self._convert(value)

    def __repr__(self) -> str:
        return f"cython.{self.name}"


def _integers(*names: str) -> dict[str, CType]:
    return {name: CType(name, int) for name in names}


_SIGNED = ("char", "schar", "short", "int", "long", "longlong", "Py_ssize_t", "ssize_t", "sint", "slong", "slonglong")
_UNSIGNED = ("uchar", "ushort", "uint", "ulong", "ulonglong", "size_t", "Py_UCS4", "Py_hash_t")
_FIXED = tuple(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64))
_POINTERS = tuple(
    f"p_{name}" for name in ("char", "uchar", "schar", "short", "ushort", "int", "uint", "long", "ulong", "void")
)

globals().update(_integers(*_SIGNED, *_UNSIGNED, *_FIXED))
globals().update({name: CType(name) for name in (*_POINTERS, "void", "pointer", "const", "volatile", "array")})
globals().update({name: CType(name, float) for name in ("float", "double")})
bint = CType("bint", bool)

NULL = None


def _same(subject: T) -> T:
    return subject


def _maker(*args: Any, **kwargs: Any) -> Callable[[T], T]:
    """A decorator factory without effect."""
    return _same


def _switch(subject: Any = None, /, *args: Any, **kwargs: Any) -> Any:
    """A decorator that is used with arguments (`@nogil(True)`) or without (`@nogil`)."""
    return subject if callable(subject) else _same


cfunc = ccall = cclass = final = internal = no_gc = no_gc_clear = inline = total_ordering = _same
exceptval = returns = freelist = boundscheck = wraparound = initializedcheck = _maker
cdivision = overflowcheck = nonecheck = infer_types = profile = linetrace = binding = always_allow_keywords = _maker
annotation_typing = embedsignature = optimize = type_version_tag = auto_pickle = ufunc = collection_type = _maker
test_assert_path_exists = test_fail_if_path_exists = iterable_coroutine = trashcan = no_default_arguments = _maker
globals()["locals"] = _maker


def declare(type_: Any = None, value: Any = None, **names: Any) -> Any:
    """Returns the initial value; only the compiler uses the type."""
    return value


def cast(type_: Any, value: Any, *, typecheck: bool = False) -> Any:
    """Returns the value unchanged."""
    return value


def address(value: T) -> T:
    """Returns the value. Only compiled branches take addresses; interpreted code only refers to the name."""
    return value


def sizeof(type_: Any) -> int:
    """Size of a C type in bytes; interpreted code does not use it."""
    return 1


def typedef(type_: T, *args: Any) -> T:
    """Returns the type itself."""
    return type_


def typeof(value: object) -> str:
    """The name of the value's Python type."""
    return type(value).__name__


def cmod(a: int, b: int) -> int:
    """C's remainder: it has the sign of the dividend."""
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def cdiv(a: int, b: int) -> int:
    """C's quotient: truncated towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def likely(condition: T) -> T:
    """Returns the condition; only the compiler uses the hint."""
    return condition


unlikely = likely


class _NoGil:
    """`nogil` and `gil`: a context manager, a decorator, or a decorator with an argument."""

    def __call__(self, subject: Any = None) -> Any:
        return subject if callable(subject) else _same

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


nogil = _NoGil()
gil = _NoGil()
