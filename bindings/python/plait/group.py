"""Groups: which ranks this process drives, and how processes meet."""

from __future__ import annotations

import json
from typing import Any

from . import _plait
from .config import Config
from .context import Context
from .handle import STOPPED, Handle, milliseconds
from .signals import StopOnSignals
from .values import Stopped

__all__ = ["Group"]


class Group(Handle):
    """This process drives ranks `rank` … `rank + local_ranks - 1` of `world`.

    Where `local_ranks` is `world` (the default: one rank alone) the group is complete at once.
    Otherwise give `card` to the other processes by any means, add theirs, then `commit` in all; or
    let `join_tcp` do so. One thread at a time, but for `abort`.
    """

    __slots__ = ()

    def __init__(self, context: Context, config: Config, rank: int = 0,
                 local_ranks: int | None = None, world: int = 1):
        local = world if local_ranks is None else local_ranks
        super().__init__(
            _plait.group_create(context._native, config._native, rank, local, world))

    def card(self) -> bytes:
        """This process's card, at most 4 KiB."""
        return _plait.group_card(self._native)

    def add_card(self, card: bytes) -> None:
        """Adds the card of one process. Any order; the own one is allowed."""
        _plait.group_add_card(self._native, card)

    def commit(self, timeout: float | None = None) -> None:
        """Connects to all processes whose cards were added. Collective."""
        _plait.group_commit(self._native, milliseconds(timeout))

    def join_tcp(self, address: str, timeout: float | None = None) -> None:
        """Exchanges cards by TCP, then commits: the process of rank 0 listens on "host:port", the
        others connect to it; key network.token keeps strangers out. Collective."""
        _plait.group_join_tcp(self._native, address, milliseconds(timeout))

    def measure(self, what: str = "all", timeout: float | None = None) -> dict[str, Any] | Stopped:
        """Measures "links", "compute" or "all": a configuration {"hardware": …} for the planner.
        Collective."""
        text = _plait.group_measure(self._native, what, milliseconds(timeout))
        return Stopped(None) if text == STOPPED else json.loads(text)

    def abort(self) -> None:
        """Ends a commit, join or measure that waits in another thread: it raises `Aborted`."""
        _plait.group_abort(self._native)

    def abort_on_signals(self, *signals: int) -> StopOnSignals:
        """For a `with` around waits: the first of `signals` (SIGINT and SIGTERM) aborts them, and
        KeyboardInterrupt follows. For the main thread."""
        return StopOnSignals([self.abort], signals)
