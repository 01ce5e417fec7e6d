//! The C ABI of Plait, declaration for declaration: opaque types, sized structs, constants instead of
//! enums, functions. The crate `plait` makes safe Rust of it.
//!
//! Nothing is hidden and nothing added. A test compares all of it with the installed header: sizes,
//! offsets, values, the type of each field, the signature of each function.
//!
//! What the threads tag of a function means: `A`, any thread at any time, also during another call on
//! the handle; `1`, one call at a time on the handle; `C`, as `1`, and every process of the group makes
//! the same calls in the same order.

#![allow(non_camel_case_types)]
#![deny(missing_docs)]

mod checkpoint;
mod constants;
mod context;
mod data;
mod engine;
pub mod experimental;
mod group;
mod handles;
mod library;
mod structs;

pub use checkpoint::*;
pub use constants::*;
pub use context::*;
pub use data::*;
pub use engine::*;
pub use group::*;
pub use handles::*;
pub use library::*;
pub use structs::*;
