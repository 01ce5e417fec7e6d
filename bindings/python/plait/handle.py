"""What the classes that own a handle have in common, and how arguments become what the ABI
takes."""

from __future__ import annotations

import json
import math
import os
from array import array
from typing import Any, Iterable, Sequence

from . import _plait
from . import errors as _errors  # noqa: F401  (tells the extension how errors are made)

STOPPED = _plait.PLAIT_STOPPED


class Handle:
    """Owns a handle of the library: a context manager.

    Handles may be closed in any order and more than once; a child keeps what it needs of its
    parents. Whatever is called after that raises `InvalidArgument`. What is not closed is freed
    with the last reference.
    """

    __slots__ = ("_native", "__weakref__")

    def __init__(self, native):
        self._native = native

    @property
    def is_open(self) -> bool:
        """False once it was closed."""
        return self._native.is_open

    def free(self) -> None:
        """Frees the handle at once. It waits for nobody and never fails; calls that run on an
        engine or a group in other threads are aborted."""
        self._native.close()

    def close(self) -> None:
        """Frees the handle."""
        self.free()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.close()


def native_of(handle: Handle | None):
    """The extension's object behind a handle that may be None."""
    return None if handle is None else handle._native


def milliseconds(timeout: float | None) -> int:
    """`timeout` in seconds, None for no limit of the call's own, as the ABI counts."""
    if timeout is None:
        return -1
    if not timeout >= 0:
        raise ValueError(f"a timeout is None or a number of seconds, not {timeout!r}")
    return math.ceil(min(timeout * 1000, 2.0**62))


def path_text(path: str | os.PathLike) -> str:
    """A path as text."""
    return os.fsdecode(path)


def value_text(value: Any) -> str | None:
    """The text of a configuration value; None stays None, which means the default."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    return json.dumps(value)


def parse_report(text: str) -> Any:
    """A report: JSON as Python's values, lines of JSON as a list, anything else as it is."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.split("\n") if line]


def ids(values: Iterable[int]) -> memoryview:
    """Token ids as a row of int32: a buffer of int32 as it is, integers copied."""
    try:
        return memoryview(values)
    except TypeError:
        return memoryview(array("i", values))


def id_rows(values: Sequence[Iterable[int]]) -> memoryview:
    """Rows of token ids as a matrix of int32: a buffer of int32 as it is, integers copied."""
    try:
        return memoryview(values)
    except TypeError:
        rows = [array("i", row) for row in values]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ValueError("rows of one length are expected")
    return matrix(b"".join(row.tobytes() for row in rows), "i", len(rows), len(rows[0]))


def matrix(data, format: str, rows: int, columns: int) -> memoryview:
    """Bytes as rows and columns; one dimension where there is no row."""
    view = memoryview(data)
    return view.cast(format, (rows, columns)) if rows > 0 else view.cast(format)
