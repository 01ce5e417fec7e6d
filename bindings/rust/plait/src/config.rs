//! The configuration: dotted keys to text.

use std::path::Path;

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::call;
use crate::ffi::{c_path, c_text, length, Sized64};
use crate::handle::Handle;
use crate::{Context, KeyInfo, Result};

/// Dotted keys with their values. What is made from it keeps a copy.
pub struct Config(Handle<sys::plait_config>);

impl Config {
    /// Every key at its default.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn new(context: &Context) -> Result<Config> {
        // SAFETY: a live context; the places are ours.
        Handle::make(|config, err| unsafe { sys::plait_config_create(context.raw(), config, err) })
            .map(Config)
    }

    /// Sets a key.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, word `argument`: an unknown key, with the nearest known one, or a value
    /// outside the key's range.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let (key, value) = (c_text(key, "key")?, c_text(value, "value")?);
        // SAFETY: a live handle and texts that outlive the call.
        call(|err| unsafe { sys::plait_config_set(self.raw(), key.as_ptr(), value.as_ptr(), err) })
    }

    /// Takes a key back to its default.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown key.
    pub fn reset(&mut self, key: &str) -> Result<()> {
        let key = c_text(key, "key")?;
        // SAFETY: as in `set`; a null value means the default.
        call(|err| unsafe {
            sys::plait_config_set(self.raw(), key.as_ptr(), std::ptr::null(), err)
        })
    }

    /// The effective value of a key: the one set, else the default.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown key.
    pub fn get(&self, key: &str) -> Result<String> {
        let key = c_text(key, "key")?;
        // SAFETY: a live handle, text that outlives the call, and a place that is ours.
        let value = Bytes::make(|value, err| unsafe {
            sys::plait_config_get(self.raw(), key.as_ptr(), value, err)
        })?;
        Ok(value.to_text())
    }

    /// Merges a JSON object; nested objects and dotted keys mean the same. All of it is taken or, on
    /// an error, none.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for damaged JSON, an unknown key or a value outside its range.
    pub fn load(&mut self, json: &str) -> Result<()> {
        // SAFETY: a live handle, and a payload with its length.
        call(|err| unsafe {
            sys::plait_config_load(
                self.raw(),
                json.as_ptr().cast(),
                length(json.as_bytes()),
                err,
            )
        })
    }

    /// Sets the `model.*` keys from `config.json` of a Hugging Face directory.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`, word `unsupported_model`, for what the library cannot express.
    pub fn load_hugging_face(&mut self, directory: impl AsRef<Path>) -> Result<()> {
        let directory = c_path(directory.as_ref(), "directory")?;
        // SAFETY: a live handle and text that outlives the call.
        call(|err| unsafe { sys::plait_config_load_hf(self.raw(), directory.as_ptr(), err) })
    }

    /// The keys that were set, as a JSON object of dotted keys, without `network.token`.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn to_json(&self) -> Result<String> {
        self.dump(0)
    }

    /// All keys with their effective values, as a JSON object, without `network.token`.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn to_complete_json(&self) -> Result<String> {
        self.dump(1)
    }

    fn dump(&self, is_complete: i32) -> Result<String> {
        // SAFETY: a live handle, and a place that is ours.
        let json = Bytes::make(|json, err| unsafe {
            sys::plait_config_dump(self.raw(), is_complete, json, err)
        })?;
        Ok(json.to_text())
    }

    /// Checks every rule between keys. Needs no device.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the keys that do not fit each other.
    pub fn check(&self) -> Result<()> {
        // SAFETY: a live handle.
        call(|err| unsafe { sys::plait_config_check(self.raw(), err) })
    }

    /// Describes every key that exists, in the order of the table.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn keys(&self) -> Result<Vec<KeyInfo>> {
        // SAFETY: a live handle.
        let count = unsafe { sys::plait_config_key_count(self.raw()) };
        let describe = |index| {
            let mut raw = sys::plait_key_info::sized();
            // SAFETY: a live handle; the library fills the struct, whose texts live as long as it.
            unsafe {
                call(|err| sys::plait_config_key_at(self.raw(), index, &mut raw, err))?;
                Ok(KeyInfo::copy(&raw))
            }
        };
        (0..count).map(describe).collect()
    }

    pub(crate) fn raw(&self) -> *mut sys::plait_config {
        self.0.raw()
    }
}

/// The handle of an optional configuration; null where there is none.
pub(crate) fn or_null(config: Option<&Config>) -> *const sys::plait_config {
    config.map_or(std::ptr::null(), |config| config.raw())
}
