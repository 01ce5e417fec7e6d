//! What a failed call says.

use std::fmt;
use std::ptr;

use plait_sys as sys;

use crate::ffi::text;
use crate::{Code, Disposition};

/// What every fallible call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed: a copy of everything that the library said, owned by the caller.
///
/// `Display` prints code and message in one line.
#[derive(Clone, Debug)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: Code,
    word: String,
    message: String,
    subsystem: String,
    details: String,
    rank: i32,
    disposition: Disposition,
    host_code: i64,
}

impl Error {
    /// Copies and frees what the library gave.
    fn take(code: i32, raw: *mut sys::plait_error) -> Error {
        // SAFETY: `raw` is null or an error that is ours, which every getter reads; its texts live
        // until it is freed.
        unsafe {
            let error = Error(Box::new(Parts {
                code: Code::from_number(code),
                word: text(sys::plait_error_word(raw)),
                message: text(sys::plait_error_message(raw)),
                subsystem: text(sys::plait_error_subsystem(raw)),
                details: text(sys::plait_error_details(raw)),
                rank: sys::plait_error_rank(raw),
                disposition: Disposition::from_number(sys::plait_error_disposition(raw)),
                host_code: sys::plait_error_host_code(raw),
            }));
            sys::plait_error_free(raw);
            error
        }
    }

    /// An argument that cannot even be handed to the library, said as the library says it.
    pub(crate) fn argument(sentence: &str, parameter: &str) -> Error {
        Error(Box::new(Parts {
            code: Code::INVALID_ARGUMENT,
            word: "argument".to_string(),
            message: format!("argument: {sentence}; parameter={parameter}"),
            subsystem: "plait.rs".to_string(),
            details: format!("{{\"parameter\":\"{parameter}\"}}"),
            rank: -1,
            disposition: Disposition::UNCHANGED,
            host_code: 0,
        }))
    }

    /// The kind of failure.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The detail word, for programs: as stable as the code.
    pub fn word(&self) -> &str {
        &self.0.word
    }

    /// One line: `<word>: <sentence>; key=value …`.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Part of the library that failed, empty when it did not say.
    pub fn subsystem(&self) -> &str {
        &self.0.subsystem
    }

    /// The fields of the message as a JSON object: path, errno, offset, want, got, …
    pub fn details(&self) -> &str {
        &self.0.details
    }

    /// Rank where the error began, `None` when it belongs to none.
    pub fn rank(&self) -> Option<i32> {
        Some(self.0.rank).filter(|rank| *rank >= 0)
    }

    /// What the failure left behind.
    pub fn disposition(&self) -> Disposition {
        self.0.disposition
    }

    /// What a [`KeyValue`](crate::KeyValue) store failed with, else 0.
    pub fn host_code(&self) -> i64 {
        self.0.host_code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.code, self.0.message)
    }
}

impl std::error::Error for Error {}

/// Runs a fallible call of the ABI.
pub(crate) fn call(body: impl FnOnce(*mut *mut sys::plait_error) -> i32) -> Result<()> {
    let mut raw = ptr::null_mut();
    match body(&mut raw) {
        sys::PLAIT_OK => Ok(()),
        code => Err(Error::take(code, raw)),
    }
}

/// The same for a call that a request to stop can end: true where it did.
pub(crate) fn call_or_stop(body: impl FnOnce(*mut *mut sys::plait_error) -> i32) -> Result<bool> {
    let mut raw = ptr::null_mut();
    match body(&mut raw) {
        sys::PLAIT_OK => Ok(false),
        sys::PLAIT_STOPPED => Ok(true),
        code => Err(Error::take(code, raw)),
    }
}
