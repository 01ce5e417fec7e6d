//! Handles of the library: owned by one, or shared with threads that stop what runs.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::thread;

use plait_sys as sys;

use crate::error::call;
use crate::Result;

/// An opaque type of the ABI.
///
/// # Safety
/// `free` is the function of the ABI for this type, and nothing in the library ties a handle of it
/// to a thread.
pub(crate) unsafe trait Opaque {
    /// # Safety
    /// `handle` came from the library and is freed once.
    unsafe fn free(handle: *mut Self);
}

macro_rules! opaque {
    ($($name:ident $free:ident,)*) => {$(
        // SAFETY: each type with its own function.
        unsafe impl Opaque for sys::$name {
            unsafe fn free(handle: *mut Self) {
                sys::$free(handle);
            }
        }
    )*};
}

opaque! {
    plait_bytes plait_bytes_free,
    plait_context plait_context_free,
    plait_config plait_config_free,
    plait_plan plait_plan_free,
    plait_group plait_group_free,
    plait_engine plait_engine_free,
    plait_batch plait_batch_free,
    plait_dataset plait_dataset_free,
    plait_tokenizer plait_tokenizer_free,
    plait_checkpoint plait_checkpoint_free,
    plait_op plait_op_free,
}

/// Runs a call of the ABI that makes a handle.
fn make<T: Opaque>(
    body: impl FnOnce(*mut *mut T, *mut *mut sys::plait_error) -> i32,
) -> Result<NonNull<T>> {
    let mut raw = ptr::null_mut();
    call(|err| body(&mut raw, err))?;
    Ok(NonNull::new(raw).expect("a call that succeeds gives its handle"))
}

/// A handle with one owner. The library keeps the parents of what lives.
pub(crate) struct Handle<T: Opaque>(NonNull<T>);

// SAFETY: nothing in the library is tied to a thread.
unsafe impl<T: Opaque> Send for Handle<T> {}

impl<T: Opaque> Handle<T> {
    pub(crate) fn make(
        body: impl FnOnce(*mut *mut T, *mut *mut sys::plait_error) -> i32,
    ) -> Result<Handle<T>> {
        make(body).map(Handle)
    }

    /// Takes a handle that a call may have left out.
    pub(crate) fn from_raw(raw: *mut T) -> Option<Handle<T>> {
        NonNull::new(raw).map(Handle)
    }

    pub(crate) fn raw(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Opaque> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: this is the one owner.
        unsafe { T::free(self.0.as_ptr()) }
    }
}

/// A handle whose owner makes the calls, while any thread, or a signal handler, may ask them to end.
///
/// The others reach the handle through atomics alone: they announce themselves, then look whether it
/// is still there. The owner takes it away, then waits for those who came before: they make one
/// short call.
pub(crate) struct Shared<T: Opaque> {
    handle: AtomicPtr<T>,
    callers: AtomicUsize,
}

impl<T: Opaque> Shared<T> {
    pub(crate) fn make(
        body: impl FnOnce(*mut *mut T, *mut *mut sys::plait_error) -> i32,
    ) -> Result<Shared<T>> {
        let handle = AtomicPtr::new(make(body)?.as_ptr());
        Ok(Shared {
            handle,
            callers: AtomicUsize::new(0),
        })
    }

    /// For the owner, who knows that it has not retired the handle.
    pub(crate) fn raw(&self) -> *mut T {
        self.handle.load(Ordering::Relaxed)
    }

    /// Makes a short call on the handle unless it is gone. Async-signal-safe when `body` is.
    pub(crate) fn with(&self, body: impl FnOnce(*mut T)) {
        self.callers.fetch_add(1, Ordering::SeqCst);
        let handle = self.handle.load(Ordering::SeqCst);
        if !handle.is_null() {
            body(handle);
        }
        self.callers.fetch_sub(1, Ordering::SeqCst);
    }

    /// For the owner, at last: frees the handle when nobody uses it any more.
    pub(crate) fn retire(&self) {
        let handle = self.handle.swap(ptr::null_mut(), Ordering::SeqCst);
        while self.callers.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
        // SAFETY: the handle came from the library, no caller has it any more, and a second swap
        // finds null, which the library ignores.
        unsafe { T::free(handle) }
    }
}
