"""Plans: layouts of a model over ranks, with what they cost."""

from __future__ import annotations

from typing import Any, Iterator

from . import _plait
from .config import Config
from .context import Context
from .handle import Handle, parse_report
from .values import PlanInfo, RankInfo

__all__ = ["Plan"]


class Plan(Handle):
    """Candidates for `world` ranks, best first and rejected ones last: a sequence of `PlanInfo`.

    Fixed layout.* degrees give one candidate, `auto` all. Needs no device. Any thread.
    """

    __slots__ = ()

    def __init__(self, context: Context, config: Config, world: int):
        super().__init__(_plait.plan_create(context._native, config._native, world))

    def __len__(self) -> int:
        return _plait.plan_count(self._native)

    def __getitem__(self, index: int) -> PlanInfo:
        if not -len(self) <= index < len(self):
            raise IndexError("no such candidate")
        return PlanInfo._make(_plait.plan_at(self._native, index % len(self)))

    def __iter__(self) -> Iterator[PlanInfo]:
        return (self[i] for i in range(len(self)))

    def rank(self, index: int, rank: int) -> RankInfo:
        """What `rank` (0 … world - 1) holds and does in candidate `index`."""
        return RankInfo._make(_plait.plan_rank_at(self._native, index, rank))

    def report(self, index: int, kind: str) -> Any:
        """About candidate `index`: "reasons", "estimate", "memory" or "timeline" (a Chrome trace)
        as Python's values, "schedule" as text."""
        return parse_report(_plait.plan_report(self._native, index, kind))

    def apply(self, index: int, config: Config) -> None:
        """Writes the layout.* keys of candidate `index` into `config`."""
        _plait.plan_apply(self._native, index, config._native)
