//! Work that outlives the call that began it.

use std::time::Duration;

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::call;
use crate::ffi::{milliseconds, Sized64};
use crate::handle::Handle;
use crate::{Progress, Result};

/// Work in the background, such as a save beside training. Any thread may use it. Dropping it neither
/// waits nor cancels.
pub struct Operation(Handle<sys::plait_op>);

// SAFETY: every function of an operation may be called on any thread at any time.
unsafe impl Sync for Operation {}

impl Operation {
    pub(crate) fn make(
        body: impl FnOnce(*mut *mut sys::plait_op, *mut *mut sys::plait_error) -> i32,
    ) -> Result<Operation> {
        Handle::make(body).map(Operation)
    }

    /// Waits for the end; `Some(Duration::ZERO)` only looks.
    ///
    /// # Errors
    /// How the operation failed; `DEADLINE_EXCEEDED` with disposition `RETRY` when it runs on past
    /// `timeout`; `CANCELLED` when it was asked to end.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle.
        call(|err| unsafe { sys::plait_op_wait(self.0.raw(), timeout_ms, err) })
    }

    /// State and bytes done: how to poll without errors.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn progress(&self) -> Result<Progress> {
        let mut raw = sys::plait_progress::sized();
        // SAFETY: a live handle; the library fills the struct.
        call(|err| unsafe { sys::plait_op_progress(self.0.raw(), &mut raw, err) })?;
        Ok(raw.into())
    }

    /// The JSON report of an operation that succeeded.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`, word `busy`, while it runs; else how it failed.
    pub fn result(&self) -> Result<String> {
        // SAFETY: a live handle; the places are ours.
        let report =
            Bytes::make(|report, err| unsafe { sys::plait_op_result(self.0.raw(), report, err) })?;
        Ok(report.to_text())
    }

    /// Asks it to end; it becomes `CANCELLED` unless it was done first. Nothing half-written stays.
    pub fn cancel(&self) {
        // SAFETY: a live handle.
        unsafe { sys::plait_op_cancel(self.0.raw()) }
    }
}
