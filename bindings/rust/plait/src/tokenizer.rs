//! Text to ids and back.

use std::path::Path;

use plait_sys as sys;

use crate::bytes::{Bytes, Tokens};
use crate::config::or_null;
use crate::ffi::{c_path, c_text, length};
use crate::handle::Handle;
use crate::{Config, Context, Operation, Result};

/// A tokenizer. Any thread may use it.
pub struct Tokenizer(Handle<sys::plait_tokenizer>);

// SAFETY: every function of a tokenizer may be called on any thread at any time.
unsafe impl Sync for Tokenizer {}

impl Tokenizer {
    /// Bytes as ids 0 … 255.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn bytes(context: &Context) -> Result<Tokenizer> {
        // SAFETY: a live context and static text; this kind has no directory; the places are ours.
        Handle::make(|tokenizer, err| unsafe {
            let (kind, directory) = (b"byte\0".as_ptr().cast(), std::ptr::null());
            sys::plait_tokenizer_open(context.raw(), kind, directory, tokenizer, err)
        })
        .map(Tokenizer)
    }

    /// A tokenizer of another `kind`: `gpt2` with `vocab.bpe` and `encoder.json`, or `merges.txt` and
    /// `vocab.json`, in `directory`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown kind, `NOT_FOUND` and `DATA_LOSS` for missing and damaged
    /// files.
    pub fn open(context: &Context, kind: &str, directory: impl AsRef<Path>) -> Result<Tokenizer> {
        let (kind, path) = (
            c_text(kind, "kind")?,
            c_path(directory.as_ref(), "directory")?,
        );
        // SAFETY: a live context, texts that outlive the call, and places that are ours.
        Handle::make(|tokenizer, err| unsafe {
            sys::plait_tokenizer_open(context.raw(), kind.as_ptr(), path.as_ptr(), tokenizer, err)
        })
        .map(Tokenizer)
    }

    /// Number of ids.
    pub fn vocab_size(&self) -> i64 {
        // SAFETY: a live handle.
        unsafe { sys::plait_tokenizer_vocab_size(self.0.raw()) }
    }

    /// Ids of a text, which may be any bytes.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn encode(&self, text: impl AsRef<[u8]>) -> Result<Tokens> {
        let text = text.as_ref();
        // SAFETY: a live handle, a payload with its length, and places that are ours.
        Bytes::make(|tokens, err| unsafe {
            let (data, bytes) = (text.as_ptr().cast(), length(text));
            sys::plait_tokenizer_encode(self.0.raw(), data, bytes, tokens, err)
        })
        .map(Tokens)
    }

    /// Text of ids; it may end in half a character.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, word `token_range`, for an id that does not exist.
    pub fn decode(&self, tokens: &[i32]) -> Result<Bytes> {
        // SAFETY: a live handle, ids with their number, and places that are ours.
        Bytes::make(|text, err| unsafe {
            let (ids, count) = (tokens.as_ptr(), length(tokens));
            sys::plait_tokenizer_decode(self.0.raw(), ids, count, text, err)
        })
    }

    /// Encodes a text file into a token file with several threads, by keys `tokenize.*` of `options`.
    /// The output appears whole or not at all.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for options that do not fit; what happens to the files, the operation
    /// tells.
    pub fn encode_file(
        &self,
        options: Option<&Config>,
        input: impl AsRef<Path>,
        output: impl AsRef<Path>,
    ) -> Result<Operation> {
        let (input, output) = (
            c_path(input.as_ref(), "input")?,
            c_path(output.as_ref(), "output")?,
        );
        // SAFETY: live handles, texts that outlive the call, and places that are ours.
        Operation::make(|op, err| unsafe {
            let (options, input, output) = (or_null(options), input.as_ptr(), output.as_ptr());
            sys::plait_tokenizer_encode_file(self.0.raw(), options, input, output, op, err)
        })
    }
}
