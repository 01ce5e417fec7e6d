//! The engine: trains, evaluates, generates.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use plait_sys as sys;

use crate::bytes::{Bytes, Tokens};
use crate::error::{call, call_or_stop};
use crate::ffi::{c_text, length, milliseconds, Sized64};
use crate::handle::Shared;
use crate::{Batch, BatchSpec, Config, Dataset, Group, Metrics, Result};
use crate::{EngineState, Property, Stopper, TensorInfo};

/// What a step came to. Either way it was done, and the metrics are those of the step.
#[must_use = "a step may say that a stop is due"]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Go on.
    Done(Metrics),
    /// A stop was requested, here or in another process: all stop after this very step. The state can
    /// be saved; another step would train on.
    Stopped(Metrics),
}

impl Step {
    /// What the step measured.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Step::Done(metrics) | Step::Stopped(metrics) => metrics,
        }
    }

    /// A stop is due.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Step::Stopped(_))
    }
}

/// Model, optimizer and the local ranks: one for each group.
///
/// Calls block until they are done, one at a time: an engine may move to another thread, but two
/// threads cannot use it at once. Another thread or a signal handler ends what runs by a
/// [`Stopper`]. Calls said to be collective are made by every process of the group in the same order.
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<plait::Engine>();
/// ```
pub struct Engine {
    pub(crate) shared: Arc<Shared<sys::plait_engine>>,
    /// One call at a time.
    _not_sync: PhantomData<Cell<()>>,
}

