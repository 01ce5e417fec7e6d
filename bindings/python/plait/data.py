"""Datasets and tokenizers."""

from __future__ import annotations

import os
from typing import Iterable

from . import _plait
from .config import Config
from .context import Context
from .handle import Handle, ids, matrix, native_of, path_text
from .operation import Operation
from .values import DatasetInfo

__all__ = ["Dataset", "Tokenizer"]


class Dataset(Handle):
    """The files of data.train (role "train") or data.evaluate (role "evaluate"). Any thread."""

    __slots__ = ()

    def __init__(self, context: Context, config: Config, role: str = "train"):
        super().__init__(_plait.dataset_open(context._native, config._native, role))

    def describe(self) -> DatasetInfo:
        """Sizes and fingerprint."""
        return DatasetInfo._make(_plait.dataset_describe(self._native))

    def read(self, first_sample: int, count: int, name: str = "tokens") -> memoryview:
        """Samples `first_sample` … `first_sample + count - 1` of "tokens" or "documents" in
        training order: int32 [count, sequence_length + 1]."""
        values = _plait.dataset_read(self._native, name, first_sample, count)
        return matrix(values, "i", count, len(values) // 4 // max(count, 1))


class Tokenizer(Handle):
    """Kind "byte", or "gpt2" with vocab.bpe and encoder.json, or merges.txt and vocab.json, in
    `directory`. Any thread."""

    __slots__ = ()

    def __init__(self, context: Context, kind: str = "byte",
                 directory: str | os.PathLike | None = None):
        path = None if directory is None else path_text(directory)
        super().__init__(_plait.tokenizer_open(context._native, kind, path))

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return _plait.tokenizer_vocab_size(self._native)

    def encode(self, text: str | bytes) -> memoryview:
        """Ids of a text, as int32; `.tolist()` makes integers of them. Any bytes are allowed."""
        data = text.encode() if isinstance(text, str) else text
        return memoryview(_plait.tokenizer_encode(self._native, data)).cast("i")

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Text of ids, as UTF-8 that may end in half a character."""
        return _plait.tokenizer_decode(self._native, ids(tokens))

    def encode_file(self, input: str | os.PathLike, output: str | os.PathLike,
                    options: Config | None = None) -> Operation:
        """Encodes a text file into a token file, by keys tokenize.*; the output appears whole or
        not at all."""
        return Operation(_plait.tokenizer_encode_file(
            self._native, native_of(options), path_text(input), path_text(output)))
