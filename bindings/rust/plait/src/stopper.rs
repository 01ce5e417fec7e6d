//! What ends the call that an engine is in, from outside.

use std::sync::Arc;

use plait_sys as sys;

use crate::handle::Shared;

/// Stops an [`Engine`](crate::Engine) from any thread. It may outlive the engine: then nothing
/// happens.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared<sys::plait_engine>>,
}

impl Stopper {
    pub(crate) fn new(shared: &Arc<Shared<sys::plait_engine>>) -> Stopper {
        Stopper {
            shared: Arc::clone(shared),
        }
    }

    /// Asks for an orderly stop: the next step finishes in all processes and answers
    /// [`Step::Stopped`](crate::Step::Stopped); evaluate, score and generate end without effect.
    ///
    /// Nothing but atomic operations, so that a signal handler may call it.
    pub fn request_stop(&self) {
        // SAFETY: a live handle; any thread may call it at any time.
        self.shared
            .with(|engine| unsafe { sys::plait_engine_request_stop(engine) });
    }

    /// Ends at once: the call that runs fails with `ABORTED` within a second and the engine is lost.
    pub fn abort(&self) {
        // SAFETY: a live handle; any thread may call it at any time.
        self.shared
            .with(|engine| unsafe { sys::plait_engine_abort(engine) });
    }
}