impl Engine {
    /// Builds model, optimizer state and all working memory, and draws the weights from the seed.
    /// Collective; `config` is compared across processes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for keys that do not fit each other, `FAILED_PRECONDITION` for a group that
    /// has an engine already or processes that differ, `RESOURCE_EXHAUSTED` when memory runs out.
    pub fn new(group: &mut Group, config: &Config, timeout: Option<Duration>) -> Result<Engine> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: live handles; the places are ours.
        let shared = Shared::make(|engine, err| unsafe {
            sys::plait_engine_create(group.raw(), config.raw(), timeout_ms, engine, err)
        })?;
        Ok(Engine {
            shared: Arc::new(shared),
            _not_sync: PhantomData,
        })
    }

    /// What stops this engine from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper::new(&self.shared)
    }

    /// What it is ready for.
    pub fn state(&self) -> EngineState {
        // SAFETY: a live handle.
        EngineState::from_number(unsafe { sys::plait_engine_state(self.raw()) })
    }

    /// Rows, lengths and needs of the next step's batch.
    ///
    /// # Errors
    /// `ABORTED` once the engine is lost.
    pub fn batch_spec(&self) -> Result<BatchSpec> {
        let mut raw = sys::plait_batch_spec::sized();
        // SAFETY: a live handle; the library fills the struct.
        call(|err| unsafe { sys::plait_engine_batch_spec(self.raw(), &mut raw, err) })?;
        Ok(raw.into())
    }

    /// The rows of a global batch of `global_rows` that this process supplies in a `LOCAL` batch, in
    /// their order there.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a number of rows that the layout cannot cut.
    pub fn batch_spans(&self, global_rows: i64) -> Result<Vec<Range<i64>>> {
        let span = |index| {
            let (mut first, mut count) = (0, 0);
            // SAFETY: a live handle; the places are ours.
            call(|err| unsafe {
                let (first, count) = (&mut first, &mut count);
                sys::plait_engine_batch_span(self.raw(), global_rows, index, first, count, err)
            })?;
            Ok(first..first + count)
        };
        (0..self.batch_spec()?.span_count).map(span).collect()
    }

    /// One whole optimizer step, on `batch` or, without one, on the next batch of the attached
    /// `train` data set. Collective.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a batch that does not fit, with place and value; nothing happened.
    /// `PEER_LOST`, `ABORTED`, `DEADLINE_EXCEEDED`: see the disposition.
    pub fn step(&mut self, batch: Option<&Batch>, timeout: Option<Duration>) -> Result<Step> {
        let (batch, timeout_ms) = (batch_or_null(batch), milliseconds(timeout));
        // SAFETY: live handles; the library fills the struct.
        step(|raw, err| unsafe { sys::plait_engine_step(self.raw(), batch, timeout_ms, raw, err) })
    }

    /// Adds the gradients of a batch to those since the last update. Any cut of a batch into such
    /// calls equals one step on the whole. Collective.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn forward_backward(&mut self, batch: &Batch, timeout: Option<Duration>) -> Result<Step> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: live handles; the library fills the struct.
        step(|raw, err| unsafe {
            sys::plait_engine_forward_backward(self.raw(), batch.raw(), timeout_ms, raw, err)
        })
    }

    /// Divides the gradients by the targets since the last update, clips, updates the weights,
    /// clears. Collective.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn optimizer_step(&mut self, timeout: Option<Duration>) -> Result<Step> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle; the library fills the struct.
        step(|raw, err| unsafe {
            sys::plait_engine_optimizer_step(self.raw(), timeout_ms, raw, err)
        })
    }

    /// Loss alone, without dropout and without effect: of `batch` or, without one, of
    /// `evaluate.batches` batches of the attached `evaluate` data set. `None`: a stop was requested.
    /// Collective.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn evaluate(
        &mut self,
        batch: Option<&Batch>,
        timeout: Option<Duration>,
    ) -> Result<Option<Metrics>> {
        let (batch, timeout_ms) = (batch_or_null(batch), milliseconds(timeout));
        // SAFETY: live handles; the library fills the struct.
        let step = step(|raw, err| unsafe {
            sys::plait_engine_evaluate(self.raw(), batch, timeout_ms, raw, err)
        })?;
        Ok(Some(*step.metrics()).filter(|_| !step.is_stopped()))
    }

    /// Negative log-likelihood of each target, `[rows, sequence_length]` into `losses`, which has
    /// exactly that many elements; 0 where the target is ignored. False: a stop was requested, and
    /// `losses` is as it was. Collective.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn score(
        &mut self,
        batch: &Batch,
        losses: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let timeout_ms = milliseconds(timeout);
        let (data, bytes) = (losses.as_mut_ptr().cast(), 4 * length(losses));
        // SAFETY: live handles, and memory with its size.
        let is_stopped = call_or_stop(|err| unsafe {
            sys::plait_engine_score(self.raw(), batch.raw(), timeout_ms, data, bytes, err)
        })?;
        Ok(!is_stopped)
    }

    /// Continues `prompt` with the current weights and keys `generate.*`: at most `max_tokens` new
    /// ids. `None`: a stop was requested. Collective.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an empty prompt or ids outside the vocabulary.
    pub fn generate(
        &mut self,
        prompt: &[i32],
        max_tokens: i64,
        timeout: Option<Duration>,
    ) -> Result<Option<Tokens>> {
        let (ids, count, timeout_ms) = (prompt.as_ptr(), length(prompt), milliseconds(timeout));
        let mut tokens = std::ptr::null_mut();
        // SAFETY: a live handle, ids with their number, and a place that is ours.
        call_or_stop(|err| unsafe {
            let engine = self.raw();
            sys::plait_engine_generate(engine, ids, count, max_tokens, timeout_ms, &mut tokens, err)
        })?;
        Ok(Bytes::from_raw(tokens).map(Tokens))
    }

    /// Makes a data set the source of steps (role `train`) or evaluations (`evaluate`) without a
    /// batch; `None` detaches. The engine keeps it. Collective.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for another role, `FAILED_PRECONDITION` where processes differ.
    pub fn attach_dataset(
        &mut self,
        role: &str,
        dataset: Option<&Dataset>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let (role, timeout_ms) = (c_text(role, "role")?, milliseconds(timeout));
        let dataset = dataset.map_or(std::ptr::null_mut(), |dataset| dataset.raw());
        // SAFETY: live handles, and text that outlives the call.
        call(|err| unsafe {
            let role = role.as_ptr();
            sys::plait_engine_attach_dataset(self.raw(), role, dataset, timeout_ms, err)
        })
    }

    /// Sets a key that may change at run time; `None` is its default. It takes effect when the next
    /// step, save or load opens. The same call in every process.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a key that may not change, or a value outside its range.
    pub fn set(&mut self, key: &str, value: Option<&str>) -> Result<()> {
        let key = c_text(key, "key")?;
        let value = value.map(|value| c_text(value, "value")).transpose()?;
        let value = value
            .as_ref()
            .map_or(std::ptr::null(), |value| value.as_ptr());
        // SAFETY: a live handle, and texts that outlive the call.
        call(|err| unsafe { sys::plait_engine_set(self.raw(), key.as_ptr(), value, err) })
    }

    /// Sets a named value that goes into checkpoints. Names are `[a-z0-9_.-]{1,128}`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for another name, text that is too long, or [`Property::Other`].
    pub fn set_property(&mut self, name: &str, value: &Property) -> Result<()> {
        let name = c_text(name, "name")?;
        let (mut integer, mut real, mut text) = (0, 0.0, c_text("", "text")?);
        let kind = match value {
            Property::Integer(value) => {
                integer = *value;
                sys::PLAIT_PROPERTY_INTEGER
            }
            Property::Real(value) => {
                real = *value;
                sys::PLAIT_PROPERTY_REAL
            }
            Property::Text(value) => {
                text = c_text(value.as_str(), "text")?;
                sys::PLAIT_PROPERTY_TEXT
            }
            Property::Other(number) => i32::try_from(*number).unwrap_or(-1),
        };
        // SAFETY: a live handle, and texts that outlive the call.
        call(|err| unsafe {
            let (name, text) = (name.as_ptr(), text.as_ptr());
            sys::plait_engine_set_property(self.raw(), name, kind, integer, real, text, err)
        })
    }

    /// A counter of report `counters`. Answers also after the engine is lost.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a name that does not exist.
    pub fn counter(&self, name: &str) -> Result<f64> {
        let name = c_text(name, "name")?;
        let mut value = 0.0;
        // SAFETY: a live handle, text that outlives the call, and a place that is ours.
        call(|err| unsafe {
            sys::plait_engine_counter(self.raw(), name.as_ptr(), &mut value, err)
        })?;
        Ok(value)
    }

    /// JSON about `config`, `ranks`, `kernels`, `memory`, `schedule`, `counters`, `properties`,
    /// `operations` or `trace`. Answers also after the engine is lost.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for another kind.
    pub fn report(&self, kind: &str) -> Result<String> {
        let kind = c_text(kind, "kind")?;
        self.text(|report, err| {
            // SAFETY: a live handle, text that outlives the call, and places that are ours.
            unsafe { sys::plait_engine_report(self.raw(), kind.as_ptr(), report, err) }
        })
    }

    /// Describes every (logical tensor, kind), in name and kind order, equal in every process.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn tensors(&self) -> Result<Vec<TensorInfo>> {
        // SAFETY: a live handle.
        let count = unsafe { sys::plait_engine_tensor_count(self.raw()) };
        let describe = |index| {
            let mut raw = sys::plait_entry_info::sized();
            // SAFETY: a live handle; the library fills the struct, whose texts live as long as it.
            unsafe {
                call(|err| sys::plait_engine_tensor_at(self.raw(), index, &mut raw, err))?;
                Ok(TensorInfo::copy(&raw))
            }
        };
        (0..count).map(describe).collect()
    }

    fn text(
        &self,
        body: impl FnOnce(*mut *mut sys::plait_bytes, *mut *mut sys::plait_error) -> i32,
    ) -> Result<String> {
        Ok(Bytes::make(body)?.to_text())
    }

    /// Orderly end: saves finish or are given up by the deadline, peers see no loss. Collective. The
    /// engine is freed, also on an error.
    ///
    /// ```compile_fail,E0382
    /// fn twice(engine: plait::Engine) {
    ///     engine.close(None).unwrap();
    ///     engine.close(None).unwrap();
    /// }
    /// ```
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` where saves were given up or peers did not come.
    pub fn close(self, timeout: Option<Duration>) -> Result<()> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle.
        call(|err| unsafe { sys::plait_engine_close(self.raw(), timeout_ms, err) })
    }

    pub(crate) fn raw(&self) -> *mut sys::plait_engine {
        self.shared.raw()
    }
}

impl Drop for Engine {
    /// Frees it: waits for no peer, which sees this process as lost unless the engine was closed.
    fn drop(&mut self) {
        self.shared.retire();
    }
}

/// Runs a call that fills metrics.
fn step(
    body: impl FnOnce(*mut sys::plait_metrics, *mut *mut sys::plait_error) -> i32,
) -> Result<Step> {
    let mut raw = sys::plait_metrics::sized();
    let is_stopped = call_or_stop(|err| body(&mut raw, err))?;
    Ok(if is_stopped {
        Step::Stopped(raw.into())
    } else {
        Step::Done(raw.into())
    })
}

fn batch_or_null(batch: Option<&Batch>) -> *const sys::plait_batch {
    batch.map_or(std::ptr::null(), |batch| batch.raw())
}
