//! Trains GPT-style Transformers inside your own program: an idiomatic layer over the C ABI of Plait.
//!
//! ```no_run
//! use plait::{Batch, Config, Context, Engine, Group, Scope};
//!
//! # fn next_rows(_: &mut [i32], _: i64) {}
//! # fn main() -> plait::Result<()> {
//! let context = Context::new()?;
//! let mut config = Config::new(&context)?;
//! config.load(r#"{"model": {"family": "gpt2", "layers": 2, "hidden": 64, "heads": 2,
//!     "vocab_size": 256, "sequence_length": 32}, "train": {"global_batch": 4}}"#)?;
//! let mut group = Group::new(&context, &config, 0, 1, 1)?;
//! let mut engine = Engine::new(&mut group, &config, None)?;
//! let mut batch = Batch::new(&engine, Scope::GLOBAL)?;
//! for _ in 0..30 {
//!     let spec = engine.batch_spec()?;
//!     let tokens = batch.map("tokens", spec.global_rows, spec.sequence_length + 1)?;
//!     next_rows(tokens, spec.first_sample); // in place, row after row
//!     let step = engine.step(Some(&batch), None)?;
//!     println!("{} {}", step.metrics().step, step.metrics().loss);
//!     if step.is_stopped() {
//!         break;
//!     }
//! }
//! engine.close(None)
//! # }
//! ```
//!
//! # Lifetimes
//! Dropping frees, at once and in any order: the library keeps what others need. [`Engine::close`] is
//! the orderly end that peers are told of. Nothing of the host's memory is kept after a call.
//!
//! # Threads
//! Every type may move to another thread. What several threads may use at once is `Sync`: [`Context`],
//! [`Dataset`], [`Tokenizer`], [`Operation`], [`Stopper`], [`Aborter`]. All else takes one call at a
//! time, which the borrow checker sees to.
//!
//! # Limits of time
//! `timeout` limits one call; `None` sets no limit of its own. The configured deadlines hold in every
//! case: no call waits for ever.
//!
//! # Errors
//! Every failure is an [`Error`] with a [`Code`], a word for programs, a message, and what it left
//! behind, its [`Disposition`]. A requested stop is no error.

#![deny(missing_docs)]

mod batch;
mod bytes;
mod checkpoint;
mod config;
mod context;
mod dataset;
mod engine;
mod engine_state;
mod error;
pub mod experimental;
mod ffi;
mod group;
mod handle;
mod info;
mod key_value;
mod number;
mod operation;
mod plan;
mod stopper;
mod tokenizer;

pub use batch::Batch;
pub use bytes::{Bytes, Tokens};
pub use checkpoint::Checkpoint;
pub use config::Config;
pub use context::Context;
pub use dataset::Dataset;
pub use engine::{Engine, Step};
pub use error::{Error, Result};
pub use group::{Aborter, Group};
pub use info::{BatchSpec, DatasetInfo, Entry, KeyInfo, Metrics};
pub use info::{PlanInfo, Progress, Property, RankInfo, TensorInfo};
pub use key_value::{KeyValue, HOST_CODE_PANIC};
pub use number::{Code, DType, Disposition, EngineState, Kind, LogLevel, OperationState, Scope};
pub use operation::Operation;
pub use plan::Plan;
pub use stopper::Stopper;
pub use tokenizer::Tokenizer;

use plait_sys as sys;

/// Version of the loaded library: `major * 1000000 + minor * 1000 + patch`.
pub fn version() -> i32 {
    // SAFETY: takes nothing.
    unsafe { sys::plait_version() }
}

/// A fact about the loaded library: `commit`, `compiler`, `features`, or `feature.<name>`, which is
/// `yes` or `not built`. `None` for a key that it does not know.
pub fn build_info(key: &str) -> Option<String> {
    let key = ffi::c_text(key, "key").ok()?;
    // SAFETY: text that outlives the call; the answer is null or static text.
    unsafe {
        let value = sys::plait_build_info(key.as_ptr());
        (!value.is_null()).then(|| ffi::text(value))
    }
}

/// Its program is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

// A change that would make misuse possible does not compile.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    const fn is_cloned<T: Send + Sync + Clone>() {}
    is_send::<Engine>();
    is_send::<Group>();
    is_send::<Config>();
    is_send::<Batch>();
    is_send::<Checkpoint>();
    is_send::<Plan>();
    is_shared::<Context>();
    is_shared::<Dataset>();
    is_shared::<Tokenizer>();
    is_shared::<Operation>();
    is_shared::<Bytes>();
    is_shared::<Tokens>();
    is_shared::<Error>();
    is_cloned::<Stopper>();
    is_cloned::<Aborter>();
};

/// `<T as IsSync<_>>::check()` compiles where `T` is not `Sync`: else two implementations would fit.
trait IsSync<Marker> {
    fn check() {}
}
impl<T: ?Sized> IsSync<()> for T {}
impl<T: ?Sized + Sync> IsSync<u8> for T {}
const _: fn() = || {
    <Engine as IsSync<_>>::check();
    <Group as IsSync<_>>::check();
    <Config as IsSync<_>>::check();
    <Batch as IsSync<_>>::check();
    <Checkpoint as IsSync<_>>::check();
};
