"""Batches: what a step is fed with."""

from __future__ import annotations

from typing import Iterable, Sequence

from . import _plait
from .handle import Handle, id_rows

__all__ = ["Batch"]


class Batch(Handle):
    """Token ids in rows, as int32. `Engine.batch` makes one.

    "tokens" is [rows, sequence_length + 1], or [rows, sequence_length] beside "targets" of the
    same shape (-1: ignored); "documents" is shaped as tokens. A call of the engine copies what it
    reads: the batch may be changed once the call has returned. One thread at a time.
    """

    __slots__ = ("_views", "_shapes")

    def __init__(self, native):
        super().__init__(native)
        self._views: dict[str, object] = {}
        self._shapes: dict[str, tuple[int, int]] = {}

    @property
    def rows(self) -> int:
        """Rows of "tokens", 0 while there are none."""
        return self._shapes.get("tokens", (0, 0))[0]

    def map(self, name: str, rows: int, columns: int) -> memoryview:
        """The batch's own memory for `name`, to be filled in place: a writable memoryview of
        int32, [rows, columns]; `numpy.asarray` takes it as it is, `.cast("B").cast("i")` makes
        one row of it.

        It keeps its content until the shape changes, which is a BufferError while a memoryview of
        the old shape is in use. The memory lives as long as any memoryview.
        """
        view = self._views.get(name)
        if view is None or self._shapes[name] != (rows, columns):
            self._retire(name)
            view = _plait.batch_map(self._native, name, rows, columns)
            self._views[name] = view
            self._shapes[name] = (rows, columns)
        return memoryview(view)

    def set(self, name: str, values: Sequence[Iterable[int]] | None) -> None:
        """Copies `values`: rows of integers, or anything two-dimensional with a buffer of int32.
        None removes them. Values are checked when the batch is used."""
        matrix = None if values is None else id_rows(values)
        shape = None if matrix is None else matrix.shape
        if self._shapes.get(name) != shape:
            self._retire(name)
        _plait.batch_set(self._native, name, matrix)
        if shape is not None:
            self._shapes[name] = shape

    def free(self) -> None:
        super().free()
        self._views.clear()

    def _retire(self, name: str) -> None:
        """Before the memory of `name` goes: BufferError where somebody still looks at it."""
        view = self._views.get(name)
        if view is not None:
            view.retire()
            del self._views[name]
        self._shapes.pop(name, None)
