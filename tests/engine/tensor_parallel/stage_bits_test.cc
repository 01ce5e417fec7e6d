// Changes of layout that leave every bit as it was, on tensor groups.
#include <catch2/catch.hpp>

#include "tests/engine/tensor_parallel/stage_rig.h"

using namespace plait;
using namespace plait::test;

namespace {

/// Runs `base` and what `change` makes of it in several layouts.
template <class Change>
void check_same_bits(const StageCase& base, const Change& change) {
  for (const GroupLayout& layout : {GroupLayout{1}, {2}, {4, true}}) {
    INFO(base.name << ", " << layout.text());
    StageCase changed = base;
    GroupLayout changed_layout = layout;
    change(&changed, &changed_layout);
    CHECK(bit_differences(run_stages(changed, changed_layout), run_stages(base, layout)) == "");
  }
}

}  // namespace

TEST_CASE("overlap changes no bit", "[stage]") {
  for (const StageCase& c : {gpt2_case(), llama_case()}) {
    check_same_bits(c, [](StageCase*, GroupLayout* layout) { layout->is_overlapping = false; });
  }
}

TEST_CASE("backward in two parts changes no bit", "[stage]") {
  for (const StageCase& c : {gpt2_case(), llama_case()}) {
    check_same_bits(c, [](StageCase* changed, GroupLayout*) { changed->is_split = true; });
  }
}

TEST_CASE("recompute changes no bit", "[stage]") {
  for (const StageCase& c : {gpt2_case(), llama_case()}) {
    check_same_bits(
        c, [](StageCase* changed, GroupLayout*) { changed->recompute = RecomputeChoice::kFull; });
  }
}

TEST_CASE("trap 29: a border between stages changes no bit", "[stage]") {
  for (StageCase c : {gpt2_case(), llama_case()}) {
    check_same_bits(c, [](StageCase* changed, GroupLayout*) { changed->stages = 2; });
    c.model.precision.compute = DType::kBFloat16;  // the border holds the wide stream
    c.model.precision.residual = DType::kFloat32;
    check_same_bits(c, [](StageCase* changed, GroupLayout*) { changed->stages = 2; });
  }
}
