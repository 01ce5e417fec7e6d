//! Functions of `plait/plait_experimental.h`: no promise at all. They may change or go at any version.

use std::os::raw::{c_char, c_void};

use crate::handles::{plait_bytes, plait_error};

extern "C" {
    /// Gives back what it gets, so that a binding can prove that nothing is lost on the way. `text`
    /// ends in NUL and must be UTF-8; `data` has `bytes` bytes and may be null when that is 0.
    ///
    /// Since 0.1; threads A; collective: no; owns: text_out,data_out; experimental.
    pub fn plait_x_echo(
        integer: i64,
        real: f64,
        text: *const c_char,
        data: *const c_void,
        bytes: i64,
        integer_out: *mut i64,
        real_out: *mut f64,
        text_out: *mut *mut plait_bytes,
        data_out: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;
}
