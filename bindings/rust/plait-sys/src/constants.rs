//! Every enumeration of the header as plain numbers, since a newer library may answer others.

/// Of this header; a new one may break its hosts.
pub const PLAIT_VERSION_MAJOR: i32 = 0;
/// Of this header; before 1.0 each is an ABI of its own.
pub const PLAIT_VERSION_MINOR: i32 = 1;
/// Of this header; says nothing about the ABI.
pub const PLAIT_VERSION_PATCH: i32 = 0;
/// What a host hands to `plait_context_create`: the version that these declarations follow.
pub const PLAIT_API_VERSION: i32 = PLAIT_VERSION_MAJOR * 1000000 + PLAIT_VERSION_MINOR * 1000;

// Codes.

/// Done.
pub const PLAIT_OK: i32 = 0;
/// The operation was cancelled.
pub const PLAIT_CANCELLED: i32 = 1;
/// An error of no known kind.
pub const PLAIT_UNKNOWN: i32 = 2;
/// This call is wrong; nothing happened.
pub const PLAIT_INVALID_ARGUMENT: i32 = 3;
/// A limit of time was reached.
pub const PLAIT_DEADLINE_EXCEEDED: i32 = 4;
/// No such file, checkpoint, key or tensor.
pub const PLAIT_NOT_FOUND: i32 = 5;
/// The target is there and is not overwritten.
pub const PLAIT_ALREADY_EXISTS: i32 = 6;
/// The system refused access.
pub const PLAIT_PERMISSION_DENIED: i32 = 7;
/// Too little memory, disk space or descriptors.
pub const PLAIT_RESOURCE_EXHAUSTED: i32 = 8;
/// Not in this state, or the processes disagree.
pub const PLAIT_FAILED_PRECONDITION: i32 = 9;
/// An abort ended the call, or came before it.
pub const PLAIT_ABORTED: i32 = 10;
/// Numbers are not finite, or too large for their type.
pub const PLAIT_OUT_OF_RANGE: i32 = 11;
/// Not in this library or build.
pub const PLAIT_UNIMPLEMENTED: i32 = 12;
/// A mistake of the library itself.
pub const PLAIT_INTERNAL: i32 = 13;
/// The system or the network failed; may pass.
pub const PLAIT_UNAVAILABLE: i32 = 14;
/// Files are damaged, or copies of weights differ.
pub const PLAIT_DATA_LOSS: i32 = 15;
/// A process that joins has another network.token.
pub const PLAIT_UNAUTHENTICATED: i32 = 16;
/// A callback of the host failed.
pub const PLAIT_HOST_ERROR: i32 = 64;
/// Another process died or froze.
pub const PLAIT_PEER_LOST: i32 = 65;
/// `plait_engine_request_stop` took effect; the state can be saved.
pub const PLAIT_STOPPED: i32 = 66;

// What an error left behind.

/// No effect; correct the call.
pub const PLAIT_DISPOSITION_UNCHANGED: i32 = 1;
/// No effect; the same call may succeed later.
pub const PLAIT_DISPOSITION_RETRY: i32 = 2;
/// Free engine and group, then make new ones.
pub const PLAIT_DISPOSITION_ENGINE_LOST: i32 = 3;
/// Device or memory cannot be repaired in this process.
pub const PLAIT_DISPOSITION_PROCESS_LOST: i32 = 4;

// What plait_engine_state answers.

/// Takes calls.
pub const PLAIT_ENGINE_READY: i32 = 1;
/// A call is in progress.
pub const PLAIT_ENGINE_RUNNING: i32 = 2;
/// Answers state, counter, report and close; to be freed.
pub const PLAIT_ENGINE_LOST: i32 = 3;
/// `plait_engine_close` has returned.
pub const PLAIT_ENGINE_CLOSED: i32 = 4;

// What plait_progress.state holds.

/// Not ended.
pub const PLAIT_OP_RUNNING: i32 = 1;
/// Ended well; it may have a result.
pub const PLAIT_OP_DONE: i32 = 2;
/// Ended with an error, which `plait_op_wait` gives.
pub const PLAIT_OP_FAILED: i32 = 3;
/// Ended since it was asked to.
pub const PLAIT_OP_CANCELLED: i32 = 4;

