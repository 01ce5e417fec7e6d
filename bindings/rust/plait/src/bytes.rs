//! Bytes and ids that the library made, read in place.

use std::fmt;
use std::ops::Deref;
use std::slice;

use plait_sys as sys;

use crate::handle::Handle;
use crate::Result;

/// Immutable bytes of the library, read where they are. They outlive what they came from.
pub struct Bytes(Handle<sys::plait_bytes>);

// SAFETY: immutable, and every getter may be called on any thread.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) fn make(
        body: impl FnOnce(*mut *mut sys::plait_bytes, *mut *mut sys::plait_error) -> i32,
    ) -> Result<Bytes> {
        Handle::make(body).map(Bytes)
    }

    pub(crate) fn from_raw(raw: *mut sys::plait_bytes) -> Option<Bytes> {
        Handle::from_raw(raw).map(Bytes)
    }

    /// A copy as text; the library writes UTF-8.
    pub(crate) fn to_text(&self) -> String {
        String::from_utf8_lossy(self).into_owned()
    }

    /// All of it as elements of `T`, which is u8 or i32.
    fn elements<T>(&self) -> &[T] {
        // SAFETY: the memory is the handle's, immutable, aligned to 8 bytes and as long as it says;
        // any bits are a value of T.
        unsafe {
            let data = sys::plait_bytes_data(self.0.raw()).cast::<T>();
            let bytes = sys::plait_bytes_size(self.0.raw()) as usize;
            if data.is_null() {
                return &[];
            }
            slice::from_raw_parts(data, bytes / std::mem::size_of::<T>())
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.elements()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// Immutable token ids of the library, read where they are.
pub struct Tokens(pub(crate) Bytes);

impl Deref for Tokens {
    type Target = [i32];

    fn deref(&self) -> &[i32] {
        self.0.elements()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}
