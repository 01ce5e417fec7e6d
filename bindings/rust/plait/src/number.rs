//! The enumerations of the ABI: numbers with names, since a newer library may answer others.

use std::ffi::CStr;
use std::fmt;

use plait_sys as sys;

/// A type over `i32` with a constant for each known number. `Debug` prints its name.
macro_rules! numbers {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$doc:meta])* $constant:ident = $value:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(i32);

        impl $name {
            $($(#[$doc])* pub const $constant: $name = $name(sys::$value);)*

            /// Any number, also one that this version of the crate does not know.
            pub const fn from_number(number: i32) -> Self {
                $name(number)
            }

            /// The number in the C ABI.
            pub const fn number(self) -> i32 {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $($name::$constant => formatter.write_str(stringify!($constant)),)*
                    $name(other) => write!(formatter, "{}({other})", stringify!($name)),
                }
            }
        }
    };
}

numbers! {
    /// What kind of failure an [`Error`](crate::Error) is. `Display` prints its name.
    Code {
        /// The operation was cancelled.
        CANCELLED = PLAIT_CANCELLED,
        /// An error of no known kind.
        UNKNOWN = PLAIT_UNKNOWN,
        /// This call is wrong; nothing happened.
        INVALID_ARGUMENT = PLAIT_INVALID_ARGUMENT,
        /// A limit of time was reached.
        DEADLINE_EXCEEDED = PLAIT_DEADLINE_EXCEEDED,
        /// No such file, checkpoint, key or tensor.
        NOT_FOUND = PLAIT_NOT_FOUND,
        /// The target is there and is not overwritten.
        ALREADY_EXISTS = PLAIT_ALREADY_EXISTS,
        /// The system refused access.
        PERMISSION_DENIED = PLAIT_PERMISSION_DENIED,
        /// Too little memory, disk space or descriptors.
        RESOURCE_EXHAUSTED = PLAIT_RESOURCE_EXHAUSTED,
        /// Not in this state, or the processes disagree.
        FAILED_PRECONDITION = PLAIT_FAILED_PRECONDITION,
        /// An abort ended the call, or came before it.
        ABORTED = PLAIT_ABORTED,
        /// Numbers are not finite, or too large for their type.
        OUT_OF_RANGE = PLAIT_OUT_OF_RANGE,
        /// Not in this library or build.
        UNIMPLEMENTED = PLAIT_UNIMPLEMENTED,
        /// A mistake of the library itself.
        INTERNAL = PLAIT_INTERNAL,
        /// The system or the network failed; may pass.
        UNAVAILABLE = PLAIT_UNAVAILABLE,
        /// Files are damaged, or copies of weights differ.
        DATA_LOSS = PLAIT_DATA_LOSS,
        /// A process that joins has another `network.token`.
        UNAUTHENTICATED = PLAIT_UNAUTHENTICATED,
        /// A [`KeyValue`](crate::KeyValue) store failed or panicked.
        HOST_ERROR = PLAIT_HOST_ERROR,
        /// Another process died or froze.
        PEER_LOST = PLAIT_PEER_LOST,
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the library answers any number with static text.
        let name = unsafe { CStr::from_ptr(sys::plait_code_name(self.0)) };
        formatter.write_str(&name.to_string_lossy())
    }
}

numbers! {
    /// What a failure left behind.
    Disposition {
        /// No effect; correct the call.
        UNCHANGED = PLAIT_DISPOSITION_UNCHANGED,
        /// No effect; the same call may succeed later.
        RETRY = PLAIT_DISPOSITION_RETRY,
        /// Drop engine and group, then make new ones.
        ENGINE_LOST = PLAIT_DISPOSITION_ENGINE_LOST,
        /// Device or memory cannot be repaired in this process.
        PROCESS_LOST = PLAIT_DISPOSITION_PROCESS_LOST,
    }
}

numbers! {
    /// What an engine is ready for.
    EngineState {
        /// Takes calls.
        READY = PLAIT_ENGINE_READY,
        /// A call is in progress.
        RUNNING = PLAIT_ENGINE_RUNNING,
        /// Answers state, counters and reports; to be closed or dropped.
        LOST = PLAIT_ENGINE_LOST,
        /// Closed.
        CLOSED = PLAIT_ENGINE_CLOSED,
    }
}

numbers! {
    /// How an operation stands.
    OperationState {
        /// Not ended.
        RUNNING = PLAIT_OP_RUNNING,
        /// Ended well; it may have a result.
        DONE = PLAIT_OP_DONE,
        /// Ended with an error, which [`wait`](crate::Operation::wait) gives.
        FAILED = PLAIT_OP_FAILED,
        /// Ended since it was asked to.
        CANCELLED = PLAIT_OP_CANCELLED,
    }
}

numbers! {
    /// Urgency of log records; a lower number is more urgent.
    LogLevel {
        /// Something failed.
        ERROR = PLAIT_LOG_ERROR,
        /// Something deserves a look.
        WARNING = PLAIT_LOG_WARNING,
        /// What happened; the level at the start.
        INFO = PLAIT_LOG_INFO,
        /// For the search for a mistake.
        DEBUG = PLAIT_LOG_DEBUG,
        /// Everything.
        TRACE = PLAIT_LOG_TRACE,
    }
}

numbers! {
    /// Which rows a batch holds.
    Scope {
        /// Those of all processes, in global order.
        GLOBAL = PLAIT_BATCH_GLOBAL,
        /// Those of [`batch_spans`](crate::Engine::batch_spans) alone.
        LOCAL = PLAIT_BATCH_LOCAL,
    }
}

numbers! {
    /// What of a parameter is meant. A gradient is never stored in a checkpoint.
    Kind {
        /// The weight that computes.
        PARAM = PLAIT_KIND_PARAM,
        /// The fp32 weight that is updated.
        MASTER = PLAIT_KIND_MASTER,
        /// Mean of gradients.
        MOMENT1 = PLAIT_KIND_MOMENT1,
        /// Mean of squared gradients.
        MOMENT2 = PLAIT_KIND_MOMENT2,
        /// A further state, as the format allows.
        EXTRA = PLAIT_KIND_EXTRA,
        /// Divided by the targets so far, neither clipped nor scaled.
        GRADIENT = PLAIT_KIND_GRADIENT,
    }
}

numbers! {
    /// Type of a tensor's elements.
    DType {
        /// IEEE 754, 32 bits.
        FLOAT32 = PLAIT_DTYPE_FLOAT32,
        /// Upper half of a `FLOAT32`.
        BFLOAT16 = PLAIT_DTYPE_BFLOAT16,
        /// IEEE 754, 16 bits.
        FLOAT16 = PLAIT_DTYPE_FLOAT16,
        /// Signed, 32 bits.
        INT32 = PLAIT_DTYPE_INT32,
        /// Signed, 64 bits.
        INT64 = PLAIT_DTYPE_INT64,
        /// A byte.
        UINT8 = PLAIT_DTYPE_UINT8,
    }
}
