//! The sized structs. Zero one, set `struct_size` to its size, pass it; in outputs the bits of
//! `valid` say which groups of fields were filled.

use std::os::raw::{c_char, c_void};

use crate::handles::plait_reply;

/// What one call on the engine measured. Counts are of the whole group. Seconds are wall time.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_metrics {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_METRICS_…`.
    pub valid: i64,
    /// The first is 1.
    pub step: i64,
    /// Sequences since the run began.
    pub samples_total: i64,
    /// Tokens since the run began.
    pub tokens_total: i64,
    /// Steps whose update was not applied.
    pub skipped_total: i64,
    /// Of this call.
    pub tokens: i64,
    /// Of this call, the unmasked ones.
    pub targets: i64,
    /// 1: the update was not applied.
    pub skipped: i64,
    /// Mean negative log-likelihood per target, in nats.
    pub loss: f64,
    /// Before clipping.
    pub grad_norm: f64,
    /// Learning rate used in this step.
    pub lr: f64,
    /// Used in this step; 1 where there is none.
    pub loss_scale: f64,
    /// Of the whole call.
    pub step_seconds: f64,
    /// Of the whole group.
    pub tokens_per_second: f64,
    /// Of the whole group, by the model's formula.
    pub model_flops_per_second: f64,
    /// This and the next five: mean over local ranks.
    pub forward_seconds: f64,
    /// Backward passes.
    pub backward_seconds: f64,
    /// Not hidden behind compute.
    pub communication_seconds: f64,
    /// The update.
    pub optimizer_seconds: f64,
    /// Waiting for other stages.
    pub bubble_seconds: f64,
    /// Reading and copying tokens.
    pub data_seconds: f64,
    /// Of the largest local rank.
    pub memory_bytes: i64,
    /// Of the largest local rank, since the engine was created.
    pub memory_peak_bytes: i64,
    /// Whose copies differ; -1: none.
    pub diverged_rank: i64,
}

/// What the next step wants to be fed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_batch_spec {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// Sequences of the whole step.
    pub global_rows: i64,
    /// Rows of a LOCAL batch.
    pub local_rows: i64,
    /// Runs of `plait_engine_batch_span`.
    pub span_count: i64,
    /// Inputs of a row; with its last target a row has one token more.
    pub sequence_length: i64,
    /// Tokens are 0 … vocab_size - 1.
    pub vocab_size: i64,
    /// Sample index of global row 0.
    pub first_sample: i64,
    /// `PLAIT_NEEDS_…`.
    pub needs: i64,
}

/// One candidate of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_plan_info {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// 0: `reason` says why not.
    pub is_feasible: i64,
    /// Layout.tensor.
    pub tensor: i64,
    /// Layout.pipeline.
    pub pipeline: i64,
    /// Layout.data.
    pub data: i64,
    /// Layout.interleave.
    pub interleave: i64,
    /// Layout.zero.
    pub zero: i64,
    /// Layout.micro_batch.
    pub micro_batch: i64,
    /// Of the largest rank.
    pub memory_bytes: i64,
    /// Of the largest rank.
    pub memory_limit_bytes: i64,
    /// Of one optimizer step.
    pub step_seconds: f64,
    /// Of the whole group.
    pub tokens_per_second: f64,
    /// Of the step.
    pub bubble_share: f64,
    /// Of the peak.
    pub model_flops_share: f64,
    /// Why it was rejected, "" when it was not.
    pub reason: *const c_char,
}

/// One rank of a candidate: its coordinates and what it holds and does.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_rank_info {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// Coordinate on the tensor axis.
    pub tensor: i64,
    /// Coordinate on the pipeline axis.
    pub pipeline: i64,
    /// Coordinate on the data axis.
    pub data: i64,
    /// Of parameters and masters.
    pub weight_bytes: i64,
    /// Of gradients.
    pub gradient_bytes: i64,
    /// Of moments.
    pub optimizer_bytes: i64,
    /// Of the saved state of micro-batches.
    pub activation_bytes: i64,
    /// Of buffers for other ranks.
    pub communication_bytes: i64,
    /// Of scratch memory.
    pub workspace_bytes: i64,
    /// Of one optimizer step.
    pub compute_seconds: f64,
    /// Of one optimizer step.
    pub communication_seconds: f64,
    /// Of the step.
    pub bubble_share: f64,
}

