//! Engine: one for each group, drives all local ranks.

use std::os::raw::{c_char, c_void};

use crate::handles::{
    plait_batch, plait_bytes, plait_config, plait_dataset, plait_engine, plait_error, plait_group,
};
use crate::structs::{plait_batch_spec, plait_entry_info, plait_metrics};

extern "C" {
    /// Builds model, optimizer state and all working memory, and draws the weights from the seed.
    /// `config` is copied and compared across processes.
    ///
    /// Since 0.1; threads C; collective: yes; owns: engine; stable.
    pub fn plait_engine_create(
        group: *mut plait_group,
        config: *const plait_config,
        timeout_ms: i64,
        engine: *mut *mut plait_engine,
        err: *mut *mut plait_error,
    ) -> i32;

    /// `PLAIT_ENGINE_…`; 0 for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_state(engine: *const plait_engine) -> i32;

    /// Rows, lengths and needs of the next step's batch.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_engine_batch_spec(
        engine: *const plait_engine,
        spec: *mut plait_batch_spec,
        err: *mut *mut plait_error,
    ) -> i32;

    /// The rows of a global batch of `global_rows` that this process supplies in a LOCAL batch, as
    /// runs: `index` 0 … span_count - 1 gives the first global row and the count of a run.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_engine_batch_span(
        engine: *const plait_engine,
        global_rows: i64,
        index: i64,
        first: *mut i64,
        count: *mut i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// One whole optimizer step. A null batch draws the next one of the attached "train" dataset. A
    /// batch whose targets are all -1 is no error: loss 0, skipped 1. `PLAIT_STOPPED`: the step was
    /// done and a stop is due.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_step(
        engine: *mut plait_engine,
        batch: *const plait_batch,
        timeout_ms: i64,
        metrics: *mut plait_metrics,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Adds the gradients of a host batch to those since the last update. Any cut of a batch into
    /// such calls equals one step on the whole.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_forward_backward(
        engine: *mut plait_engine,
        batch: *const plait_batch,
        timeout_ms: i64,
        metrics: *mut plait_metrics,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Divides the gradients by the targets since the last update, clips, updates the weights,
    /// clears.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_optimizer_step(
        engine: *mut plait_engine,
        timeout_ms: i64,
        metrics: *mut plait_metrics,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Loss alone, without dropout; the state stays as it is. A null batch runs evaluate.batches
    /// batches of the attached "evaluate" dataset from its start.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_evaluate(
        engine: *mut plait_engine,
        batch: *const plait_batch,
        timeout_ms: i64,
        metrics: *mut plait_metrics,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Negative log-likelihood of each target: float32 [rows, sequence_length] into `losses`, 0
    /// where the target is ignored. `bytes` is the size of that memory and must fit exactly.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_score(
        engine: *mut plait_engine,
        batch: *const plait_batch,
        timeout_ms: i64,
        losses: *mut c_void,
        bytes: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Continues `prompt` (at least one id) with the current weights and keys generate.*: at most
    /// max_tokens new ids, int32. A window slides over a text longer than the model.
    ///
    /// Since 0.1; threads C; collective: yes; owns: tokens; stable.
    pub fn plait_engine_generate(
        engine: *mut plait_engine,
        prompt: *const i32,
        prompt_count: i64,
        max_tokens: i64,
        timeout_ms: i64,
        tokens: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Makes a dataset the source of null batches for role "train" or "evaluate"; null detaches.
    /// The engine keeps a reference.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_attach_dataset(
        engine: *mut plait_engine,
        role: *const c_char,
        dataset: *mut plait_dataset,
        timeout_ms: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Sets a key that is mutable at run time; takes effect when the next step, save or load opens.
    /// Make the same call in every process.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_engine_set(
        engine: *mut plait_engine,
        key: *const c_char,
        value: *const c_char,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Sets a named value that goes into checkpoints. `type` (`PLAIT_PROPERTY_…`) says which of
    /// integer, real and text is read. Names are [a-z0-9_.-]{1,128}; text is at most 64 KiB.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_engine_set_property(
        engine: *mut plait_engine,
        name: *const c_char,
        r#type: i32,
        integer: i64,
        real: f64,
        text: *const c_char,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Value of a counter of report "counters". Answers also after the engine is lost.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_counter(
        engine: *const plait_engine,
        name: *const c_char,
        value: *mut f64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// JSON about "config", "ranks", "kernels", "memory", "schedule", "counters", "properties",
    /// "operations" or "trace": the trace that key trace.steps began last, its files and idle
    /// shares, and the error that kept its file from being written. Answers also after the engine
    /// is lost.
    ///
    /// Since 0.1; threads A; collective: no; owns: report; stable.
    pub fn plait_engine_report(
        engine: *const plait_engine,
        kind: *const c_char,
        report: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Number of (logical tensor, kind) pairs, in name and kind order and equal in every process; 0
    /// for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_tensor_count(engine: *const plait_engine) -> i64;

    /// Describes pair `index`; the digest is not filled for a live tensor.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_tensor_at(
        engine: *const plait_engine,
        index: i64,
        info: *mut plait_entry_info,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Copies a whole tensor, converted to `dtype`, row-major, into `data` of exactly `bytes` bytes
    /// and any alignment. Null data: only take part.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_tensor_read(
        engine: *mut plait_engine,
        name: *const c_char,
        kind: i32,
        dtype: i32,
        timeout_ms: i64,
        data: *mut c_void,
        bytes: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Replaces a whole tensor. The data of the process of rank 0 counts. PARAM and MASTER stay
    /// consistent with each other.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_tensor_write(
        engine: *mut plait_engine,
        name: *const c_char,
        kind: i32,
        dtype: i32,
        data: *const c_void,
        bytes: i64,
        timeout_ms: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Asks for an orderly stop: one atomic store, legal in a signal handler. The next step
    /// finishes in all processes and returns `PLAIT_STOPPED`; evaluate, score, generate and load
    /// stop without effect.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_request_stop(engine: *mut plait_engine);

    /// Ends at once: calls that run return `PLAIT_ABORTED` within a second and the engine is lost.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_abort(engine: *mut plait_engine);

    /// Orderly end: saves finish or are given up by the deadline, peers see no loss.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_engine_close(
        engine: *mut plait_engine,
        timeout_ms: i64,
        err: *mut *mut plait_error,
    ) -> i32;
}
