//! Context, configuration, planner.

use std::os::raw::{c_char, c_void};

use crate::handles::{plait_bytes, plait_config, plait_context, plait_error, plait_plan};
use crate::structs::{plait_host, plait_key_info, plait_plan_info, plait_rank_info};

extern "C" {
    /// Checks that the library serves `api_version` (pass `PLAIT_API_VERSION`): another major, a
    /// newer minor and, before 1.0, any other minor is `FAILED_PRECONDITION/version_mismatch`.
    /// `host` may be null: logs are then drained.
    ///
    /// Since 0.1; threads A; collective: no; owns: context; stable.
    pub fn plait_context_create(
        api_version: i32,
        host: *const plait_host,
        context: *mut *mut plait_context,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Records above `level` (`PLAIT_LOG_…`) are dropped where they arise.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_context_set_log_level(
        context: *mut plait_context,
        level: i32,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Takes up to `max_records` records out of the ring, oldest first: JSON lines with time,
    /// level, rank, subsystem and message. A line with `dropped` counts records that the ring lost.
    /// Empty where a log callback is set.
    ///
    /// Since 0.1; threads A; collective: no; owns: lines; stable.
    pub fn plait_context_log_drain(
        context: *mut plait_context,
        max_records: i64,
        lines: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// A configuration with every key at its default.
    ///
    /// Since 0.1; threads A; collective: no; owns: config; stable.
    pub fn plait_config_create(
        context: *mut plait_context,
        config: *mut *mut plait_config,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Sets a key; null goes back to the default. An unknown key (the nearest known one is named)
    /// or a value outside the key's range is `INVALID_ARGUMENT/argument`.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_config_set(
        config: *mut plait_config,
        key: *const c_char,
        value: *const c_char,
        err: *mut *mut plait_error,
    ) -> i32;

    /// The effective value of a key as text: the one set, else the default.
    ///
    /// Since 0.1; threads 1; collective: no; owns: value; stable.
    pub fn plait_config_get(
        config: *const plait_config,
        key: *const c_char,
        value: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Merges a JSON object; nested objects and dotted keys mean the same. All of it is taken or,
    /// on an error, none.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_config_load(
        config: *mut plait_config,
        json: *const c_void,
        bytes: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Sets the model.* keys from config.json of a Hugging Face directory of the GPT-2 or Llama
    /// family. What the library cannot express is `UNIMPLEMENTED/unsupported_model`, with the
    /// field.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_config_load_hf(
        config: *mut plait_config,
        directory: *const c_char,
        err: *mut *mut plait_error,
    ) -> i32;

    /// The configuration as a JSON object of dotted keys: those that were set or, with is_complete
    /// not 0, all of them. network.token is left out.
    ///
    /// Since 0.1; threads 1; collective: no; owns: json; stable.
    pub fn plait_config_dump(
        config: *const plait_config,
        is_complete: i32,
        json: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Checks every rule between keys (divisibility and so on). Needs no device.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_config_check(config: *const plait_config, err: *mut *mut plait_error) -> i32;

    /// Number of keys that exist, 0 for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_config_key_count(config: *const plait_config) -> i64;

    /// Describes key `index` (0 … count - 1), in the order of the table.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_config_key_at(
        config: *const plait_config,
        index: i64,
        info: *mut plait_key_info,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Candidates for `world` ranks: with fixed layout.* degrees the one, with `auto` all, best
    /// first and rejected ones last.
    ///
    /// Since 0.1; threads A; collective: no; owns: plan; stable.
    pub fn plait_plan_create(
        context: *mut plait_context,
        config: *const plait_config,
        world: i32,
        plan: *mut *mut plait_plan,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Number of candidates, 0 for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_plan_count(plan: *const plait_plan) -> i64;

    /// Describes candidate `index`.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_plan_at(
        plan: *const plait_plan,
        index: i64,
        info: *mut plait_plan_info,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Describes what `rank` (0 … world - 1) holds and does in candidate `index`.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_plan_rank_at(
        plan: *const plait_plan,
        index: i64,
        rank: i32,
        info: *mut plait_rank_info,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Text about candidate `index`: "reasons", "estimate", "memory", "schedule" (text form) or
    /// "timeline" (Chrome trace).
    ///
    /// Since 0.1; threads A; collective: no; owns: report; stable.
    pub fn plait_plan_report(
        plan: *const plait_plan,
        index: i64,
        kind: *const c_char,
        report: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Writes the layout.* keys of candidate `index` into `config`.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_plan_apply(
        plan: *const plait_plan,
        index: i64,
        config: *mut plait_config,
        err: *mut *mut plait_error,
    ) -> i32;
}
