"""Engines: a model in training."""

from __future__ import annotations

import os
from typing import Any, Iterable

from . import _plait
from .batch import Batch
from .checkpoint import FORMATS, entry_of, tensor_view
from .config import Config
from .data import Dataset
from .errors import PlaitError
from .group import Group
from .handle import (STOPPED, Handle, ids, matrix, milliseconds, native_of, parse_report,
                     path_text, value_text)
from .operation import Operation
from .signals import StopOnSignals
from .values import (BatchSpec, DType, EngineState, EntryInfo, Kind, Metrics, Needs, Scope,
                     Stopped)

__all__ = ["Engine"]

_DTYPES = {"f": DType.FLOAT32, "i": DType.INT32, "q": DType.INT64, "l": DType.INT64,
           "B": DType.UINT8}
_STATES = {int(state): state for state in EngineState}  # faster than asking the enumeration


def _measured(result: tuple) -> Metrics | Stopped:
    code, values = result
    metrics = Metrics._make(values)
    return Stopped(metrics) if code == STOPPED else metrics


class Engine(Handle):
    """One model on the ranks of this process; one engine per group.

    Calls marked collective must be made by every process of the group in the same order. One call
    at a time, except that any thread may call `request_stop`, `abort`, `free`, `state`, `counter`,
    `report` and `tensors`. Other threads run during a call.

    Ctrl-C raises KeyboardInterrupt once the call in progress has returned, as Python does for any
    function in C. To be heard at once, train inside `with engine.stop_on_signals():`.
    """

    __slots__ = ()

    def __init__(self, group: Group, config: Config, timeout: float | None = None):
        """Builds model, optimizer state and working memory, and draws the weights from the seed.
        Collective."""
        super().__init__(
            _plait.engine_create(group._native, config._native, milliseconds(timeout)))

    @property
    def state(self) -> EngineState:
        """READY, RUNNING (a call is in progress), LOST or CLOSED."""
        number = _plait.engine_state(self._native)
        return _STATES.get(number) or EngineState(number)

    # Batches.

    def batch_spec(self) -> BatchSpec:
        """Rows, lengths and needs of the next step's batch."""
        spec = BatchSpec._make(_plait.engine_batch_spec(self._native))
        return spec._replace(needs=Needs(spec.needs))

    def batch_spans(self, global_rows: int) -> list[tuple[int, int]]:
        """The rows of a global batch of `global_rows` that this process supplies in a LOCAL batch:
        (first global row, count) of each run."""
        return [_plait.engine_batch_span(self._native, global_rows, i)
                for i in range(self.batch_spec().span_count)]

    def batch(self, scope: Scope = Scope.GLOBAL) -> Batch:
        """An empty batch: all rows in global order, or with LOCAL the rows of `batch_spans`."""
        return Batch(_plait.batch_create(self._native, scope))

    def attach_dataset(self, role: str, dataset: Dataset | None,
                       timeout: float | None = None) -> None:
        """Makes a dataset the source of calls without a batch, for role "train" or "evaluate";
        None detaches. Collective."""
        _plait.engine_attach_dataset(self._native, role, native_of(dataset),
                                     milliseconds(timeout))

    # Training.

    def step(self, batch: Batch | None = None, timeout: float | None = None) -> Metrics | Stopped:
        """One whole optimizer step; without a batch on the next one of the "train" dataset. After
        `request_stop` the result is `Stopped`, with the metrics of the step, which was done.
        Collective."""
        return _measured(
            _plait.engine_step(self._native, native_of(batch), milliseconds(timeout)))

    def forward_backward(self, batch: Batch, timeout: float | None = None) -> Metrics | Stopped:
        """Adds the gradients of a batch to those since the last update. Any cut of a batch into
        such calls equals one step on the whole. Collective."""
        return _measured(_plait.engine_forward_backward(
            self._native, native_of(batch), milliseconds(timeout)))

    def optimizer_step(self, timeout: float | None = None) -> Metrics | Stopped:
        """Divides the gradients by the targets since the last update, clips, updates the weights,
        clears. Collective."""
        return _measured(_plait.engine_optimizer_step(self._native, milliseconds(timeout)))

    def evaluate(self, batch: Batch | None = None,
                 timeout: float | None = None) -> Metrics | Stopped:
        """Loss alone; the state stays as it is. Without a batch on evaluate.batches batches of the
        "evaluate" dataset from its start. Collective."""
        result = _measured(
            _plait.engine_evaluate(self._native, native_of(batch), milliseconds(timeout)))
        return Stopped(None) if isinstance(result, Stopped) else result

    def score(self, batch: Batch, timeout: float | None = None) -> memoryview | Stopped:
        """Negative log-likelihood of each target, 0 where it is ignored: float32
        [rows, sequence_length]. Collective."""
        columns = self.batch_spec().sequence_length
        losses = bytearray(batch.rows * columns * 4)
        if _plait.engine_score(self._native, batch._native, milliseconds(timeout),
                               losses) == STOPPED:
            return Stopped(None)
        return matrix(losses, "f", batch.rows, columns)

    def generate(self, prompt: Iterable[int], max_tokens: int,
                 timeout: float | None = None) -> memoryview | Stopped:
        """Continues `prompt` (at least one id) by keys generate.*: at most `max_tokens` new ids,
        as int32. Collective."""
        tokens = _plait.engine_generate(self._native, ids(prompt), max_tokens,
                                        milliseconds(timeout))
        return Stopped(None) if tokens == STOPPED else memoryview(tokens).cast("i")

    # Keys, properties, reports.

    def set(self, key: str, value: Any) -> None:
        """Sets a key that is mutable at run time; takes effect when the next step, save or load
        opens. Make the same call in every process."""
        _plait.engine_set(self._native, key, value_text(value))

    def set_property(self, name: str, value: int | float | str) -> None:
        """Sets a named value that goes into checkpoints. Names are [a-z0-9_.-]{1,128}; a text has
        at most 64 KiB."""
        if isinstance(value, int):
            parts = _plait.PLAIT_PROPERTY_INTEGER, value, 0.0, ""
        elif isinstance(value, float):
            parts = _plait.PLAIT_PROPERTY_REAL, 0, value, ""
        else:
            parts = _plait.PLAIT_PROPERTY_TEXT, 0, 0.0, value
        _plait.engine_set_property(self._native, name, *parts)

    def counter(self, name: str) -> float:
        """Value of a counter of report "counters"."""
        return _plait.engine_counter(self._native, name)

    def report(self, kind: str) -> Any:
        """About "config", "ranks", "kernels", "memory", "schedule", "counters", "properties",
        "operations" or "trace"; also after the engine is lost."""
        return parse_report(_plait.engine_report(self._native, kind))

    # Tensors.

    def tensors(self) -> list[EntryInfo]:
        """All (logical tensor, kind) pairs, in name and kind order and equal in every process."""
        return [entry_of(_plait.engine_tensor_at(self._native, i))
                for i in range(_plait.engine_tensor_count(self._native))]

    def read_tensor(self, entry: EntryInfo, dtype: DType = DType.FLOAT32, into=None,
                    timeout: float | None = None) -> memoryview:
        """A whole tensor of `tensors`, converted to `dtype`, in its shape (types of 16 bits as
        their bits). `into`: a writable buffer of that very size instead of new memory.
        Collective."""
        if into is None:
            size = {"f": 4, "i": 4, "q": 8, "H": 2, "B": 1}[FORMATS[dtype]]
            into = bytearray(entry.elements * size)
        _plait.engine_tensor_read(self._native, entry.name, entry.kind, dtype,
                                  milliseconds(timeout), into)
        return tensor_view(memoryview(into).cast("B"), dtype, entry.shape)

    def join_read(self, entry: EntryInfo, timeout: float | None = None) -> None:
        """Takes part in a `read_tensor` of other processes and keeps nothing. Collective."""
        _plait.engine_tensor_read(self._native, entry.name, entry.kind, DType.FLOAT32,
                                  milliseconds(timeout), None)

    def write_tensor(self, entry: EntryInfo, data, dtype: DType | None = None,
                     timeout: float | None = None) -> None:
        """Replaces a whole tensor by a buffer of its size, of `dtype` or what the buffer's
        elements are. The data of the process of rank 0 counts. Collective."""
        view = memoryview(data)
        if dtype is None:
            dtype = _DTYPES.get(view.format.lstrip("@=<"))
            if dtype is None:
                raise TypeError(f"say the dtype of elements of format {view.format!r}")
        _plait.engine_tensor_write(self._native, entry.name, entry.kind, dtype, view,
                                   milliseconds(timeout))

    # Checkpoints.

    def save(self, root: str | os.PathLike, timeout: float | None = None) -> Operation:
        """Takes a snapshot and writes it as a new step of `root`; returns after the snapshot. The
        operation ends when the step is durable. Collective."""
        return Operation(
            _plait.checkpoint_save(self._native, path_text(root), milliseconds(timeout)))

    def load(self, path: str | os.PathLike,
             timeout: float | None = None) -> dict[str, Any] | Stopped:
        """Loads a root (its newest step), one step, or a Hugging Face directory, whatever layout
        saved it. The report names the step that was taken, and newer ones that were skipped.
        Collective."""
        report = _plait.checkpoint_load(self._native, path_text(path), milliseconds(timeout))
        return Stopped(None) if report == STOPPED else parse_report(report)

    # The end.

    def request_stop(self) -> None:
        """Asks for an orderly stop, from any thread: the next step finishes in all processes and
        returns `Stopped`; evaluate, score, generate and load stop without effect."""
        _plait.engine_request_stop(self._native)

    def stop_on_signals(self, *signals: int) -> StopOnSignals:
        """For a `with` around training: the first of `signals` (SIGINT and SIGTERM) is a
        `request_stop`, at once, and nothing is raised. One more is an `abort`: the call in
        progress fails within a second, and KeyboardInterrupt follows. For the main thread."""
        return StopOnSignals([self.request_stop, self.abort], signals)

    def abort(self) -> None:
        """Ends at once, from any thread: calls that run raise `Aborted` within a second and the
        engine is lost."""
        _plait.engine_abort(self._native)

    def close(self, timeout: float | None = None) -> None:
        """Orderly end, then frees the handle: saves finish or are given up by the deadline, peers
        see no loss. Collective. While another call runs it is `FailedPrecondition`, and the
        engine stays as it is."""
        if not self.is_open:
            return
        try:
            _plait.engine_close(self._native, milliseconds(timeout))
        except PlaitError as error:
            if error.word != "busy":
                self.free()
            raise
        self.free()

    def __exit__(self, kind, error, traceback) -> None:
        if kind is None:
            self.close()
        else:
            self.free()
