//! Checkpoints, and operations that outlive their call.

use std::os::raw::{c_char, c_void};

use crate::handles::{
    plait_bytes, plait_checkpoint, plait_config, plait_context, plait_engine, plait_error, plait_op,
};
use crate::structs::{plait_entry_info, plait_progress};

extern "C" {
    /// Takes a snapshot and writes it as a new step of `root`; returns after the snapshot. The
    /// operation ends when the step is durable.
    ///
    /// Since 0.1; threads C; collective: yes; owns: op; stable.
    pub fn plait_checkpoint_save(
        engine: *mut plait_engine,
        root: *const c_char,
        timeout_ms: i64,
        op: *mut *mut plait_op,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Loads state into a live engine, whatever layout saved it. The JSON report names the step
    /// that was taken, and newer ones that were skipped, with the reason.
    ///
    /// Since 0.1; threads C; collective: yes; owns: report; stable.
    pub fn plait_checkpoint_load(
        engine: *mut plait_engine,
        path: *const c_char,
        timeout_ms: i64,
        report: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// JSON about the steps under `root`.
    ///
    /// Since 0.1; threads A; collective: no; owns: report; stable.
    pub fn plait_checkpoint_list(
        context: *mut plait_context,
        root: *const c_char,
        report: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Opens a checkpoint or a Hugging Face directory without engine or device.
    ///
    /// Since 0.1; threads A; collective: no; owns: checkpoint; stable.
    pub fn plait_checkpoint_open(
        context: *mut plait_context,
        path: *const c_char,
        checkpoint: *mut *mut plait_checkpoint,
        err: *mut *mut plait_error,
    ) -> i32;

    /// JSON about what is open: format, step, model, layout, optimizer, data position, digests, as
    /// far as the format has them.
    ///
    /// Since 0.1; threads 1; collective: no; owns: report; stable.
    pub fn plait_checkpoint_report(
        checkpoint: *const plait_checkpoint,
        report: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Number of entries, 0 for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_checkpoint_entry_count(checkpoint: *const plait_checkpoint) -> i64;

    /// Describes entry `index`: (logical tensor, kind) in name and kind order, then properties.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_checkpoint_entry_at(
        checkpoint: *const plait_checkpoint,
        index: i64,
        info: *mut plait_entry_info,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Sets a key for later calls on what is open; null is its default. checkpoint.mmap alone: true
    /// says that the storage is trusted, since a file that is cut short under a mapping ends the
    /// process.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_checkpoint_set(
        checkpoint: *mut plait_checkpoint,
        key: *const c_char,
        value: *const c_char,
        err: *mut *mut plait_error,
    ) -> i32;

    /// One whole tensor, verified, row-major, in the stored dtype; the memory lives as long as the
    /// handle and is not to be written. With checkpoint.mmap it is the file itself where the file
    /// holds the tensor in one piece, else a copy.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_checkpoint_map(
        checkpoint: *mut plait_checkpoint,
        name: *const c_char,
        kind: i32,
        data: *mut *const c_void,
        bytes: *mut i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Reads and checks everything; damage is DATA_LOSS with all of it in the details. is_full not
    /// 0: gaps and unread parts too.
    ///
    /// Since 0.1; threads 1; collective: no; owns: op; stable.
    pub fn plait_checkpoint_verify(
        checkpoint: *const plait_checkpoint,
        is_full: i32,
        op: *mut *mut plait_op,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Writes what is open as a checkpoint under `root` in the layout of `layout`.
    ///
    /// Since 0.1; threads 1; collective: no; owns: op; stable.
    pub fn plait_checkpoint_convert(
        checkpoint: *const plait_checkpoint,
        layout: *const plait_config,
        root: *const c_char,
        op: *mut *mut plait_op,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Writes a Hugging Face directory by keys export.*; it appears whole or not at all. `options`
    /// may be null.
    ///
    /// Since 0.1; threads 1; collective: no; owns: op; stable.
    pub fn plait_checkpoint_export_hf(
        checkpoint: *const plait_checkpoint,
        options: *const plait_config,
        directory: *const c_char,
        op: *mut *mut plait_op,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Waits for the end and returns how it ended. Past timeout_ms (0 polls) it is
    /// `DEADLINE_EXCEEDED/deadline` and the operation runs on.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_op_wait(op: *mut plait_op, timeout_ms: i64, err: *mut *mut plait_error) -> i32;

    /// State and bytes done; total_bytes is 0 as long as it is not known.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_op_progress(
        op: *const plait_op,
        progress: *mut plait_progress,
        err: *mut *mut plait_error,
    ) -> i32;

    /// The JSON report of an operation that succeeded; `FAILED_PRECONDITION/busy` while it runs.
    ///
    /// Since 0.1; threads A; collective: no; owns: report; stable.
    pub fn plait_op_result(
        op: *const plait_op,
        report: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Asks it to end; it becomes CANCELLED unless it was done first. Nothing half-written stays.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_op_cancel(op: *mut plait_op);
}
