"""Numbers with names, and what calls return: plain values without a handle."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

from . import _plait

__all__ = [
    "Code", "Disposition", "EngineState", "OperationState", "LogLevel", "Scope", "Needs", "Kind",
    "DType", "KeyFlags", "Metrics", "Stopped", "BatchSpec", "PlanInfo", "RankInfo", "KeyInfo",
    "EntryInfo", "DatasetInfo", "Progress", "LogRecord",
]


class _Numbers(IntEnum):
    """An enumeration that also holds numbers of a newer library, under no name of their own."""

    @classmethod
    def _missing_(cls, value):
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}"
        member._value_ = value
        return member


class Code(_Numbers):
    """What a call returned; `PlaitError.code` is never OK or STOPPED."""

    OK = _plait.PLAIT_OK
    CANCELLED = _plait.PLAIT_CANCELLED
    UNKNOWN = _plait.PLAIT_UNKNOWN
    INVALID_ARGUMENT = _plait.PLAIT_INVALID_ARGUMENT
    DEADLINE_EXCEEDED = _plait.PLAIT_DEADLINE_EXCEEDED
    NOT_FOUND = _plait.PLAIT_NOT_FOUND
    ALREADY_EXISTS = _plait.PLAIT_ALREADY_EXISTS
    PERMISSION_DENIED = _plait.PLAIT_PERMISSION_DENIED
    RESOURCE_EXHAUSTED = _plait.PLAIT_RESOURCE_EXHAUSTED
    FAILED_PRECONDITION = _plait.PLAIT_FAILED_PRECONDITION
    ABORTED = _plait.PLAIT_ABORTED
    OUT_OF_RANGE = _plait.PLAIT_OUT_OF_RANGE
    UNIMPLEMENTED = _plait.PLAIT_UNIMPLEMENTED
    INTERNAL = _plait.PLAIT_INTERNAL
    UNAVAILABLE = _plait.PLAIT_UNAVAILABLE
    DATA_LOSS = _plait.PLAIT_DATA_LOSS
    UNAUTHENTICATED = _plait.PLAIT_UNAUTHENTICATED
    HOST_ERROR = _plait.PLAIT_HOST_ERROR
    PEER_LOST = _plait.PLAIT_PEER_LOST
    STOPPED = _plait.PLAIT_STOPPED


class Disposition(_Numbers):
    """What an error left behind."""

    UNCHANGED = _plait.PLAIT_DISPOSITION_UNCHANGED
    """No effect; correct the call."""
    RETRY = _plait.PLAIT_DISPOSITION_RETRY
    """No effect; the same call may succeed later."""
    ENGINE_LOST = _plait.PLAIT_DISPOSITION_ENGINE_LOST
    """Free engine and group, then make new ones."""
    PROCESS_LOST = _plait.PLAIT_DISPOSITION_PROCESS_LOST
    """Device or memory cannot be repaired in this process."""


class EngineState(_Numbers):
    """State of an engine."""

    READY = _plait.PLAIT_ENGINE_READY
    RUNNING = _plait.PLAIT_ENGINE_RUNNING
    LOST = _plait.PLAIT_ENGINE_LOST
    CLOSED = _plait.PLAIT_ENGINE_CLOSED


class OperationState(_Numbers):
    """State of an operation."""

    RUNNING = _plait.PLAIT_OP_RUNNING
    DONE = _plait.PLAIT_OP_DONE
    FAILED = _plait.PLAIT_OP_FAILED
    CANCELLED = _plait.PLAIT_OP_CANCELLED


class LogLevel(_Numbers):
    """Level of a log record; INFO is the level at the start."""

    ERROR = _plait.PLAIT_LOG_ERROR
    WARNING = _plait.PLAIT_LOG_WARNING
    INFO = _plait.PLAIT_LOG_INFO
    DEBUG = _plait.PLAIT_LOG_DEBUG
    TRACE = _plait.PLAIT_LOG_TRACE


class Scope(_Numbers):
    """Which rows a batch holds."""

    GLOBAL = _plait.PLAIT_BATCH_GLOBAL
    """All rows, in global order."""
    LOCAL = _plait.PLAIT_BATCH_LOCAL
    """The rows of `Engine.batch_spans`."""


class Needs(IntFlag):
    """What this process must supply with a batch."""

    TOKENS = _plait.PLAIT_NEEDS_TOKENS
    TARGETS = _plait.PLAIT_NEEDS_TARGETS
    DOCUMENTS = _plait.PLAIT_NEEDS_DOCUMENTS


class Kind(_Numbers):
    """What of a parameter is meant. A gradient is never stored in a checkpoint."""

    PROPERTY = 0
    """No tensor: a property of the host."""
    PARAM = _plait.PLAIT_KIND_PARAM
    MASTER = _plait.PLAIT_KIND_MASTER
    MOMENT1 = _plait.PLAIT_KIND_MOMENT1
    MOMENT2 = _plait.PLAIT_KIND_MOMENT2
    EXTRA = _plait.PLAIT_KIND_EXTRA
    GRADIENT = _plait.PLAIT_KIND_GRADIENT


class DType(_Numbers):
    """Type of an element."""

    NONE = 0
    FLOAT32 = _plait.PLAIT_DTYPE_FLOAT32
    BFLOAT16 = _plait.PLAIT_DTYPE_BFLOAT16
    FLOAT16 = _plait.PLAIT_DTYPE_FLOAT16
    INT32 = _plait.PLAIT_DTYPE_INT32
    INT64 = _plait.PLAIT_DTYPE_INT64
    UINT8 = _plait.PLAIT_DTYPE_UINT8


class KeyFlags(IntFlag):
    """Properties of a configuration key."""

    MUTABLE = _plait.PLAIT_KEY_MUTABLE
    """`Engine.set` takes it."""
    LOCAL = _plait.PLAIT_KEY_LOCAL
    """It may differ between processes."""
    HOST = _plait.PLAIT_KEY_HOST
    """Only hosts read it."""


class Metrics(NamedTuple):
    """What one call on an engine measured. Counts are of the whole group; seconds are wall time.

    Values that the call did not measure are None.
    """

    step: int
    """The first is 1."""
    samples_total: int
    tokens_total: int
    skipped_total: int
    tokens: int
    """Since the last update, this call's included."""
    targets: int
    """Of these tokens, without those that are ignored."""
    skipped: bool
    """The update was not applied."""
    loss: float
    """Mean negative log-likelihood per target, in nats."""
    grad_norm: float
    """Before clipping."""
    lr: float
    """Used in this step."""
    loss_scale: float
    step_seconds: float | None
    tokens_per_second: float | None
    model_flops_per_second: float | None
    forward_seconds: float | None
    """This and the next five: mean over local ranks."""
    backward_seconds: float | None
    communication_seconds: float | None
    """Not hidden behind compute."""
    optimizer_seconds: float | None
    bubble_seconds: float | None
    data_seconds: float | None
    memory_bytes: int | None
    """Of the largest local rank, like the next."""
    memory_peak_bytes: int | None
    diverged_rank: int | None
    """Of a step that compared replicas: the rank that differs, -1 for none."""


