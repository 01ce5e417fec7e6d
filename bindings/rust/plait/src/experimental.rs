//! Functions without any promise: they may change or go at any version.

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::call;
use crate::ffi::{c_text, length};
use crate::Result;

/// Gives back what it gets, so that a binding can prove that nothing is lost on the way.
///
/// # Errors
/// `INVALID_ARGUMENT` for text that holds a NUL.
pub fn echo(integer: i64, real: f64, text: &str, data: &[u8]) -> Result<(i64, f64, String, Bytes)> {
    let text = c_text(text, "text")?;
    let (mut integer_out, mut real_out) = (0, 0.0);
    let (mut text_out, mut data_out) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: text and payload outlive the call; the places are ours.
    call(|err| unsafe {
        sys::experimental::plait_x_echo(
            integer,
            real,
            text.as_ptr(),
            data.as_ptr().cast(),
            length(data),
            &mut integer_out,
            &mut real_out,
            &mut text_out,
            &mut data_out,
            err,
        )
    })?;
    let bytes = |raw| Bytes::from_raw(raw).expect("a call that succeeds gives its handles");
    let (text, data) = (bytes(text_out), bytes(data_out));
    Ok((integer_out, real_out, text.to_text(), data))
}
