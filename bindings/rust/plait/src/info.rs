//! What the library tells in structs: plain values, copied.

use plait_sys as sys;

use crate::ffi::text;
use crate::{DType, Kind, OperationState};

/// A struct with the fields of one of the ABI, under the same names.
macro_rules! mirror {
    (
        $(#[$meta:meta])*
        $name:ident of $raw:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl From<sys::$raw> for $name {
            fn from(raw: sys::$raw) -> Self {
                $name { $($field: raw.$field,)* }
            }
        }
    };
}

mirror! {
    /// What one call on an engine measured. Counts are of the whole group, seconds are wall time.
    Metrics of plait_metrics {
        /// Which groups of fields are filled; [`has_step`](Self::has_step) and the like read it.
        valid: i64,
        /// The first is 1.
        step: i64,
        /// Sequences since the run began.
        samples_total: i64,
        /// Tokens since the run began.
        tokens_total: i64,
        /// Steps whose update was not applied.
        skipped_total: i64,
        /// Tokens since the last update, those of this call included.
        tokens: i64,
        /// The unmasked targets among them.
        targets: i64,
        /// 1: the update was not applied.
        skipped: i64,
        /// Mean negative log-likelihood per target, in nats.
        loss: f64,
        /// Norm of the gradient before clipping.
        grad_norm: f64,
        /// Learning rate used in this step.
        lr: f64,
        /// Factor on the loss in this step; 1 where there is none.
        loss_scale: f64,
        /// Of the whole call.
        step_seconds: f64,
        /// Of the whole group.
        tokens_per_second: f64,
        /// Of the whole group, by the model's formula.
        model_flops_per_second: f64,
        /// Forward passes; this and the next five: mean over local ranks.
        forward_seconds: f64,
        /// Backward passes.
        backward_seconds: f64,
        /// Communication not hidden behind compute.
        communication_seconds: f64,
        /// The update.
        optimizer_seconds: f64,
        /// Waiting for other stages.
        bubble_seconds: f64,
        /// Reading and copying tokens.
        data_seconds: f64,
        /// Bytes of the largest local rank.
        memory_bytes: i64,
        /// Most bytes of the largest local rank since the engine was made.
        memory_peak_bytes: i64,
        /// Rank whose copies differ; −1: none.
        diverged_rank: i64,
    }
}

impl Metrics {
    fn has(&self, bit: i32) -> bool {
        self.valid & i64::from(bit) != 0
    }

    /// `step` … `loss_scale` are filled; they are equal in every process.
    pub fn has_step(&self) -> bool {
        self.has(sys::PLAIT_METRICS_STEP)
    }

    /// `step_seconds` … `data_seconds` are filled.
    pub fn has_time(&self) -> bool {
        self.has(sys::PLAIT_METRICS_TIME)
    }

    /// `memory_bytes` and `memory_peak_bytes` are filled.
    pub fn has_memory(&self) -> bool {
        self.has(sys::PLAIT_METRICS_MEMORY)
    }

    /// `diverged_rank` is filled: this step compared replicas.
    pub fn has_replicas(&self) -> bool {
        self.has(sys::PLAIT_METRICS_REPLICAS)
    }
}

mirror! {
    /// What the next step wants to be fed.
    BatchSpec of plait_batch_spec {
        /// Sequences of the whole step.
        global_rows: i64,
        /// Rows of a `LOCAL` batch.
        local_rows: i64,
        /// Runs of global rows that make up a `LOCAL` batch.
        span_count: i64,
        /// Inputs of a row; with its last target a row has one token more.
        sequence_length: i64,
        /// Tokens are 0 … `vocab_size` − 1.
        vocab_size: i64,
        /// Sample index of global row 0.
        first_sample: i64,
        /// What this process must supply, see [`needs_tokens`](Self::needs_tokens) and the like.
        needs: i64,
    }
}

impl BatchSpec {
    fn needs(&self, flag: i32) -> bool {
        self.needs & i64::from(flag) != 0
    }

    /// This process must supply `tokens`.
    pub fn needs_tokens(&self) -> bool {
        self.needs(sys::PLAIT_NEEDS_TOKENS)
    }

    /// This process must supply `targets`, where targets are given at all.
    pub fn needs_targets(&self) -> bool {
        self.needs(sys::PLAIT_NEEDS_TARGETS)
    }

    /// This process must supply `documents`, where they are used.
    pub fn needs_documents(&self) -> bool {
        self.needs(sys::PLAIT_NEEDS_DOCUMENTS)
    }
}

mirror! {
    /// What the files of a data set hold.
    DatasetInfo of plait_dataset_info {
        /// Tokens in all files of the role.
        tokens: i64,
        /// Documents in all files of the role.
        documents: i64,
        /// Samples of one epoch.
        samples: i64,
        /// Tokens of a sample, without the one after it.
        sequence_length: i64,
        /// Of content and order of the files; compared on resume.
        fingerprint: i64,
    }
}

mirror! {
    /// One rank of a candidate: its coordinates and what it holds and does.
    RankInfo of plait_rank_info {
        /// Coordinate on the tensor axis.
        tensor: i64,
        /// Coordinate on the pipeline axis.
        pipeline: i64,
        /// Coordinate on the data axis.
        data: i64,
        /// Parameters and masters.
        weight_bytes: i64,
        /// Gradients.
        gradient_bytes: i64,
        /// Moments.
        optimizer_bytes: i64,
        /// Saved state of micro-batches.
        activation_bytes: i64,
        /// Buffers for other ranks.
        communication_bytes: i64,
        /// Scratch memory.
        workspace_bytes: i64,
        /// Of one optimizer step.
        compute_seconds: f64,
        /// Of one optimizer step.
        communication_seconds: f64,
        /// Share of the step spent waiting for other stages.
        bubble_share: f64,
    }
}

/// One candidate of a plan.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanInfo {
    /// False: `reason` says why not.
    pub is_feasible: bool,
    /// `layout.tensor`.
    pub tensor: i64,
    /// `layout.pipeline`.
    pub pipeline: i64,
    /// `layout.data`.
    pub data: i64,
    /// `layout.interleave`.
    pub interleave: i64,
    /// `layout.zero`.
    pub zero: i64,
    /// `layout.micro_batch`.
    pub micro_batch: i64,
    /// What the largest rank needs.
    pub memory_bytes: i64,
    /// What the largest rank has.
    pub memory_limit_bytes: i64,
    /// Of one optimizer step.
    pub step_seconds: f64,
    /// Of the whole group.
    pub tokens_per_second: f64,
    /// Share of the step spent waiting for other stages.
    pub bubble_share: f64,
    /// Floating-point operations of the model as a share of the peak.
    pub model_flops_share: f64,
    /// Why it was rejected, empty when it was not.
    pub reason: String,
}

