"""Checkpoints without an engine: what is in them, is it whole, and in another layout."""

from __future__ import annotations

import os
from typing import Any, Iterator

from . import _plait
from .config import Config
from .context import Context
from .handle import Handle, native_of, parse_report, path_text, value_text
from .operation import Operation
from .values import DType, EntryInfo, Kind

__all__ = ["Checkpoint", "list_checkpoints"]

# Elements as memoryview names them; those of 16 bits as their bits.
FORMATS = {DType.FLOAT32: "f", DType.BFLOAT16: "H", DType.FLOAT16: "H", DType.INT32: "i",
           DType.INT64: "q", DType.UINT8: "B"}


def entry_of(values: tuple) -> EntryInfo:
    """What the extension says of an entry."""
    info = EntryInfo._make(values)
    return info._replace(kind=Kind(info.kind), dtype=DType(info.dtype))


def tensor_view(data, dtype: DType, shape: tuple[int, ...]) -> memoryview:
    """Bytes of a tensor in its shape."""
    view, format = memoryview(data), FORMATS[dtype]
    return view.cast(format, shape) if shape and 0 not in shape else view.cast(format)


def list_checkpoints(context: Context, root: str | os.PathLike) -> dict[str, Any]:
    """The steps under `root`."""
    return parse_report(_plait.checkpoint_list(context._native, path_text(root)))


class Checkpoint(Handle):
    """A root (its newest step), one step directory, or a Hugging Face directory: a sequence of
    `EntryInfo`, tensors in the order of name and kind, then properties. One thread at a time."""

    __slots__ = ("_entries",)

    def __init__(self, context: Context, path: str | os.PathLike):
        super().__init__(_plait.checkpoint_open(context._native, path_text(path)))
        self._entries: dict[tuple[str, int], EntryInfo] | None = None

    def __len__(self) -> int:
        return _plait.checkpoint_entry_count(self._native)

    def __getitem__(self, index: int) -> EntryInfo:
        if not -len(self) <= index < len(self):
            raise IndexError("no such entry")
        return entry_of(_plait.checkpoint_entry_at(self._native, index % len(self)))

    def __iter__(self) -> Iterator[EntryInfo]:
        return (self[i] for i in range(len(self)))

    def report(self) -> dict[str, Any]:
        """Format, step, model, layout, optimizer, data position, digests, as far as there are
        any."""
        return parse_report(_plait.checkpoint_report(self._native))

    def set(self, key: str, value: Any) -> None:
        """Sets a key for later calls; None is its default. `checkpoint.mmap` alone: true says that
        the storage is trusted, since a file that is cut short under a mapping ends the process."""
        _plait.checkpoint_set(self._native, key, value_text(value))

    def map(self, name: str, kind: Kind = Kind.PARAM) -> memoryview:
        """One whole tensor, verified, read-only, in the stored type (types of 16 bits as their
        bits) and its shape. The memory lives as long as any memoryview."""
        view = _plait.checkpoint_map(self._native, name, kind)
        if self._entries is None:
            self._entries = {(entry.name, entry.kind): entry for entry in self}
        entry = self._entries[name, kind]
        return tensor_view(view, entry.dtype, entry.shape)

    def verify(self, full: bool = False) -> Operation:
        """Reads and checks everything: `DataLoss` with all the damage in its details. `full`: gaps
        and unread parts too."""
        return Operation(_plait.checkpoint_verify(self._native, full))

    def convert(self, layout: Config, root: str | os.PathLike) -> Operation:
        """Writes what is open as a checkpoint under `root` in the layout of `layout`."""
        return Operation(_plait.checkpoint_convert(self._native, layout._native, path_text(root)))

    def export_hf(self, directory: str | os.PathLike, options: Config | None = None) -> Operation:
        """Writes a Hugging Face directory by keys export.*; it appears whole or not at all."""
        return Operation(_plait.checkpoint_export_hf(
            self._native, native_of(options), path_text(directory)))
