"""Configurations: dotted keys to text."""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Mapping

from . import _plait
from .context import Context
from .handle import Handle, path_text, value_text
from .values import KeyFlags, KeyInfo

__all__ = ["Config"]


class Config(Handle):
    """Keys and their values; every key begins at its default.

    `config["model.layers"]` is the effective value as text. Assignment takes text, numbers, truth
    values and lists; None, or `del`, goes back to the default. A key that does not exist and a
    value that is out of range are `InvalidArgument`, with the nearest key that exists. What is
    made from a configuration copies it. One thread at a time.
    """

    __slots__ = ()

    def __init__(self, context: Context, values: Mapping[str, Any] | None = None):
        super().__init__(_plait.config_create(context._native))
        if values is not None:
            self.load(values)

    def __getitem__(self, key: str) -> str:
        return _plait.config_get(self._native, key)

    def __setitem__(self, key: str, value: Any) -> None:
        _plait.config_set(self._native, key, value_text(value))

    def __delitem__(self, key: str) -> None:
        _plait.config_set(self._native, key, None)

    def __len__(self) -> int:
        """Number of keys that exist."""
        return _plait.config_key_count(self._native)

    def __iter__(self) -> Iterator[str]:
        return (info.key for info in self.key_table())

    def keys(self) -> list[str]:
        """The names of all keys that exist, so that `dict(config)` is complete."""
        return list(self)

    def key_table(self) -> list[KeyInfo]:
        """All keys that exist: type, default, limits, what they mean."""
        return [self._key(i) for i in range(len(self))]

    def _key(self, index: int) -> KeyInfo:
        info = KeyInfo._make(_plait.config_key_at(self._native, index))
        return info._replace(flags=KeyFlags(info.flags))

    def load(self, values: Mapping[str, Any] | str | bytes) -> None:
        """Merges a JSON object, or a mapping of the same shape; nested objects and dotted keys
        mean the same. All of it is taken or, on an error, none."""
        if isinstance(values, Mapping):
            values = json.dumps(values)
        data = values.encode() if isinstance(values, str) else values
        _plait.config_load(self._native, data)

    def load_file(self, path: str | os.PathLike) -> None:
        """As `load`, with what a file holds."""
        with open(path, "rb") as file:
            self.load(file.read())

    def load_hf(self, directory: str | os.PathLike) -> None:
        """Sets the model.* keys from config.json of a Hugging Face directory."""
        _plait.config_load_hf(self._native, path_text(directory))

    def dump(self, complete: bool = False) -> dict[str, Any]:
        """The keys that were set or, with `complete`, all of them, without network.token."""
        return json.loads(_plait.config_dump(self._native, complete))

    def check(self) -> None:
        """Checks every rule between keys. Needs no device."""
        _plait.config_check(self._native)
