//! Batches: int32, row-major.

use std::slice;

use plait_sys as sys;

use crate::error::call;
use crate::ffi::{c_text, length};
use crate::handle::Handle;
use crate::{Engine, Error, Result, Scope};

/// Tokens that the host supplies to one engine. A call of the engine copies what it reads: the batch
/// may be changed or dropped as soon as the call has returned.
///
/// `tokens` has the shape `[rows, sequence_length + 1]`: inputs, and the target of the last one. With
/// `targets` `[rows, sequence_length]` (−1: ignored) `tokens` has that shape too. `documents` has the
/// shape of `tokens`. Values are checked when the batch is used.
///
/// A batch keeps its engine's memory. Drop it before another engine of the same group is made.
pub struct Batch(Handle<sys::plait_batch>);

impl Batch {
    /// An empty batch for `engine`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a scope that the library does not know.
    pub fn new(engine: &Engine, scope: Scope) -> Result<Batch> {
        // SAFETY: a live engine; the places are ours.
        Handle::make(|batch, err| unsafe {
            sys::plait_batch_create(engine.raw(), scope.number(), batch, err)
        })
        .map(Batch)
    }

    /// Copies the values of a tensor, whose number of columns follows from that of `rows`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown name, no rows, or values that do not fill them.
    pub fn set(&mut self, name: &str, values: &[i32], rows: i64) -> Result<()> {
        let name = c_text(name, "name")?;
        if rows < 1 || length(values) % rows != 0 {
            return Err(Error::argument("the values do not fill the rows", "values"));
        }
        let columns = length(values) / rows;
        // SAFETY: a live handle, text and values that outlive the call, and their number.
        call(|err| unsafe {
            let (name, values) = (name.as_ptr(), values.as_ptr());
            sys::plait_batch_set(self.raw(), name, values, rows, columns, err)
        })
    }

    /// Takes a tensor out of the batch.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown name.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        let name = c_text(name, "name")?;
        // SAFETY: a live handle and text that outlives the call; null values remove the tensor.
        call(|err| unsafe {
            sys::plait_batch_set(self.raw(), name.as_ptr(), std::ptr::null(), 0, 0, err)
        })
    }

    /// The batch's own memory for a tensor of `rows` and `columns`, row-major and 64-byte aligned, to
    /// be filled in place. It keeps its content until the shape changes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown name or a shape without elements, `RESOURCE_EXHAUSTED` for
    /// one that is too large.
    pub fn map(&mut self, name: &str, rows: i64, columns: i64) -> Result<&mut [i32]> {
        let name = c_text(name, "name")?;
        let mut values = std::ptr::null_mut();
        // SAFETY: a live handle, text that outlives the call, and a place that is ours.
        call(|err| unsafe {
            sys::plait_batch_map(self.raw(), name.as_ptr(), rows, columns, &mut values, err)
        })?;
        // SAFETY: initialized memory of rows · columns values, which stays until the next change of
        // the batch; that needs the borrow to have ended.
        Ok(unsafe { slice::from_raw_parts_mut(values, (rows * columns) as usize) })
    }

    pub(crate) fn raw(&self) -> *mut sys::plait_batch {
        self.0.raw()
    }
}
