"""Log records on their way into a handler of the host."""

from __future__ import annotations

import json
import logging
from typing import Callable

from .values import LogLevel, LogRecord

__all__ = ["log_to"]

_LEVELS = {level.name.lower(): level for level in LogLevel}
_LOGGING = {
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.TRACE: 5,
}


def parse(lines: str) -> list[LogRecord]:
    """Records of the lines that the library's ring gave."""
    # One call for all: line breaks within a record are escaped.
    return [_record(fields) for fields in json.loads("[%s]" % lines.strip().replace("\n", ","))]


def _record(fields: dict) -> LogRecord:
    lost = fields.get("dropped", 0)
    if lost:
        return LogRecord(0.0, LogLevel.WARNING, -1, "log", f"{lost} records were lost", lost)
    return LogRecord(fields["time"], _LEVELS[fields["level"]], fields["rank"],
                     fields["subsystem"], fields["message"])


def log_to(logger: logging.Logger | str = "plait") -> Callable[[LogRecord], None]:
    """A handler for `Context.drain_log` that passes records on to Python's own logging."""
    if isinstance(logger, str):
        logger = logging.getLogger(logger)

    def handle(record: LogRecord) -> None:
        where = record.subsystem if record.rank < 0 else f"{record.subsystem}, rank {record.rank}"
        logger.log(_LOGGING[record.level], "%s: %s", where, record.message)

    return handle
