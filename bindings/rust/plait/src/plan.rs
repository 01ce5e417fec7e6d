//! The planner: candidates for a layout. Needs no device.

use plait_sys as sys;

use crate::bytes::Bytes;
use crate::error::call;
use crate::ffi::{c_text, Sized64};
use crate::handle::Handle;
use crate::{Config, Context, PlanInfo, RankInfo, Result};

/// Candidates for a number of ranks: with fixed `layout.*` degrees the one, with `auto` all, best
/// first and rejected ones last.
pub struct Plan(Handle<sys::plait_plan>);

impl Plan {
    /// Plans for `world` ranks.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a configuration that does not fit.
    pub fn new(context: &Context, config: &Config, world: i32) -> Result<Plan> {
        // SAFETY: live handles; the places are ours.
        Handle::make(|plan, err| unsafe {
            sys::plait_plan_create(context.raw(), config.raw(), world, plan, err)
        })
        .map(Plan)
    }

    /// Number of candidates.
    pub fn count(&self) -> i64 {
        // SAFETY: a live handle.
        unsafe { sys::plait_plan_count(self.0.raw()) }
    }

    /// Describes candidate `index`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an index that does not exist.
    pub fn candidate(&self, index: i64) -> Result<PlanInfo> {
        let mut raw = sys::plait_plan_info::sized();
        // SAFETY: a live handle; the library fills the struct, whose texts live as long as it.
        unsafe {
            call(|err| sys::plait_plan_at(self.0.raw(), index, &mut raw, err))?;
            Ok(PlanInfo::copy(&raw))
        }
    }

    /// Describes what `rank` holds and does in candidate `index`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an index or rank that does not exist.
    pub fn rank(&self, index: i64, rank: i32) -> Result<RankInfo> {
        let mut raw = sys::plait_rank_info::sized();
        // SAFETY: a live handle; the library fills the struct.
        call(|err| unsafe { sys::plait_plan_rank_at(self.0.raw(), index, rank, &mut raw, err) })?;
        Ok(raw.into())
    }

    /// Text about candidate `index`: `reasons`, `estimate`, `memory`, `schedule` or `timeline`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an index or kind that does not exist.
    pub fn report(&self, index: i64, kind: &str) -> Result<String> {
        let kind = c_text(kind, "kind")?;
        // SAFETY: a live handle, text that outlives the call, and a place that is ours.
        let report = Bytes::make(|report, err| unsafe {
            sys::plait_plan_report(self.0.raw(), index, kind.as_ptr(), report, err)
        })?;
        Ok(report.to_text())
    }

    /// Writes the `layout.*` keys of candidate `index` into `config`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an index that does not exist.
    pub fn apply(&self, index: i64, config: &mut Config) -> Result<()> {
        // SAFETY: live handles.
        call(|err| unsafe { sys::plait_plan_apply(self.0.raw(), index, config.raw(), err) })
    }
}
