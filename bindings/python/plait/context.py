"""The context that everything else hangs on."""

from __future__ import annotations

from collections import deque
from typing import Callable

from . import _plait
from .handle import Handle
from .logs import parse
from .values import LogLevel, LogRecord

__all__ = ["Context", "version", "build_info"]

_CHUNK = 1024


def version() -> str:
    """Version of the loaded library: "major.minor.patch"."""
    number = _plait.version()
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"


def build_info(key: str) -> str | None:
    """A fact about the build: "commit", "compiler", "features", or "feature.<name>", which is
    "yes" or "not built". None for a key that the library does not know."""
    return _plait.build_info(key)


class Context(Handle):
    """What everything else hangs on. A process may have any number of them.

    The library logs into a ring of records, which `drain_log` empties; nothing is printed.
    Any thread may use a context at any time.
    """

    __slots__ = ("_records",)

    def __init__(self, log_level: LogLevel | None = None):
        super().__init__(_plait.context_create(_plait.PLAIT_API_VERSION))
        self._records: deque[LogRecord] = deque()
        if log_level is not None:
            self.set_log_level(log_level)

    def set_log_level(self, level: LogLevel) -> None:
        """Records above `level` are dropped where they arise."""
        _plait.context_set_log_level(self._native, level)

    def drain_log(self, handler: Callable[[LogRecord], object],
                  max_records: int | None = None) -> int:
        """Calls `handler` with each record that has come, oldest first, and returns their number.

        The handler runs here, on the caller's thread, and may call the library. What it raises
        leaves this method; the records that it has not seen are kept for the next call.
        """
        count = 0
        while max_records is None or count < max_records:
            try:
                record = self._records.popleft()
            except IndexError:
                lines = _plait.context_log_drain(self._native, _CHUNK)
                if not lines:
                    break
                self._records.extend(parse(lines))
                continue
            count += 1
            handler(record)
        return count
