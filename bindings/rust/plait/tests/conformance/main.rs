//! What every binding of Plait passes, here through the crate `plait`.

mod errors;
mod groups;
mod lifetimes;
mod logs;
mod state;
mod support;
mod threads;
mod values;