/// One configuration key. Absent limits are "".
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_key_info {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// Dotted name.
    pub key: *const c_char,
    /// Integer, real, ….
    pub r#type: *const c_char,
    /// "" where the key must be set or is empty.
    pub default_value: *const c_char,
    /// Least value.
    pub minimum: *const c_char,
    /// Greatest value.
    pub maximum: *const c_char,
    /// Words separated by commas, "" when any text will do.
    pub choices: *const c_char,
    /// Ms, bytes, ….
    pub unit: *const c_char,
    /// What the key means, one sentence.
    pub doc: *const c_char,
    /// "same", "ask" or "free": may it differ when a run is resumed.
    pub resume: *const c_char,
    /// `PLAIT_KEY_…`.
    pub flags: i64,
}

/// One (logical tensor, kind), or one property of the host (kind 0).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_entry_info {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_ENTRY_…`.
    pub valid: i64,
    /// Of the tensor or property.
    pub name: *const c_char,
    /// `PLAIT_KIND_…`, 0: a property of the host.
    pub kind: i64,
    /// `PLAIT_DTYPE_…`.
    pub dtype: i64,
    /// 0 … 4.
    pub dims: i64,
    /// Outermost; shapes beyond dims are 1.
    pub shape0: i64,
    /// Second.
    pub shape1: i64,
    /// Third.
    pub shape2: i64,
    /// Fourth.
    pub shape3: i64,
    /// Product of the shapes.
    pub elements: i64,
    /// Of all elements, equal in every layout.
    pub digest: i64,
    /// `PLAIT_PROPERTY_…`: which of the next three holds the value.
    pub r#type: i64,
    /// Of `PLAIT_PROPERTY_INTEGER`.
    pub integer: i64,
    /// Of `PLAIT_PROPERTY_REAL`.
    pub real: f64,
    /// Of `PLAIT_PROPERTY_TEXT`.
    pub text: *const c_char,
}

/// What the files of a dataset hold.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_dataset_info {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// In all files of the role.
    pub tokens: i64,
    /// In all files of the role.
    pub documents: i64,
    /// In one epoch.
    pub samples: i64,
    /// Of a sample.
    pub sequence_length: i64,
    /// Of content and order of the files; compared on resume.
    pub fingerprint: i64,
}

/// How far an operation is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_progress {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// `PLAIT_OP_…`.
    pub state: i64,
    /// Written or read so far.
    pub done_bytes: i64,
    /// 0: not known yet.
    pub total_bytes: i64,
}

/// A log record as a callback sees it. All of it is the library's, until the callback returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_log_record {
    /// Bytes of the struct, set by the library.
    pub struct_size: i64,
    /// `PLAIT_VALID_ALL`, or 0 on failure.
    pub valid: i64,
    /// Since 1970.
    pub time_ns: i64,
    /// `PLAIT_LOG_…`.
    pub level: i64,
    /// -1: none.
    pub rank: i64,
    /// Part of the library.
    pub subsystem: *const c_char,
    /// One line.
    pub message: *const c_char,
    /// Without the NUL behind it.
    pub message_bytes: i64,
}

/// Callbacks of the host; each may be null. `log` runs on one library thread, a record at a time,
/// and replaces the ring of plait_context_log_drain. The hooks run in every library thread, first
/// and last. A callback calls nothing of the library but plait_reply_set, and nothing may leave it
/// but its return.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_host {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// Handed back, never read.
    pub user: *mut c_void,
    /// Takes a log record.
    pub log: Option<unsafe extern "C" fn(user: *mut c_void, record: *const plait_log_record)>,
    /// A library thread begins; `name` is its name.
    pub thread_start: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char)>,
    /// A library thread ends.
    pub thread_stop: Option<unsafe extern "C" fn(user: *mut c_void)>,
    /// Null.
    pub reserved: *mut c_void,
}

/// A key-value store of the host, used within plait_group_join_kv and on its thread. Both return 0
/// or a number that becomes HOST_ERROR carrying it. `get` answers by plait_reply_set; a 0 without
/// an answer means that the key did not appear in timeout_ms (it is then asked again, until the
/// call's own limit). Keys are the same for all groups of one size: what an earlier group put must
/// not be seen, so give each try a prefix of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct plait_kv {
    /// Bytes of the struct, set by the host.
    pub struct_size: i64,
    /// Handed back, never read.
    pub user: *mut c_void,
    /// Stores a value under a key.
    pub put: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            key: *const c_char,
            value: *const c_void,
            bytes: i64,
        ) -> i64,
    >,
    /// Waits up to timeout_ms for a key and answers by `plait_reply_set`.
    pub get: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            key: *const c_char,
            timeout_ms: i64,
            reply: *mut plait_reply,
        ) -> i64,
    >,
    /// Null.
    pub reserved: *mut c_void,
}
