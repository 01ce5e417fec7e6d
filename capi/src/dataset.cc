#include "capi/src/dataset.h"

#include <bit>
#include <string>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"
#include "engine/config/checks.h"
#include "engine/config/settings.h"

using plait::guard;
using plait::Held;

namespace {

plait::TokenType token_type(plait::TokenTypeChoice choice) {
  switch (choice) {
    case plait::TokenTypeChoice::kUint16:
      return plait::TokenType::kUint16;
    case plait::TokenTypeChoice::kInt32:
      return plait::TokenType::kInt32;
    case plait::TokenTypeChoice::kAuto:
      break;
  }
  return plait::TokenType::kAuto;
}

// "evaluate" reads data.evaluate or, where that is empty, the second share of data.train.
plait::DataOptions data_options(const plait::Config& config, const std::string& role) {
  plait::check_data(config);
  const plait::DataConfig data = plait::make_data(config);
  const bool is_own = role == "evaluate" && !data.evaluate.empty();
  plait::DataOptions options;
  options.paths = is_own ? data.evaluate : data.train;
  options.weights = is_own ? data.evaluate_weights : data.train_weights;
  if (!is_own) {
    options.split = data.split;
    options.role = role == "train" ? 0 : 1;
  }
  options.seed = static_cast<uint64_t>(config.get_integer("seed"));
  options.sequence_length = config.get_integer("train.sequence_length");
  options.vocab_size = config.get_integer("model.vocab_size");
  options.shuffle = data.shuffle;
  options.isolate_documents = data.isolate_documents;
  options.token_type = token_type(data.token_type);
  if (options.paths.empty()) {
    throw plait::Error("argument", "no data is configured for the role")
        .with("role", role)
        .with("key", role == "train" ? "data.train" : "data.evaluate")
        .subsystem("capi");
  }
  return options;
}

}  // namespace

int32_t plait_dataset_open(plait_context* context, const plait_config* config, const char* role,
                           plait_dataset** dataset, plait_error** err) {
  const plait::HandleOut<plait_dataset> out(dataset, "dataset");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    const plait::Config copy = plait::copy_config(config, "config");
    const std::string name = plait::text_argument(role, "role");
    plait::check_choice(name, "train evaluate", "role");
    out.set(new plait_dataset(held.ref(),
                              plait::Dataset::open(held->env.files, data_options(copy, name))));
  });
}

int32_t plait_dataset_describe(const plait_dataset* dataset, plait_dataset_info* info,
                               plait_error** err) {
  plait::StructOut<plait_dataset_info> out(info, "plait_dataset_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_dataset> held(dataset, "dataset");
    plait_dataset_info value{};
    value.valid = PLAIT_VALID_ALL;
    value.tokens = held->value->tokens();
    value.documents = held->value->documents();
    value.samples = held->value->samples_per_epoch();
    value.sequence_length = held->value->sequence_length();
    value.fingerprint = std::bit_cast<int64_t>(held->value->fingerprint());
    out.write(value);
  });
}

int32_t plait_dataset_read(const plait_dataset* dataset, const char* name, int64_t first_sample,
                           int64_t count, plait_bytes** values, plait_error** err) {
  const plait::BytesOut out(values, "values");
  return guard(err, [&] {
    out.check();
    const Held<plait_dataset> held(dataset, "dataset");
    const std::string what = plait::text_argument(name, "name");
    plait::check_choice(what, "tokens documents", "name");
    plait::check_range(first_sample, 0, INT64_MAX, "first_sample");
    plait::check_range(count, 0, INT64_MAX - first_sample, "count");
    const int64_t columns = held->value->sequence_length() + 1;
    // A terabyte: beyond it the count is a mistake, and the sizes below stay far from overflow.
    plait::check_range(count, 0, (int64_t{1} << 38) / columns, "count");
    std::string text(static_cast<size_t>(count * columns * 4), '\0');
    auto* memory = reinterpret_cast<int32_t*>(text.data());
    if (count == 0) {
      // Nothing to read.
    } else if (what == "tokens") {
      held->value->read(first_sample, count, memory);
    } else {
      held->value->read_documents(first_sample, count, memory);
    }
    out.set(std::move(text));
  });
}

void plait_dataset_free(plait_dataset* dataset) {
  plait::guard_void([&] { plait::free_handle(dataset); });
}
