"""Signals during calls that hold the main thread.

Python runs a signal handler on the main thread, between two of its instructions: not before a long
call returns. Its C-level handler though writes the signal's number to the wake-up descriptor at
once. A thread reads it there and asks the library to stop.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Callable, Sequence

from .errors import InvalidArgument

__all__ = ["StopOnSignals"]


class StopOnSignals:
    """A context manager that calls the next of `actions` for each signal that arrives.

    Where the last one was called, KeyboardInterrupt leaves the `with` block at its end; any signal
    beyond raises it at once, or as soon as the call in progress has returned. Made by
    `Engine.stop_on_signals` and `Group.abort_on_signals`; for the main thread, which has all of
    Python's signal handlers.
    """

    def __init__(self, actions: Sequence[Callable[[], None]], signals: Sequence[int] = ()):
        self._actions = actions
        self._signals = frozenset(signals or (signal.SIGINT, signal.SIGTERM))
        self._handled = 0
        self._outer_writer = -1
        self.received: list[int] = []
        """Numbers of the signals that have come."""

    def __enter__(self) -> StopOnSignals:
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("signals are handled on the main thread only")
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._thread = threading.Thread(target=self._watch, name="plait-signals", daemon=True)
        self._thread.start()
        self._outer: dict[int, object] = {}
        self._outer_writer = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        try:
            for number in self._signals:
                self._outer[number] = signal.signal(number, self._handle)
        except BaseException:  # a signal that nobody can handle
            self._leave()
            raise
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self._leave()
        if len(self.received) >= len(self._actions):
            raise KeyboardInterrupt from error

    def _leave(self) -> None:
        """Leaves signals as they were found."""
        try:
            for number, handler in self._outer.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        finally:
            signal.set_wakeup_fd(self._outer_writer)
            os.close(self._writer)
            self._thread.join()

    def _watch(self) -> None:
        while number := os.read(self._reader, 1):
            self._pass_on(number)
            if number[0] in self._signals:
                self.received.append(number[0])
                if len(self.received) <= len(self._actions):
                    self._act(self._actions[len(self.received) - 1])
        os.close(self._reader)

    def _pass_on(self, number: bytes) -> None:
        if self._outer_writer == -1:
            return
        try:
            os.write(self._outer_writer, number)
        except OSError:
            pass  # full or closed: as Python does, and the stop goes on

    @staticmethod
    def _act(action: Callable[[], None]) -> None:
        try:
            action()
        except InvalidArgument:
            pass  # closed meanwhile: there is nothing to stop

    def _handle(self, number, frame) -> None:
        self._handled += 1
        if self._handled > len(self._actions):
            raise KeyboardInterrupt
