//! What an engine holds: tensors by name, checkpoints.

use std::path::Path;
use std::time::Duration;

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::{call, call_or_stop};
use crate::ffi::{c_path, c_text, length, milliseconds};
use crate::{DType, Engine, Kind, Operation, Result};

impl Engine {
    /// Copies a whole tensor, converted to `dtype`, row-major, into `data` of exactly its size. `None`
    /// only takes part. Collective.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a tensor that does not exist or another size.
    pub fn read_tensor(
        &mut self,
        name: &str,
        kind: Kind,
        dtype: DType,
        data: Option<&mut [u8]>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let (name, timeout_ms) = (c_text(name, "name")?, milliseconds(timeout));
        let (data, bytes) = match data {
            Some(data) => (data.as_mut_ptr().cast(), length(data)),
            None => (std::ptr::null_mut(), 0),
        };
        let (kind, dtype) = (kind.number(), dtype.number());
        // SAFETY: a live handle, text that outlives the call, and memory with its size.
        call(|err| unsafe {
            let (engine, name) = (self.raw(), name.as_ptr());
            sys::plait_engine_tensor_read(engine, name, kind, dtype, timeout_ms, data, bytes, err)
        })
    }

    /// [`read_tensor`](Self::read_tensor) into as many numbers as the tensor has elements.
    ///
    /// # Errors
    /// As there.
    pub fn read_tensor_f32(
        &mut self,
        name: &str,
        kind: Kind,
        values: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let bytes = std::mem::size_of_val(values);
        // SAFETY: the same memory, whose bytes may hold any bits.
        let data = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), bytes) };
        self.read_tensor(name, kind, DType::FLOAT32, Some(data), timeout)
    }

    /// Replaces a whole tensor by `data` of type `dtype`, row-major. The data of the process of rank 0
    /// counts; parameters and masters stay consistent with each other. Collective.
    ///
    /// # Errors
    /// As [`read_tensor`](Self::read_tensor).
    pub fn write_tensor(
        &mut self,
        name: &str,
        kind: Kind,
        dtype: DType,
        data: &[u8],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let (name, timeout_ms) = (c_text(name, "name")?, milliseconds(timeout));
        let (kind, dtype) = (kind.number(), dtype.number());
        let (data, bytes) = (data.as_ptr().cast(), length(data));
        // SAFETY: a live handle, text that outlives the call, and memory with its size.
        call(|err| unsafe {
            let (engine, name) = (self.raw(), name.as_ptr());
            sys::plait_engine_tensor_write(engine, name, kind, dtype, data, bytes, timeout_ms, err)
        })
    }

    /// [`write_tensor`](Self::write_tensor) from as many numbers as the tensor has elements.
    ///
    /// # Errors
    /// As there.
    pub fn write_tensor_f32(
        &mut self,
        name: &str,
        kind: Kind,
        values: &[f32],
        timeout: Option<Duration>,
    ) -> Result<()> {
        let bytes = std::mem::size_of_val(values);
        // SAFETY: the same memory, as bytes.
        let data = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), bytes) };
        self.write_tensor(name, kind, DType::FLOAT32, data, timeout)
    }

    /// Takes a snapshot and writes it as a new step of `root`; returns after the snapshot. The
    /// operation ends when the step is durable. Collective.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a step that is there; what happens to the files, the operation tells.
    pub fn save(&mut self, root: impl AsRef<Path>, timeout: Option<Duration>) -> Result<Operation> {
        let (root, timeout_ms) = (c_path(root.as_ref(), "root")?, milliseconds(timeout));
        // SAFETY: a live handle, text that outlives the call, and places that are ours.
        Operation::make(|op, err| unsafe {
            sys::plait_checkpoint_save(self.raw(), root.as_ptr(), timeout_ms, op, err)
        })
    }

    /// Loads the newest step of a root, one step, or the weights of a Hugging Face directory, whatever
    /// layout saved it. The JSON report names the step that was taken, and newer ones that were
    /// skipped, with the reason. `None`: a stop was requested, and nothing was loaded. Collective.
    ///
    /// # Errors
    /// `NOT_FOUND`; `DATA_LOSS` for damage; `FAILED_PRECONDITION` for keys that may not differ.
    pub fn load(
        &mut self,
        path: impl AsRef<Path>,
        timeout: Option<Duration>,
    ) -> Result<Option<String>> {
        let (path, timeout_ms) = (c_path(path.as_ref(), "path")?, milliseconds(timeout));
        let mut report = std::ptr::null_mut();
        // SAFETY: a live handle, text that outlives the call, and a place that is ours.
        call_or_stop(|err| unsafe {
            sys::plait_checkpoint_load(self.raw(), path.as_ptr(), timeout_ms, &mut report, err)
        })?;
        Ok(Bytes::from_raw(report).map(|report| report.to_text()))
    }
}
