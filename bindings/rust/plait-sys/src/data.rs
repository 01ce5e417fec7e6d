//! Batches (int32, row-major), data sets, tokenizers.

use std::os::raw::{c_char, c_void};

use crate::handles::{
    plait_batch, plait_bytes, plait_config, plait_context, plait_dataset, plait_engine,
    plait_error, plait_op, plait_tokenizer,
};
use crate::structs::plait_dataset_info;

extern "C" {
    /// An empty batch for an engine. Scope GLOBAL: all rows in global order. LOCAL: the rows of
    /// plait_engine_batch_span. A call of the engine copies what its ranks read: the batch may be
    /// changed or freed once the call has returned, also with an error.
    ///
    /// Since 0.1; threads A; collective: no; owns: batch; stable.
    pub fn plait_batch_create(
        engine: *mut plait_engine,
        scope: i32,
        batch: *mut *mut plait_batch,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Copies "tokens" [rows, sequence_length + 1] (or [rows, sequence_length] beside "targets"),
    /// "targets" [rows, sequence_length] (-1: ignored) or "documents" (shaped as tokens). Null
    /// values remove it. Values are checked when the batch is used: `INVALID_ARGUMENT/token_range`.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_batch_set(
        batch: *mut plait_batch,
        name: *const c_char,
        values: *const i32,
        rows: i64,
        columns: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// The batch's own memory for `name`, 64-byte aligned, to be filled in place. It keeps its
    /// content and address until the shape changes or the batch is freed.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_batch_map(
        batch: *mut plait_batch,
        name: *const c_char,
        rows: i64,
        columns: i64,
        values: *mut *mut i32,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Opens the files of data.train (role "train") or data.evaluate ("evaluate"): flat uint16 or
    /// int32 files, .bin/.idx pairs, weighted blends. Damaged files are `DATA_LOSS/dataset_…`.
    ///
    /// Since 0.1; threads A; collective: no; owns: dataset; stable.
    pub fn plait_dataset_open(
        context: *mut plait_context,
        config: *const plait_config,
        role: *const c_char,
        dataset: *mut *mut plait_dataset,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Sizes and fingerprint.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_dataset_describe(
        dataset: *const plait_dataset,
        info: *mut plait_dataset_info,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Samples first_sample … first_sample + count - 1 of "tokens" or "documents" in training
    /// order: int32 [count, sequence_length + 1].
    ///
    /// Since 0.1; threads A; collective: no; owns: values; stable.
    pub fn plait_dataset_read(
        dataset: *const plait_dataset,
        name: *const c_char,
        first_sample: i64,
        count: i64,
        values: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Kind "byte" (directory null) or "gpt2" with vocab.bpe and encoder.json, or merges.txt and
    /// vocab.json, in `directory`.
    ///
    /// Since 0.1; threads A; collective: no; owns: tokenizer; stable.
    pub fn plait_tokenizer_open(
        context: *mut plait_context,
        kind: *const c_char,
        directory: *const c_char,
        tokenizer: *mut *mut plait_tokenizer,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Number of ids, 0 for a wrong handle.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_tokenizer_vocab_size(tokenizer: *const plait_tokenizer) -> i64;

    /// Ids of a text, int32. Any bytes are allowed.
    ///
    /// Since 0.1; threads A; collective: no; owns: tokens; stable.
    pub fn plait_tokenizer_encode(
        tokenizer: *const plait_tokenizer,
        text: *const c_void,
        bytes: i64,
        tokens: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Text of ids; may end in half a character.
    ///
    /// Since 0.1; threads A; collective: no; owns: text; stable.
    pub fn plait_tokenizer_decode(
        tokenizer: *const plait_tokenizer,
        tokens: *const i32,
        count: i64,
        text: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Encodes a text file into a token file with several threads, by keys tokenize.*; the output
    /// appears whole or not at all. `options` may be null.
    ///
    /// Since 0.1; threads A; collective: no; owns: op; stable.
    pub fn plait_tokenizer_encode_file(
        tokenizer: *const plait_tokenizer,
        options: *const plait_config,
        input: *const c_char,
        output: *const c_char,
        op: *mut *mut plait_op,
        err: *mut *mut plait_error,
    ) -> i32;
}
