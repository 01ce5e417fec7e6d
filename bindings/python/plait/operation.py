"""Operations: work that outlives its call."""

from __future__ import annotations

import time
from typing import Any

from . import _plait
from .errors import DeadlineExceeded
from .handle import Handle, milliseconds, parse_report
from .values import OperationState, Progress

__all__ = ["Operation"]

_SLICE = 0.1  # seconds between two looks at Python's signals


class Operation(Handle):
    """A save, an encoding, a conversion that runs on. Freeing it neither waits nor cancels.

    Any thread.
    """

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the report, or raises what the operation failed with.

        Past `timeout` seconds (0 only looks) it raises `DeadlineExceeded`, and the operation runs
        on. Signals are handled meanwhile: KeyboardInterrupt ends the wait, not the operation.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE if end is None else max(0.0, min(_SLICE, end - time.monotonic()))
            try:
                _plait.op_wait(self._native, milliseconds(left))
                return self.result()
            except DeadlineExceeded:
                is_over = end is not None and time.monotonic() >= end
                if is_over or self.progress().state != OperationState.RUNNING:
                    break
        # It ended just now, or it is too late: either way the library says so.
        _plait.op_wait(self._native, 0)
        return self.result()

    def progress(self) -> Progress:
        """State and bytes done."""
        progress = Progress._make(_plait.op_progress(self._native))
        return progress._replace(state=OperationState(progress.state))

    @property
    def is_done(self) -> bool:
        """It has ended, in whatever way."""
        return self.progress().state != OperationState.RUNNING

    def result(self) -> Any:
        """The report of an operation that succeeded; `FailedPrecondition` while it runs."""
        return parse_report(_plait.op_result(self._native))

    def cancel(self) -> None:
        """Asks it to end; it becomes CANCELLED unless it was done first."""
        _plait.op_cancel(self._native)
