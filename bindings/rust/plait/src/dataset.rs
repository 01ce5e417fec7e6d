//! Token files in training order.

use plait_sys as sys;

use crate::bytes::{Bytes, Tokens};
use crate::error::call;
use crate::ffi::{c_text, Sized64};
use crate::handle::Handle;
use crate::{Config, Context, DatasetInfo, Result};

/// The files of one role. Any thread may read; engines that it is attached to keep it.
pub struct Dataset(Handle<sys::plait_dataset>);

// SAFETY: every function of a data set may be called on any thread at any time.
unsafe impl Sync for Dataset {}

impl Dataset {
    /// Opens the files of `data.train` (role `train`) or `data.evaluate` (`evaluate`).
    ///
    /// # Errors
    /// `DATA_LOSS` for damaged files, `NOT_FOUND`, and `INVALID_ARGUMENT` where none is configured.
    pub fn open(context: &Context, config: &Config, role: &str) -> Result<Dataset> {
        let role = c_text(role, "role")?;
        // SAFETY: live handles, text that outlives the call, and places that are ours.
        Handle::make(|dataset, err| unsafe {
            let (context, config) = (context.raw(), config.raw());
            sys::plait_dataset_open(context, config, role.as_ptr(), dataset, err)
        })
        .map(Dataset)
    }

    /// Sizes and fingerprint.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn describe(&self) -> Result<DatasetInfo> {
        let mut raw = sys::plait_dataset_info::sized();
        // SAFETY: a live handle; the library fills the struct.
        call(|err| unsafe { sys::plait_dataset_describe(self.raw(), &mut raw, err) })?;
        Ok(raw.into())
    }

    /// Samples `first_sample` … `first_sample + count - 1` of `tokens` or `documents` in training
    /// order, `[count, sequence_length + 1]`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown name or a range that does not exist.
    pub fn read(&self, name: &str, first_sample: i64, count: i64) -> Result<Tokens> {
        let name = c_text(name, "name")?;
        // SAFETY: a live handle, text that outlives the call, and places that are ours.
        Bytes::make(|values, err| unsafe {
            sys::plait_dataset_read(self.raw(), name.as_ptr(), first_sample, count, values, err)
        })
        .map(Tokens)
    }

    pub(crate) fn raw(&self) -> *mut sys::plait_dataset {
        self.0.raw()
    }
}
