// Trains on the bytes of a file, which it holds in memory; a C++ host of the C ABI, whose handles
// it keeps in std::unique_ptr and whose errors it throws.
//
//   train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]
//
// Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run
// after the step in progress; with --checkpoint the state is saved then, as it is at the end. Exit
// codes: 0 done, 1 an error, 2 usage, 3 stopped.
#include <plait/plait.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

template <auto kFree>
struct Free {
  template <typename Handle>
  void operator()(Handle* handle) const {
    kFree(handle);
  }
};
using Error = std::unique_ptr<plait_error, Free<plait_error_free>>;
using Bytes = std::unique_ptr<plait_bytes, Free<plait_bytes_free>>;
using Context = std::unique_ptr<plait_context, Free<plait_context_free>>;
using Config = std::unique_ptr<plait_config, Free<plait_config_free>>;
using Group = std::unique_ptr<plait_group, Free<plait_group_free>>;
using Engine = std::unique_ptr<plait_engine, Free<plait_engine_free>>;
using Batch = std::unique_ptr<plait_batch, Free<plait_batch_free>>;
using Op = std::unique_ptr<plait_op, Free<plait_op_free>>;

/// Hands `call` an error slot; throws what it says unless the code is OK or STOPPED, which comes
/// back.
template <typename Call>
int32_t check(Call&& call) {
  plait_error* error = nullptr;
  const int32_t code = call(&error);
  const Error owner(error);
  if (code == PLAIT_OK || code == PLAIT_STOPPED) return code;
  throw std::runtime_error(std::string(plait_code_name(code)) + ": " + plait_error_message(error));
}

/// The handle that `call` writes to its slot.
template <typename Handle, typename Call>
Handle make(Call&& call) {
  typename Handle::pointer raw = nullptr;
  check([&](plait_error** error) { return call(&raw, error); });
  return Handle(raw);
}

struct Arguments {
  std::string config, text, root;
  int64_t steps = 0;  // 0: as run.steps of the configuration says
  bool is_resumed = false;
};

bool read_arguments(const std::vector<std::string>& words, Arguments& arguments) {
  std::vector<std::string> names;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool has_value = std::next(word) != words.end();
    if (*word == "--resume") {
      arguments.is_resumed = true;
    } else if (*word == "--steps" && has_value) {
      ++word;
      std::from_chars(word->data(), word->data() + word->size(), arguments.steps);
      if (arguments.steps <= 0) return false;
    } else if (*word == "--checkpoint" && has_value) {
      arguments.root = *++word;
    } else if (word->starts_with('-')) {
      return false;
    } else {
      names.push_back(*word);
    }
  }
  if (names.size() != 2 || (arguments.is_resumed && arguments.root.empty())) return false;
  arguments.config = names[0];
  arguments.text = names[1];
  return true;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) throw std::runtime_error("cannot read " + path);
  return data;
}

std::atomic<plait_engine*> running;  // what a signal stops

void on_signal(int) { plait_engine_request_stop(running.load()); }

class Run {
 public:
  explicit Run(const Arguments& arguments)
      : arguments_(arguments), text_(read_file(arguments.text)) {
    const std::string json = read_file(arguments.config);
    context_ = make<Context>([](auto out, auto error) {
      return plait_context_create(PLAIT_API_VERSION, nullptr, out, error);
    });
    config_ = make<Config>(
        [&](auto out, auto error) { return plait_config_create(context_.get(), out, error); });
    check([&](auto error) {
      return plait_config_load(config_.get(), json.data(), std::ssize(json), error);
    });
    if (arguments_.steps == 0) arguments_.steps = get("run.steps");
    const auto world =
        static_cast<int32_t>(get("layout.tensor") * get("layout.pipeline") * get("layout.data"));
    group_ = make<Group>([&](auto out, auto error) {
      return plait_group_create(context_.get(), config_.get(), 0, world, world, out, error);
    });
    engine_ = make<Engine>([&](auto out, auto error) {
      return plait_engine_create(group_.get(), config_.get(), -1, out, error);
    });
    batch_ = make<Batch>([&](auto out, auto error) {
      return plait_batch_create(engine_.get(), PLAIT_BATCH_GLOBAL, out, error);
    });
  }

