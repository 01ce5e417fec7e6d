//! Where processes can meet: a key-value store of the host.

use std::any::Any;
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::slice;
use std::time::Duration;

use plait_sys as sys;

use crate::ffi::{length, Sized64};

/// A key-value store of the host, which all processes of a group reach: what
/// [`Group::join_kv`](crate::Group::join_kv) exchanges cards through. It calls on its own thread, and
/// nothing of this crate may be used from within.
///
/// Keys are the same for all groups of one size: what an earlier group put must not be seen, so give
/// each try a prefix of its own.
///
/// A failure is a number of the host's own; it comes back as `HOST_ERROR` with that number as
/// [`host_code`](crate::Error::host_code), 0 as −1. A panic becomes `HOST_ERROR` with
/// [`HOST_CODE_PANIC`].
pub trait KeyValue {
    /// Stores a value.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), i64>;

    /// The value of a key, waiting up to `timeout` for it to appear; `None` when it did not. The call
    /// is then repeated until the limit of the join.
    fn get(&mut self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, i64>;
}

/// The host code of an error whose cause was a panic in a [`KeyValue`] store.
pub const HOST_CODE_PANIC: i64 = i64::MIN;

/// What the callbacks get as their word.
struct Caller<'a> {
    store: &'a mut dyn KeyValue,
    /// Kept, so that it is dropped where it may unwind again.
    panic: Option<Box<dyn Any + Send>>,
}

impl Caller<'_> {
    /// Runs one callback; nothing leaves it but a number.
    fn run(&mut self, body: impl FnOnce(&mut dyn KeyValue) -> Result<(), i64>) -> i64 {
        match catch_unwind(AssertUnwindSafe(|| body(self.store))) {
            Ok(Ok(())) => 0,
            Ok(Err(0)) => -1,
            Ok(Err(code)) => code,
            Err(payload) => {
                self.panic = Some(payload);
                HOST_CODE_PANIC
            }
        }
    }
}

/// # Safety
/// `user` is the `Caller` of the join that calls; `key` ends in NUL; `value` has `bytes` bytes.
unsafe extern "C" fn put(
    user: *mut c_void,
    key: *const c_char,
    value: *const c_void,
    bytes: i64,
) -> i64 {
    let caller = &mut *user.cast::<Caller<'_>>();
    caller.run(|store| {
        let value = match bytes {
            0 => &[][..],
            _ => slice::from_raw_parts(value.cast(), bytes as usize),
        };
        store.put(&CStr::from_ptr(key).to_string_lossy(), value)
    })
}

/// # Safety
/// As `put`; `reply` is where this callback answers.
unsafe extern "C" fn get(
    user: *mut c_void,
    key: *const c_char,
    timeout_ms: i64,
    reply: *mut sys::plait_reply,
) -> i64 {
    let caller = &mut *user.cast::<Caller<'_>>();
    caller.run(|store| {
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let found = store.get(&CStr::from_ptr(key).to_string_lossy(), timeout)?;
        let value = match found {
            Some(value) => value,
            None => return Ok(()),
        };
        let (data, bytes) = (value.as_ptr().cast(), length(&value));
        match sys::plait_reply_set(reply, data, bytes, ptr::null_mut()) {
            sys::PLAIT_OK => Ok(()),
            code => Err(i64::from(code)),
        }
    })
}

/// Runs `body` with a struct that leads to `store`.
pub(crate) fn with_store<T>(
    store: &mut dyn KeyValue,
    body: impl FnOnce(*const sys::plait_kv) -> T,
) -> T {
    let mut caller = Caller { store, panic: None };
    let mut kv = sys::plait_kv::sized();
    kv.user = ptr::addr_of_mut!(caller).cast();
    kv.put = Some(put);
    kv.get = Some(get);
    body(&kv)
}