impl PlanInfo {
    /// # Safety
    /// The library filled `raw`, and the plan lives.
    pub(crate) unsafe fn copy(raw: &sys::plait_plan_info) -> Self {
        PlanInfo {
            is_feasible: raw.is_feasible != 0,
            tensor: raw.tensor,
            pipeline: raw.pipeline,
            data: raw.data,
            interleave: raw.interleave,
            zero: raw.zero,
            micro_batch: raw.micro_batch,
            memory_bytes: raw.memory_bytes,
            memory_limit_bytes: raw.memory_limit_bytes,
            step_seconds: raw.step_seconds,
            tokens_per_second: raw.tokens_per_second,
            bubble_share: raw.bubble_share,
            model_flops_share: raw.model_flops_share,
            reason: text(raw.reason),
        }
    }
}

/// One configuration key. Absent limits are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Dotted name.
    pub key: String,
    /// `integer`, `real`, …
    pub kind: String,
    /// Empty where the key must be set or is empty.
    pub default_value: String,
    /// Least value.
    pub minimum: String,
    /// Greatest value.
    pub maximum: String,
    /// Words separated by commas, empty when any text will do.
    pub choices: String,
    /// `ms`, `bytes`, …
    pub unit: String,
    /// What the key means, one sentence.
    pub doc: String,
    /// `same`, `ask` or `free`: may it differ when a run is resumed.
    pub resume: String,
    /// [`Engine::set`](crate::Engine::set) takes it.
    pub is_mutable: bool,
    /// May differ between processes.
    pub is_local: bool,
    /// For hosts; the engine does not read it.
    pub is_for_hosts: bool,
}