  plait_engine* engine() const { return engine_.get(); }
  const std::vector<double>& losses() const { return losses_; }

  /// True where a signal stopped the run.
  bool train() {
    if (arguments_.is_resumed) {
      const int32_t code = check([&](auto error) {
        return plait_checkpoint_load(engine_.get(), arguments_.root.c_str(), -1, nullptr, error);
      });
      if (code == PLAIT_STOPPED) return true;  // nothing was loaded, and nothing is saved over it
    }
    bool is_stopped = false;
    for (auto spec = next(); !is_stopped && spec.first_sample / spec.global_rows < arguments_.steps;
         spec = next()) {
      fill(spec);
      plait_metrics metrics{};
      metrics.struct_size = sizeof metrics;
      is_stopped = check([&](auto error) {
                     return plait_engine_step(engine_.get(), batch_.get(), -1, &metrics, error);
                   }) == PLAIT_STOPPED;
      losses_.push_back(metrics.loss);
      std::fprintf(stderr, "step %lld/%lld loss %.4f | %.0f tokens/s\n",
                   static_cast<long long>(metrics.step), static_cast<long long>(arguments_.steps),
                   metrics.loss, metrics.tokens_per_second);
    }
    if (!arguments_.root.empty()) save();
    return is_stopped;
  }

  void close() {
    check([&](auto error) { return plait_engine_close(engine_.get(), -1, error); });
  }

 private:
  int64_t get(const char* key) const {
    const auto value = make<Bytes>(
        [&](auto out, auto error) { return plait_config_get(config_.get(), key, out, error); });
    return std::stoll(static_cast<const char*>(plait_bytes_data(value.get())));
  }

  plait_batch_spec next() const {
    plait_batch_spec spec{};
    spec.struct_size = sizeof spec;
    check([&](auto error) { return plait_engine_batch_spec(engine_.get(), &spec, error); });
    return spec;
  }

  /// Fills the batch's own memory: sequence j of the run begins at byte j * s, round and round.
  void fill(const plait_batch_spec& spec) {
    const int64_t length = spec.sequence_length, starts = std::ssize(text_) - length;
    if (starts <= 0) throw std::runtime_error(arguments_.text + " is shorter than one sequence");
    int32_t* row = nullptr;
    check([&](auto error) {
      return plait_batch_map(batch_.get(), "tokens", spec.global_rows, length + 1, &row, error);
    });
    for (int64_t r = 0; r < spec.global_rows; ++r, row += length + 1) {
      const int64_t first = (spec.first_sample + r) * length % starts;
      std::transform(text_.begin() + first, text_.begin() + first + length + 1, row,
                     [](char byte) { return static_cast<unsigned char>(byte); });
    }
  }

  void save() {
    const auto op = make<Op>([&](auto out, auto error) {
      return plait_checkpoint_save(engine_.get(), arguments_.root.c_str(), -1, out, error);
    });
    check([&](auto error) { return plait_op_wait(op.get(), -1, error); });
  }

  Arguments arguments_;
  std::string text_;
  Context context_;
  Config config_;
  Group group_;
  Engine engine_;
  Batch batch_;
  std::vector<double> losses_;
};

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  if (!read_arguments({words + 1, words + count}, arguments)) {
    std::fprintf(stderr, "usage: train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]\n");
    return 2;
  }
  try {
    Run run(arguments);
    running = run.engine();
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    const bool is_stopped = run.train();
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    for (const double& loss : run.losses())
      std::printf("%s%.17g", &loss == run.losses().data() ? "" : " ", loss);
    std::printf("\n");
    run.close();
    return is_stopped ? 3 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