class Stopped(NamedTuple):
    """Result of a call that `Engine.request_stop` ended; the state can be saved.

    A step was finished: its metrics are here. Other calls stopped without effect.
    """

    metrics: Metrics | None


class BatchSpec(NamedTuple):
    """What the next step wants to be fed."""

    global_rows: int
    local_rows: int
    """Of a LOCAL batch."""
    span_count: int
    sequence_length: int
    """Columns of "tokens" are one more."""
    vocab_size: int
    first_sample: int
    """Sample index of global row 0."""
    needs: Needs


class PlanInfo(NamedTuple):
    """One candidate of a plan."""

    is_feasible: bool
    tensor: int
    pipeline: int
    data: int
    interleave: int
    zero: int
    micro_batch: int
    memory_bytes: int
    """Of the largest rank."""
    memory_limit_bytes: int
    step_seconds: float
    tokens_per_second: float
    bubble_share: float
    """Of the step."""
    model_flops_share: float
    """Of the peak."""
    reason: str
    """Why it was rejected, "" when it was not."""


class RankInfo(NamedTuple):
    """One rank of a candidate: its coordinates and what it holds and does."""

    tensor: int
    pipeline: int
    data: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    communication_bytes: int
    workspace_bytes: int
    compute_seconds: float
    communication_seconds: float
    bubble_share: float


class KeyInfo(NamedTuple):
    """One configuration key. Limits that do not exist are ""."""

    key: str
    type: str
    default_value: str
    minimum: str
    maximum: str
    choices: str
    """Words separated by commas, "" when any text will do."""
    unit: str
    doc: str
    resume: str
    """"same", "ask" or "free": may it differ when a run is resumed."""
    flags: KeyFlags


class EntryInfo(NamedTuple):
    """One (logical tensor, kind), or one property of the host."""

    name: str
    kind: Kind
    dtype: DType
    shape: tuple[int, ...]
    """Outermost first; () for a property."""
    elements: int
    digest: int | None
    """None for a live tensor."""
    value: int | float | str | None
    """Of a property; None for a tensor."""


class DatasetInfo(NamedTuple):
    """Sizes and fingerprint of a dataset."""

    tokens: int
    documents: int
    samples: int
    """In one epoch."""
    sequence_length: int
    fingerprint: int


class Progress(NamedTuple):
    """How far an operation is; `total_bytes` is 0 as long as it is not known."""

    state: OperationState
    done_bytes: int
    total_bytes: int


class LogRecord(NamedTuple):
    """A log record; with `dropped` not 0, a note that so many were lost before the next."""

    time: float
    """Seconds since 1970."""
    level: LogLevel
    rank: int
    """-1: none."""
    subsystem: str
    message: str
    dropped: int = 0