impl KeyInfo {
    /// # Safety
    /// The library filled `raw`, and the configuration lives.
    pub(crate) unsafe fn copy(raw: &sys::plait_key_info) -> Self {
        let has = |flag: i32| raw.flags & i64::from(flag) != 0;
        KeyInfo {
            key: text(raw.key),
            kind: text(raw.r#type),
            default_value: text(raw.default_value),
            minimum: text(raw.minimum),
            maximum: text(raw.maximum),
            choices: text(raw.choices),
            unit: text(raw.unit),
            doc: text(raw.doc),
            resume: text(raw.resume),
            is_mutable: has(sys::PLAIT_KEY_MUTABLE),
            is_local: has(sys::PLAIT_KEY_LOCAL),
            is_for_hosts: has(sys::PLAIT_KEY_HOST),
        }
    }
}

/// A named value of the host that goes into checkpoints.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Property {
    /// A whole number.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// Text of at most 64 KiB.
    Text(String),
    /// A type that this version of the crate does not know, by its number.
    Other(i64),
}

/// One kind of values of a logical tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Name of the logical tensor.
    pub name: String,
    /// Which of its values.
    pub kind: Kind,
    /// Type of the elements.
    pub dtype: DType,
    /// Outermost dimension first.
    pub shape: Vec<i64>,
    /// Product of the shape.
    pub elements: i64,
    /// Of all elements, equal in every layout; checkpoints alone have it.
    pub digest: Option<i64>,
}

impl TensorInfo {
    /// # Safety
    /// The library filled `raw` about a tensor, and what it was asked from lives.
    pub(crate) unsafe fn copy(raw: &sys::plait_entry_info) -> Self {
        let shapes = [raw.shape0, raw.shape1, raw.shape2, raw.shape3];
        let has_digest = raw.valid & i64::from(sys::PLAIT_ENTRY_DIGEST) != 0;
        TensorInfo {
            name: text(raw.name),
            kind: Kind::from_number(raw.kind as i32),
            dtype: DType::from_number(raw.dtype as i32),
            shape: shapes[..raw.dims.clamp(0, 4) as usize].to_vec(),
            elements: raw.elements,
            digest: Some(raw.digest).filter(|_| has_digest),
        }
    }
}

/// What stands under one index of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// One kind of values of a logical tensor.
    Tensor(TensorInfo),
    /// A property of the host: its name and value.
    Property(String, Property),
}

impl Entry {
    /// # Safety
    /// The library filled `raw`, and the checkpoint lives.
    pub(crate) unsafe fn copy(raw: &sys::plait_entry_info) -> Self {
        if raw.valid & i64::from(sys::PLAIT_ENTRY_PROPERTY) == 0 {
            return Entry::Tensor(TensorInfo::copy(raw));
        }
        let value = match i32::try_from(raw.r#type) {
            Ok(sys::PLAIT_PROPERTY_INTEGER) => Property::Integer(raw.integer),
            Ok(sys::PLAIT_PROPERTY_REAL) => Property::Real(raw.real),
            Ok(sys::PLAIT_PROPERTY_TEXT) => Property::Text(text(raw.text)),
            _ => Property::Other(raw.r#type),
        };
        Entry::Property(text(raw.name), value)
    }
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How it stands.
    pub state: OperationState,
    /// Bytes written or read so far.
    pub done_bytes: i64,
    /// 0: not known yet.
    pub total_bytes: i64,
}

impl From<sys::plait_progress> for Progress {
    fn from(raw: sys::plait_progress) -> Self {
        Progress {
            state: OperationState::from_number(raw.state as i32),
            done_bytes: raw.done_bytes,
            total_bytes: raw.total_bytes,
        }
    }
}
