//! What every wrapper does at the border: texts, paths, limits, structs with their size.

use std::ffi::{CStr, CString};
use std::mem::{size_of, MaybeUninit};
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use plait_sys as sys;

use crate::{Error, Result};

/// Text for the library; a NUL inside is refused.
pub(crate) fn c_text(text: impl Into<Vec<u8>>, parameter: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::argument("text holds a NUL", parameter))
}

/// A path for the library, which refuses what is not UTF-8.
pub(crate) fn c_path(path: &Path, parameter: &str) -> Result<CString> {
    c_text(path.as_os_str().as_bytes(), parameter)
}

/// A copy of text that the library owns; null reads as empty.
///
/// # Safety
/// `raw` is null or points at bytes that end in NUL.
pub(crate) unsafe fn text(raw: *const c_char) -> String {
    if raw.is_null() {
        return String::new();
    }
    CStr::from_ptr(raw).to_string_lossy().into_owned()
}

/// Milliseconds, rounded up; −1 for no limit of its own.
pub(crate) fn milliseconds(timeout: Option<Duration>) -> i64 {
    let round_up = |limit: Duration| (limit.as_nanos() + 999_999) / 1_000_000;
    timeout.map_or(-1, |limit| {
        i64::try_from(round_up(limit)).unwrap_or(i64::MAX)
    })
}

/// Length of a slice, as the ABI counts.
pub(crate) fn length<T>(values: &[T]) -> i64 {
    values.len() as i64 // a slice is never longer than isize::MAX bytes
}

/// A struct of the ABI: plain numbers and pointers, for which zero bytes are a value, the first
/// field its size.
///
/// # Safety
/// The type is one of the sized structs of `plait-sys`.
pub(crate) unsafe trait Sized64: Copy {
    /// Zero but for its size.
    fn sized() -> Self {
        let mut zeroed = MaybeUninit::<Self>::zeroed();
        // SAFETY: all fields are numbers, pointers or optional function pointers, which may be zero;
        // the first is an i64.
        unsafe {
            *zeroed.as_mut_ptr().cast::<i64>() = size_of::<Self>() as i64;
            zeroed.assume_init()
        }
    }
}

// SAFETY: sized structs of plait-sys.
unsafe impl Sized64 for sys::plait_metrics {}
unsafe impl Sized64 for sys::plait_batch_spec {}
unsafe impl Sized64 for sys::plait_plan_info {}
unsafe impl Sized64 for sys::plait_rank_info {}
unsafe impl Sized64 for sys::plait_key_info {}
unsafe impl Sized64 for sys::plait_entry_info {}
unsafe impl Sized64 for sys::plait_dataset_info {}
unsafe impl Sized64 for sys::plait_progress {}
unsafe impl Sized64 for sys::plait_kv {}
