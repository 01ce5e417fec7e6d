#include "kernels/cpu/linear_code.h"

#include "kernels/cpu/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_code.cc"
#include "hwy/foreach_target.h"  // must come before the next line
#include "hwy/highway.h"
#include "kernels/cpu/linear_micro-inl.h"
#include "kernels/cpu/linear_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {

const LinearCode& linear_code_here() {
  static constexpr LinearCode code{
      kStripRows,   kPanelColumns, kStripPitch, kMaxInner, kMaxInnerMajor, kPanelFloats, copy_rows,
      copy_columns, copy_panels,   add_rows,    widen,     pack_panel,     multiply,     finish};
  return code;
}

}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {
PLAIT_CPU_EXPORT(linear_code_here);
}  // namespace

const LinearCode& linear_code(IsaLevel isa) { return PLAIT_CPU_CALL(linear_code_here, isa)(); }

}  // namespace plait
#endif
