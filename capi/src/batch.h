// A batch's own tensors: int32, row-major, 64-byte aligned.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "capi/src/engine.h"
#include "capi/src/handle.h"
#include "engine/trainer/batch.h"
#include "plait/plait.h"

namespace plait {

class BatchMemory {
 public:
  /// Keeps content and address when the shape stays; else new memory, all zero. `argument` for a
  /// shape that is not positive, `too_large` for one that no machine holds.
  int32_t* reshape(int64_t rows, int64_t columns);
  void clear();
  BatchTensor view() const { return {data_.get(), rows_, columns_}; }

 private:
  struct Free {
    void operator()(int32_t* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<int32_t, Free> data_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
};

}  // namespace plait

struct plait_batch final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kBatch;
  plait_batch(plait::Ref<plait_engine> engine, plait::BatchScope scope)
      : Handle(kKind), engine(std::move(engine)), scope(scope) {}

  /// The tensor called `name`; `argument` when there is none of that name.
  plait::BatchMemory& memory(std::string_view name);
  plait::Batch view() const { return {scope, tokens.view(), targets.view(), documents.view()}; }

  const plait::Ref<plait_engine> engine;
  const plait::BatchScope scope;
  plait::BatchMemory tokens, targets, documents;  ///< guarded by the in-use word
};
