#include "capi/src/batch.h"

#include <cstring>
#include <string>

#include "capi/src/arguments.h"
#include "capi/src/guard.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace plait {

int32_t* BatchMemory::reshape(int64_t rows, int64_t columns) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  check_range(rows, 1, kMaxElements, "rows");
  check_range(columns, 1, kMaxElements, "columns");
  if (rows > kMaxElements / columns) {
    throw Error("too_large", "the tensor is too large")
        .with("rows", rows)
        .with("columns", columns)
        .with("limit", kMaxElements)
        .subsystem("capi");
  }
  if (data_ != nullptr && rows == rows_ && columns == columns_) return data_.get();
  const auto bytes = static_cast<size_t>(rows * columns) * sizeof(int32_t);
  std::unique_ptr<int32_t, Free> fresh(
      static_cast<int32_t*>(::operator new (bytes, std::align_val_t{64})));
  std::memset(fresh.get(), 0, bytes);
  data_ = std::move(fresh);
  rows_ = rows;
  columns_ = columns;
  return data_.get();
}

void BatchMemory::clear() {
  data_.reset();
  rows_ = columns_ = 0;
}

}  // namespace plait

plait::BatchMemory& plait_batch::memory(std::string_view name) {
  plait::check_choice(name, "tokens targets documents", "name");
  if (name == "tokens") return tokens;
  return name == "targets" ? targets : documents;
}

int32_t plait_batch_create(plait_engine* engine, int32_t scope, plait_batch** batch,
                           plait_error** err) {
  const plait::HandleOut<plait_batch> out(batch, "batch");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine");
    plait::check_range(scope, PLAIT_BATCH_GLOBAL, PLAIT_BATCH_LOCAL, "scope");
    out.set(new plait_batch(held.ref(), static_cast<plait::BatchScope>(scope)));
  });
}

int32_t plait_batch_set(plait_batch* batch, const char* name, const int32_t* values, int64_t rows,
                        int64_t columns, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_batch> held(batch, "batch", Use::kExclusive);
    plait::BatchMemory& memory = held->memory(plait::text_argument(name, "name"));
    if (values == nullptr) {
      memory.clear();
      return;
    }
    int32_t* target = memory.reshape(rows, columns);
    std::memcpy(target, static_cast<const void*>(values), static_cast<size_t>(rows * columns) * 4);
  });
}

int32_t plait_batch_map(plait_batch* batch, const char* name, int64_t rows, int64_t columns,
                        int32_t** values, plait_error** err) {
  const plait::HandleOut<int32_t> out(values, "values");
  return guard(err, [&] {
    out.check();
    const Held<plait_batch> held(batch, "batch", Use::kExclusive);
    out.set(held->memory(plait::text_argument(name, "name")).reshape(rows, columns));
  });
}

void plait_batch_free(plait_batch* batch) {
  plait::guard_void([&] { plait::free_handle(batch); });
}
