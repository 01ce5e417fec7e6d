//! The context: version handshake and log.

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::call;
use crate::handle::Handle;
use crate::{LogLevel, Result};

/// What everything else hangs on. Any thread may use it; it may be dropped before its children.
pub struct Context(Handle<sys::plait_context>);

// SAFETY: every function of a context may be called on any thread at any time.
unsafe impl Sync for Context {}

impl Context {
    /// A context of the version that this crate was written for.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`, word `version_mismatch`, when the loaded library is of another one.
    pub fn new() -> Result<Context> {
        Context::with_version(sys::PLAIT_API_VERSION)
    }

    /// A context of version `major * 1000000 + minor * 1000`, for a program that makes do with what
    /// an older library has.
    ///
    /// # Errors
    /// As [`new`](Self::new); the message names both versions.
    pub fn with_version(api_version: i32) -> Result<Context> {
        // SAFETY: no host callbacks; the places are ours.
        Handle::make(|context, err| unsafe {
            sys::plait_context_create(api_version, std::ptr::null(), context, err)
        })
        .map(Context)
    }

    /// Drops records above `level` where they arise.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a level that the library does not know.
    pub fn set_log_level(&self, level: LogLevel) -> Result<()> {
        // SAFETY: a live handle.
        call(|err| unsafe { sys::plait_context_set_log_level(self.raw(), level.number(), err) })
    }

    /// Takes at most `max_records` records out of the log, oldest first, and hands each to `handler`
    /// on this thread, as a JSON object with `time`, `level`, `rank`, `subsystem` and `message`. An
    /// object with `dropped` comes first where the ring was full: so many records were lost. Answers
    /// how often it called. A panic of the handler leaves this call as it leaves any other.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn drain_log(&self, max_records: usize, mut handler: impl FnMut(&str)) -> Result<usize> {
        let max_records = i64::try_from(max_records).unwrap_or(i64::MAX);
        // SAFETY: a live handle; the place is ours.
        let lines = Bytes::make(|lines, err| unsafe {
            sys::plait_context_log_drain(self.raw(), max_records, lines, err)
        })?;
        let mut count = 0;
        for line in String::from_utf8_lossy(&lines).lines() {
            handler(line);
            count += 1;
        }
        Ok(count)
    }

    pub(crate) fn raw(&self) -> *mut sys::plait_context {
        self.0.raw()
    }
}
