"""Exceptions: one for each code that is worth catching, all of them a `PlaitError`."""

from __future__ import annotations

import json
from typing import Any

from . import _plait
from .values import Code, Disposition

__all__ = [
    "PlaitError", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "ResourceExhausted", "FailedPrecondition", "Aborted", "Cancelled", "OutOfRange",
    "Unimplemented", "Unavailable", "DataLoss", "PeerLost",
]


class PlaitError(Exception):
    """A call of the library failed.

    The text of the exception is the code's name and the message. `disposition` says what the
    failure left behind, and so what to do: correct the call, try it again, or make a new group and
    engine.
    """

    code: Code
    """Kind of the failure."""
    word: str
    """The cause as one word, for programs: as stable as the code."""
    message: str
    """One line: the word, a sentence, and fields as key=value."""
    subsystem: str
    """Part of the library that failed, "" when it did not say."""
    rank: int | None
    """Rank where the error began; None when it belongs to none."""
    disposition: Disposition
    """What the failure left behind."""
    host_code: int
    """What a callback of the host returned when it failed, else 0."""

    def __init__(self, code: int, word: str, message: str, subsystem: str = "",
                 details: str = "{}", rank: int = -1,
                 disposition: int = Disposition.UNCHANGED, host_code: int = 0):
        super().__init__(message)
        self._parts = (code, word, message, subsystem, details, rank, disposition, host_code)
        self.code = Code(code)
        self.word = word
        self.message = message
        self.subsystem = subsystem
        self.rank = None if rank < 0 else rank
        self.disposition = Disposition(disposition)
        self.host_code = host_code

    @property
    def details(self) -> dict[str, Any]:
        """The fields of the message: path, errno, offset, want, got, …"""
        return json.loads(self._parts[4])

    def __str__(self) -> str:
        return f"{_plait.code_name(self.code)}: {self.message}"

    def __reduce__(self):
        return type(self), self._parts


class InvalidArgument(PlaitError, ValueError):
    """This call is wrong, and nothing happened. A handle that was closed is among the causes."""


class DeadlineExceeded(PlaitError):
    """A limit of time has passed."""


class NotFound(PlaitError):
    """A file, a checkpoint or a key is not there."""


class AlreadyExists(PlaitError):
    """What was to be made is there already."""


class ResourceExhausted(PlaitError):
    """Memory or disk space ran out."""


class FailedPrecondition(PlaitError):
    """The state does not allow the call: busy, processes that disagree, a version that does not
    fit."""


class Aborted(PlaitError):
    """`abort` or `free` ended the call, or the engine was lost before."""


class Cancelled(PlaitError):
    """The operation was cancelled."""


class OutOfRange(PlaitError):
    """A number left its range: loss or gradients are not finite."""


class Unimplemented(PlaitError, NotImplementedError):
    """The part is not in this build, or the library cannot express what was asked."""


class Unavailable(PlaitError):
    """A service, a device or an address cannot be reached now."""


class DataLoss(PlaitError):
    """A checkpoint or a data file is damaged."""


class PeerLost(PlaitError):
    """Another process died or froze: free engine and group, then make new ones."""


_CLASSES = {
    Code.CANCELLED: Cancelled,
    Code.INVALID_ARGUMENT: InvalidArgument,
    Code.DEADLINE_EXCEEDED: DeadlineExceeded,
    Code.NOT_FOUND: NotFound,
    Code.ALREADY_EXISTS: AlreadyExists,
    Code.RESOURCE_EXHAUSTED: ResourceExhausted,
    Code.FAILED_PRECONDITION: FailedPrecondition,
    Code.ABORTED: Aborted,
    Code.OUT_OF_RANGE: OutOfRange,
    Code.UNIMPLEMENTED: Unimplemented,
    Code.UNAVAILABLE: Unavailable,
    Code.DATA_LOSS: DataLoss,
    Code.PEER_LOST: PeerLost,
}


def _make(code: int, *parts) -> PlaitError:
    return _CLASSES.get(code, PlaitError)(code, *parts)


_plait.set_error_factory(_make)
