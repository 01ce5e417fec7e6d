//! Library, errors, bytes; the functions that free.

use std::os::raw::{c_char, c_void};

use crate::handles::{
    plait_batch, plait_bytes, plait_checkpoint, plait_config, plait_context, plait_dataset,
    plait_engine, plait_error, plait_group, plait_op, plait_plan, plait_tokenizer,
};

extern "C" {
    /// Version of the loaded library, coded as `PLAIT_API_VERSION` with the patch level in the last
    /// three digits.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_version() -> i32;

    /// A fact about the build: "commit", "compiler", "features" (the names of all features that are
    /// built, separated by spaces), or `feature.<name>`, which is "yes" or "not built". Null for a
    /// key that the library does not know. The text is static.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_build_info(key: *const c_char) -> *const c_char;

    /// Name of a code without the prefix: "OK", "INVALID_ARGUMENT", …; "UNKNOWN" for other numbers.
    /// Static, never null.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_code_name(code: i32) -> *const c_char;

    /// The code that the failing function returned. Null reads as `PLAIT_OK`.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_code(error: *const plait_error) -> i32;

    /// Rank where the error began, -1 when it belongs to none.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_rank(error: *const plait_error) -> i32;

    /// `PLAIT_DISPOSITION_…`: what the failure left behind. -1 for null.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_disposition(error: *const plait_error) -> i32;

    /// One line: `<word>: <sentence>; key=value …`. Lives as long as the error.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_message(error: *const plait_error) -> *const c_char;

    /// The detail word by itself, for programs: as stable as the code.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_word(error: *const plait_error) -> *const c_char;

    /// Part of the library that failed, "" when it did not say.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_subsystem(error: *const plait_error) -> *const c_char;

    /// The fields of the message as a JSON object: path, errno, offset, want, got, …
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_details(error: *const plait_error) -> *const c_char;

    /// What a callback of the host returned when it failed, else 0; -1 for null.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_host_code(error: *const plait_error) -> i64;

    /// The bytes, followed by a NUL that is not counted. Any alignment up to 8 holds. They live as
    /// long as the handle, whatever they came from. Null for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_bytes_data(bytes: *const plait_bytes) -> *const c_void;

    /// Number of bytes, 0 for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_bytes_size(bytes: *const plait_bytes) -> i64;

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_error_free(error: *mut plait_error);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_bytes_free(bytes: *mut plait_bytes);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_context_free(context: *mut plait_context);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_config_free(config: *mut plait_config);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_plan_free(plan: *mut plait_plan);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_group_free(group: *mut plait_group);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_engine_free(engine: *mut plait_engine);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_batch_free(batch: *mut plait_batch);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_dataset_free(dataset: *mut plait_dataset);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_tokenizer_free(tokenizer: *mut plait_tokenizer);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_checkpoint_free(checkpoint: *mut plait_checkpoint);

    /// Frees the handle; null does nothing. Never fails, never waits for a peer. A free during a
    /// call on the handle aborts that call. A running operation is neither waited for nor
    /// cancelled.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_op_free(op: *mut plait_op);
}
