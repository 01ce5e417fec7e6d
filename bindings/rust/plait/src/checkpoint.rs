//! Checkpoints read without an engine.

use std::path::Path;
use std::slice;

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::config::or_null;
use crate::error::call;
use crate::ffi::{c_path, c_text, Sized64};
use crate::handle::Handle;
use crate::{Config, Context, Entry, Kind, Operation, Result};

/// A checkpoint root (its newest step), one step, or a Hugging Face directory, open for reading.
/// Engines save and load by [`Engine::save`](crate::Engine::save) and
/// [`Engine::load`](crate::Engine::load).
pub struct Checkpoint(Handle<sys::plait_checkpoint>);

impl Checkpoint {
    /// Opens it without engine or device.
    ///
    /// # Errors
    /// `NOT_FOUND`, or `DATA_LOSS` with file and offset of the damage.
    pub fn open(context: &Context, path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = c_path(path.as_ref(), "path")?;
        // SAFETY: a live context, text that outlives the call, and places that are ours.
        Handle::make(|checkpoint, err| unsafe {
            sys::plait_checkpoint_open(context.raw(), path.as_ptr(), checkpoint, err)
        })
        .map(Checkpoint)
    }

    /// JSON about the steps under a root.
    ///
    /// # Errors
    /// `NOT_FOUND` where there is no root.
    pub fn list(context: &Context, root: impl AsRef<Path>) -> Result<String> {
        let root = c_path(root.as_ref(), "root")?;
        // SAFETY: a live context, text that outlives the call, and places that are ours.
        let report = Bytes::make(|report, err| unsafe {
            sys::plait_checkpoint_list(context.raw(), root.as_ptr(), report, err)
        })?;
        Ok(report.to_text())
    }

    /// JSON about what is open: format, step, model, layout, optimizer, data position, digests, as
    /// far as the format has them.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn report(&self) -> Result<String> {
        // SAFETY: a live handle; the places are ours.
        let report = Bytes::make(|report, err| unsafe {
            sys::plait_checkpoint_report(self.0.raw(), report, err)
        })?;
        Ok(report.to_text())
    }

    /// Number of entries.
    pub fn entry_count(&self) -> i64 {
        // SAFETY: a live handle.
        unsafe { sys::plait_checkpoint_entry_count(self.0.raw()) }
    }

    /// Describes entry `index`: tensors in name and kind order, then properties.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an index that does not exist.
    pub fn entry(&self, index: i64) -> Result<Entry> {
        let mut raw = sys::plait_entry_info::sized();
        // SAFETY: a live handle; the library fills the struct, whose texts live as long as it.
        unsafe {
            call(|err| sys::plait_checkpoint_entry_at(self.0.raw(), index, &mut raw, err))?;
            Ok(Entry::copy(&raw))
        }
    }

    /// Describes every entry.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        (0..self.entry_count())
            .map(|index| self.entry(index))
            .collect()
    }

    /// Says whether the storage is trusted: whether later [`map`](Self::map) calls may show the file
    /// itself (key `checkpoint.mmap`) instead of a copy.
    ///
    /// # Errors
    /// Only when memory runs out.
    ///
    /// # Safety
    /// While a tensor is mapped nobody changes or shortens the files: bytes behind a shared slice
    /// would change, or reading them would end the process.
    pub unsafe fn trust_storage(&mut self, is_trusted: bool) -> Result<()> {
        let value: &[u8] = if is_trusted { b"true\0" } else { b"false\0" };
        let (key, value) = (b"checkpoint.mmap\0".as_ptr().cast(), value.as_ptr().cast());
        call(|err| sys::plait_checkpoint_set(self.0.raw(), key, value, err))
    }

    /// One whole tensor, verified, row-major, in the stored type. It stays in memory until the
    /// checkpoint is dropped.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` where there is no such tensor, `DATA_LOSS` for damage.
    pub fn map(&self, name: &str, kind: Kind) -> Result<&[u8]> {
        let name = c_text(name, "name")?;
        let (mut data, mut bytes) = (std::ptr::null(), 0);
        // SAFETY: a live handle, text that outlives the call, and places that are ours.
        call(|err| unsafe {
            let (name, kind) = (name.as_ptr(), kind.number());
            sys::plait_checkpoint_map(self.0.raw(), name, kind, &mut data, &mut bytes, err)
        })?;
        if data.is_null() {
            return Ok(&[]);
        }
        // SAFETY: so many bytes, which live as long as the handle and are written by nobody.
        Ok(unsafe { slice::from_raw_parts(data.cast(), bytes as usize) })
    }

    /// Reads and checks everything; with `is_full` gaps and unread parts too.
    ///
    /// # Errors
    /// The operation ends as `DATA_LOSS`, with all damage in the details.
    pub fn verify(&self, is_full: bool) -> Result<Operation> {
        let is_full = i32::from(is_full);
        // SAFETY: a live handle; the places are ours.
        Operation::make(|op, err| unsafe {
            sys::plait_checkpoint_verify(self.0.raw(), is_full, op, err)
        })
    }

    /// Writes what is open as a checkpoint under `root`, in the layout of `layout`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a layout that does not fit; the rest, the operation tells.
    pub fn convert(&self, layout: &Config, root: impl AsRef<Path>) -> Result<Operation> {
        let root = c_path(root.as_ref(), "root")?;
        // SAFETY: live handles, text that outlives the call, and places that are ours.
        Operation::make(|op, err| unsafe {
            sys::plait_checkpoint_convert(self.0.raw(), layout.raw(), root.as_ptr(), op, err)
        })
    }

    /// Writes a Hugging Face directory by keys `export.*` of `options`; it appears whole or not at
    /// all.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for a model that has no such form; the rest, the operation tells.
    pub fn export_hugging_face(
        &self,
        options: Option<&Config>,
        directory: impl AsRef<Path>,
    ) -> Result<Operation> {
        let path = c_path(directory.as_ref(), "directory")?;
        // SAFETY: live handles, text that outlives the call, and places that are ours.
        Operation::make(|op, err| unsafe {
            let options = or_null(options);
            sys::plait_checkpoint_export_hf(self.0.raw(), options, path.as_ptr(), op, err)
        })
    }
}
