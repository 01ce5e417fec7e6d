#include "engine/tensor_parallel/stream_region.h"

namespace plait {
namespace {

/// Every rank holds all rows.
class WholeStream final : public StreamRegion {
 public:
  using StreamRegion::StreamRegion;

  TensorView start_all_rows(const Pass&, TensorView x, Workspace::Frame&) override { return x; }
  TensorView term(const Pass&, TensorView y, Workspace::Frame&) override { return y; }

  void start_sum(const Pass& pass, TensorView, TensorView y) override {
    if (pass.context.is_measuring()) return;
    if (group_.is_overlapping) {
      group_.communicator->start_all_reduce(y);
      is_open_ = true;
    } else {
      group_.communicator->all_reduce(y);
    }
  }

  TensorView pick_row(const Pass&, TensorView x, int64_t row, Workspace::Frame&) override {
    return x.slice_rows(row, 1);
  }
};

/// Rank τ holds the τ-th of t equal runs of rows.
class CutStream final : public StreamRegion {
 public:
  using StreamRegion::StreamRegion;

  TensorView start_all_rows(const Pass& pass, TensorView x, Workspace::Frame& frame) override {
    const TensorView all = whole(x, frame);
    if (pass.context.is_measuring()) return all;
    if (group_.is_overlapping) {
      group_.communicator->start_all_gather(x, all);
      is_open_ = true;
    } else {
      group_.communicator->all_gather(x, all);
    }
    return all;
  }

  TensorView term(const Pass&, TensorView y, Workspace::Frame& frame) override {
    return whole(y, frame);
  }

  void start_sum(const Pass& pass, TensorView term, TensorView y) override {
    if (pass.context.is_measuring()) return;
    if (group_.is_overlapping) {
      group_.communicator->start_reduce_scatter(term, y);
      is_open_ = true;
    } else {
      group_.communicator->reduce_scatter(term, y);
    }
  }

  TensorView pick_row(const Pass& pass, TensorView x, int64_t row,
                      Workspace::Frame& frame) override {
    const int64_t own = pass.stream_rows(), owner = row / own;
    TensorView picked = frame.tensor(x.dtype, {1, x.columns()});
    if (owner == group_.index) picked = x.slice_rows(row - owner * own, 1);
    if (!pass.context.is_measuring()) group_.communicator->broadcast(picked, owner);
    return picked;
  }

 private:
  TensorView whole(TensorView part, Workspace::Frame& frame) const {
    return frame.tensor(part.dtype, {part.rows() * group_.size, part.columns()});
  }
};

}  // namespace

void StreamRegion::finish() {
  if (!is_open_) return;
  is_open_ = false;
  group_.communicator->finish();
}

TensorView StreamRegion::all_rows(const Pass& pass, TensorView x, Workspace::Frame& frame) {
  const TensorView all = start_all_rows(pass, x, frame);
  finish();
  return all;
}

void StreamRegion::sum(const Pass& pass, TensorView term, TensorView y) {
  start_sum(pass, term, y);
  finish();
}

std::unique_ptr<StreamRegion> make_stream_region(const TensorGroup& group) {
  if (group.is_sequence_parallel) return std::make_unique<CutStream>(group);
  return std::make_unique<WholeStream>(group);
}

}  // namespace plait
