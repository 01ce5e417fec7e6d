//! The opaque types. Each has a function of its own that frees it, but for `plait_reply`.

use std::marker::{PhantomData, PhantomPinned};

macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident,)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            _bytes: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

opaque! {
    /// Why a call failed; immutable.
    plait_error,
    /// Bytes or text that a call gave; immutable.
    plait_bytes,
    /// Version, log; everything else hangs on one.
    plait_context,
    /// Dotted keys with their values.
    plait_config,
    /// Candidates of a layout.
    plait_plan,
    /// The processes and ranks of one run.
    plait_group,
    /// Model, optimizer and the local ranks.
    plait_engine,
    /// Tokens that the host supplies.
    plait_batch,
    /// Token files.
    plait_dataset,
    /// Text to ids and back.
    plait_tokenizer,
    /// A checkpoint, opened without an engine.
    plait_checkpoint,
    /// Work that outlives its call.
    plait_op,
    /// Exists inside a kv.get callback only.
    plait_reply,
}
