//! Groups: which ranks this process drives, and how processes meet.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::call;
use crate::ffi::{c_text, length, milliseconds};
use crate::handle::Shared;
use crate::key_value::with_store;
use crate::{Config, Context, KeyValue, Result};

/// The ranks that this process drives, and its peers.
///
/// Where one process drives all ranks the group is complete at once. Otherwise the processes meet:
/// by cards that the program carries from one to the other ([`card`](Self::card),
/// [`add_card`](Self::add_card), [`commit`](Self::commit)), by TCP, or by a key-value store. On a
/// complete group these calls do nothing, so that one path of a program serves both cases.
pub struct Group {
    shared: Arc<Shared<sys::plait_group>>,
    /// One call at a time.
    _not_sync: PhantomData<Cell<()>>,
}

impl Group {
    /// This process drives ranks `rank` … `rank + local_ranks - 1` of `world`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, word `topology`, for numbers that do not fit each other.
    pub fn new(
        context: &Context,
        config: &Config,
        rank: i32,
        local_ranks: i32,
        world: i32,
    ) -> Result<Group> {
        // SAFETY: live handles; the places are ours.
        let shared = Shared::make(|group, err| unsafe {
            let (context, config) = (context.raw(), config.raw());
            sys::plait_group_create(context, config, rank, local_ranks, world, group, err)
        })?;
        Ok(Group {
            shared: Arc::new(shared),
            _not_sync: PhantomData,
        })
    }

    /// This process's card, at most 4 KiB. Give it to the other processes by any means.
    ///
    /// # Errors
    /// `UNAVAILABLE` where no endpoint could be opened.
    pub fn card(&mut self) -> Result<Bytes> {
        // SAFETY: a live handle; the places are ours.
        Bytes::make(|card, err| unsafe { sys::plait_group_card(self.raw(), card, err) })
    }

    /// Adds the card of one process. Any order; the own one is allowed.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, word `topology`, for ranks that are there already.
    pub fn add_card(&mut self, card: &[u8]) -> Result<()> {
        let (data, bytes) = (card.as_ptr().cast(), length(card));
        // SAFETY: a live handle, and a payload with its length.
        call(|err| unsafe { sys::plait_group_add_card(self.raw(), data, bytes, err) })
    }

    /// Connects to all processes whose cards were added. Collective.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED`, word `missing_ranks`, names the ranks that did not come.
    pub fn commit(&mut self, timeout: Option<Duration>) -> Result<()> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle.
        call(|err| unsafe { sys::plait_group_commit(self.raw(), timeout_ms, err) })
    }

    /// Exchanges cards through `store`, on this thread, then commits. Collective.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), and `HOST_ERROR` with what the store failed with.
    pub fn join_kv(&mut self, store: &mut dyn KeyValue, timeout: Option<Duration>) -> Result<()> {
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle; the library calls the store within this call alone, on this thread.
        with_store(store, |kv| {
            call(|err| unsafe { sys::plait_group_join_kv(self.raw(), kv, timeout_ms, err) })
        })
    }

    /// Exchanges cards by TCP, then commits: the process of rank 0 listens on `host:port`, the others
    /// connect to it; key `network.token` keeps strangers out. Collective.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), and `UNAUTHENTICATED` for another token.
    pub fn join_tcp(&mut self, address: &str, timeout: Option<Duration>) -> Result<()> {
        let address = c_text(address, "address")?;
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle, and text that outlives the call.
        call(|err| unsafe {
            sys::plait_group_join_tcp(self.raw(), address.as_ptr(), timeout_ms, err)
        })
    }

    /// Measures `links`, `compute` or `all` and answers a fragment of a configuration for the
    /// planner, as JSON. Collective.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`, word `busy`, while the group has an engine.
    pub fn measure(&mut self, what: &str, timeout: Option<Duration>) -> Result<String> {
        let what = c_text(what, "what")?;
        let timeout_ms = milliseconds(timeout);
        // SAFETY: a live handle, text that outlives the call, and places that are ours.
        let profile = Bytes::make(|profile, err| unsafe {
            sys::plait_group_measure(self.raw(), what.as_ptr(), timeout_ms, profile, err)
        })?;
        Ok(profile.to_text())
    }

    /// What ends a call of this group from another thread.
    pub fn aborter(&self) -> Aborter {
        Aborter {
            shared: Arc::clone(&self.shared),
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::plait_group {
        self.shared.raw()
    }
}

impl Drop for Group {
    /// Frees it: waits for nobody, and no peer is told.
    fn drop(&mut self) {
        self.shared.retire();
    }
}

/// Ends a commit, join or measure of a [`Group`] that waits. It may outlive the group.
#[derive(Clone)]
pub struct Aborter {
    shared: Arc<Shared<sys::plait_group>>,
}

impl Aborter {
    /// The call that waits fails with `ABORTED`. Without one, and after the group, nothing happens.
    pub fn abort(&self) {
        // SAFETY: a live handle; any thread may call it at any time.
        self.shared
            .with(|group| unsafe { sys::plait_group_abort(group) });
    }
}
