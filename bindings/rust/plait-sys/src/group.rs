//! Groups: which ranks this process drives, and how processes meet.

use std::os::raw::{c_char, c_void};

use crate::handles::{
    plait_bytes, plait_config, plait_context, plait_error, plait_group, plait_reply,
};
use crate::structs::plait_kv;

extern "C" {
    /// This process drives ranks rank … rank + local_ranks - 1 of `world`. `config` is copied.
    /// Where local_ranks == world the group is complete at once. Numbers that do not fit each other
    /// are `INVALID_ARGUMENT/topology`.
    ///
    /// Since 0.1; threads A; collective: no; owns: group; stable.
    pub fn plait_group_create(
        context: *mut plait_context,
        config: *const plait_config,
        rank: i32,
        local_ranks: i32,
        world: i32,
        group: *mut *mut plait_group,
        err: *mut *mut plait_error,
    ) -> i32;

    /// This process's card, at most 4 KiB: ranks, endpoints, devices, versions, a nonce. Give it to
    /// the other processes by any means.
    ///
    /// Since 0.1; threads 1; collective: no; owns: card; stable.
    pub fn plait_group_card(
        group: *mut plait_group,
        card: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Adds the card of one process. Any order; the own one is allowed.
    ///
    /// Since 0.1; threads 1; collective: no; owns: none; stable.
    pub fn plait_group_add_card(
        group: *mut plait_group,
        card: *const c_void,
        bytes: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Connects to all processes whose cards were added; their ranks must tile 0 … world - 1. On a
    /// complete group it does nothing.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_group_commit(
        group: *mut plait_group,
        timeout_ms: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Exchanges cards through a store of the host, then commits. On a complete group it does
    /// nothing.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_group_join_kv(
        group: *mut plait_group,
        kv: *const plait_kv,
        timeout_ms: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Exchanges cards by TCP, then commits: the process of rank 0 listens on "host:port" (a
    /// literal address or localhost: there alone; any other name: on all interfaces), the others
    /// connect to it; key network.token keeps strangers out. On a complete group it does nothing.
    ///
    /// Since 0.1; threads C; collective: yes; owns: none; stable.
    pub fn plait_group_join_tcp(
        group: *mut plait_group,
        address: *const c_char,
        timeout_ms: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Answers kv.get; the value is copied. Legal only inside that callback.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_reply_set(
        reply: *mut plait_reply,
        value: *const c_void,
        bytes: i64,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Measures "links", "compute" or "all" and returns a configuration fragment {"hardware": …}
    /// for the planner.
    ///
    /// Since 0.1; threads C; collective: yes; owns: profile; stable.
    pub fn plait_group_measure(
        group: *mut plait_group,
        what: *const c_char,
        timeout_ms: i64,
        profile: *mut *mut plait_bytes,
        err: *mut *mut plait_error,
    ) -> i32;

    /// Ends a commit, join or measure that waits: it returns `PLAIT_ABORTED`.
    ///
    /// Since 0.1; threads A; collective: no; owns: none; stable.
    pub fn plait_group_abort(group: *mut plait_group);
}