// Levels of log records; a lower one is more urgent.

/// Something failed.
pub const PLAIT_LOG_ERROR: i32 = 1;
/// Something deserves a look.
pub const PLAIT_LOG_WARNING: i32 = 2;
/// What happened; the level at the start.
pub const PLAIT_LOG_INFO: i32 = 3;
/// For the search for a mistake.
pub const PLAIT_LOG_DEBUG: i32 = 4;
/// Everything.
pub const PLAIT_LOG_TRACE: i32 = 5;

// Which rows a batch holds.

/// Those of all processes, in global order.
pub const PLAIT_BATCH_GLOBAL: i32 = 1;
/// Those of `plait_engine_batch_span` alone.
pub const PLAIT_BATCH_LOCAL: i32 = 2;

// Flags of plait_batch_spec.needs: what this process must supply.

/// "tokens".
pub const PLAIT_NEEDS_TOKENS: i32 = 1;
/// "targets", where targets are given at all.
pub const PLAIT_NEEDS_TARGETS: i32 = 2;
/// "documents", where they are used.
pub const PLAIT_NEEDS_DOCUMENTS: i32 = 4;

// What of a parameter is meant.

/// The weight that computes.
pub const PLAIT_KIND_PARAM: i32 = 1;
/// The fp32 weight that is updated.
pub const PLAIT_KIND_MASTER: i32 = 2;
/// Mean of gradients.
pub const PLAIT_KIND_MOMENT1: i32 = 3;
/// Mean of squared gradients.
pub const PLAIT_KIND_MOMENT2: i32 = 4;
/// A further state, as the format allows.
pub const PLAIT_KIND_EXTRA: i32 = 5;
/// Divided by the targets so far, neither clipped nor scaled.
pub const PLAIT_KIND_GRADIENT: i32 = 64;

// Types of elements, with the numbers of the checkpoint format.

/// IEEE 754, 32 bits.
pub const PLAIT_DTYPE_FLOAT32: i32 = 1;
/// Upper half of a FLOAT32.
pub const PLAIT_DTYPE_BFLOAT16: i32 = 2;
/// IEEE 754, 16 bits.
pub const PLAIT_DTYPE_FLOAT16: i32 = 3;
/// Signed, 32 bits.
pub const PLAIT_DTYPE_INT32: i32 = 6;
/// Signed, 64 bits.
pub const PLAIT_DTYPE_INT64: i32 = 7;
/// A byte.
pub const PLAIT_DTYPE_UINT8: i32 = 8;

// Types of a named value that goes into checkpoints.

/// Field `integer`.
pub const PLAIT_PROPERTY_INTEGER: i32 = 1;
/// Field `real`.
pub const PLAIT_PROPERTY_REAL: i32 = 2;
/// Field `text`.
pub const PLAIT_PROPERTY_TEXT: i32 = 3;

// Flags of plait_key_info.flags.

/// `plait_engine_set` takes it.
pub const PLAIT_KEY_MUTABLE: i32 = 1;
/// May differ between processes.
pub const PLAIT_KEY_LOCAL: i32 = 2;
/// For hosts; the engine does not read it.
pub const PLAIT_KEY_HOST: i32 = 4;

// Bits of `valid`.

/// Every field was filled.
pub const PLAIT_VALID_ALL: i32 = 1;

// Bits of plait_metrics.valid.

/// step … loss_scale; equal in every process.
pub const PLAIT_METRICS_STEP: i32 = 1;
/// step_seconds … data_seconds.
pub const PLAIT_METRICS_TIME: i32 = 2;
/// Memory_bytes, memory_peak_bytes.
pub const PLAIT_METRICS_MEMORY: i32 = 4;
/// Diverged_rank; on steps that checked.
pub const PLAIT_METRICS_REPLICAS: i32 = 8;

// Bits of plait_entry_info.valid.

/// kind … elements.
pub const PLAIT_ENTRY_TENSOR: i32 = 1;
/// Type, and the field that it names.
pub const PLAIT_ENTRY_PROPERTY: i32 = 2;
/// Digest.
pub const PLAIT_ENTRY_DIGEST: i32 = 4;
