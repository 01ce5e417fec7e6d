// Every layout loads what every other saved: numbered elements, real boxes, files in memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/step_reader.h"
#include "engine/config/checks.h"
#include "engine/config/settings.h"
#include "engine/trainer/convert_step.h"
#include "engine/trainer/layout_map.h"
#include "engine/trainer/run_state.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/engine/trainer/layout_cases.h"
#include "tests/engine/trainer/open_engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/sim_files.h"

namespace plait::test {
namespace {

constexpr const char* kOrigin = "/origin";
constexpr int64_t kStep = 7;

/// Names and contents of what a step is made of; a first step has the same sequence in every root.
using StepFiles = std::vector<std::pair<std::string, std::string>>;

StepFiles step_files(Files& files, const std::string& root) {
  const std::string directory = join_path(root, step_name(kStep));
  StepFiles all;
  for (const std::string& name : files.list(directory)) {
    if (name == "INFO.json") continue;
    all.emplace_back(name, read_file(files, join_path(directory, name), int64_t{1} << 30));
  }
  return all;
}

/// A layout, and what a rank of it loads.
struct Target {
  std::string text;
  Config config;
  std::vector<StorePiece> pieces;  ///< of all ranks, copies too, with their values
  StepFiles files;                 ///< of a step that this layout wrote
};

/// A model with numbered elements, saved from each of its layouts.
class Model {
 public:
  explicit Model(bool is_llama) {
    const Config config = laid_out_config(is_llama, {});
    const Settings settings = make_settings(config);
    OpenEngine engine(config);
    RunPosition position;
    position.progress = {kStep, kStep, kStep * 24, kStep * 24 * 24, 0, 0, 1e-3};
    manifest_ = describe_run(config, settings, position, nullptr,
                             numerics_text(settings, isa_name(engine.rank(0).device().isa())));
    files_.make_private_directory(kOrigin);
    manifest_ = write_store(files_, kOrigin, manifest_, store_whole(manifest_));
    for (const LayoutCase& layout : layouts_of(is_llama)) {
      Target target{layout.text() + (is_llama ? "llama" : "gpt2"),
                    laid_out_config(is_llama, layout.keys()),
                    {},
                    {}};
      check(target.config);
      target.pieces = pieces_of(target.config);
      targets_.push_back(std::move(target));
    }
  }

  const std::vector<Target>& targets() const { return targets_; }
  SimFiles& files() { return files_; }

  std::unique_ptr<CheckpointSource> origin() { return open_checkpoint_source(files_, kOrigin); }
  /// The step that the layout wrote.
  std::unique_ptr<CheckpointSource> saved(size_t i) {
    return open_checkpoint_source(files_, root(i));
  }
  /// Writes the step of each layout, from the numbered one.
  void save_all() {
    const auto source = origin();
    for (size_t i = 0; i < targets_.size(); ++i) {
      convert(*source, targets_[i].config, files_, root(i));
      targets_[i].files = step_files(files_, root(i));
    }
  }

  /// Loads into every rank of a layout, and requires every element of every rank.
  void require_loaded(const CheckpointSource& source, const Target& target) const {
    std::vector<StorePiece> pieces = target.pieces;
    std::vector<ReadTarget> reads = store_targets(&pieces);
    source.read(reads, nullptr);
    const auto is_equal = [](const StorePiece& a, const StorePiece& b) {
      return a.bytes == b.bytes;
    };
    if (std::equal(pieces.begin(), pieces.end(), target.pieces.begin(), is_equal)) return;
    require_values(manifest_, pieces);
    FAIL("values differ");
  }
  /// Digests, values or both are another's when this fails.
  void require_same_state(const CheckpointSource& source) const {
    const Manifest& other = *source.manifest();
    REQUIRE(other.state_digest == manifest_.state_digest);
    for (size_t t = 0; t < manifest_.tensors.size(); ++t) {
      for (size_t s = 0; s < manifest_.tensors[t].states.size(); ++s) {
        REQUIRE(other.tensors[t].states[s].digest == manifest_.tensors[t].states[s].digest);
      }
    }
  }

  static void convert(const CheckpointSource& source, const Config& layout, Files& files,
                      const std::string& root) {
    Env env = memory_env(files);
    Log log(env.clock);
    AsyncOperation operation(env.clock);
    convert_checkpoint(env, &log, source, layout, root, operation);
    REQUIRE(operation.progress().done_bytes == operation.progress().total_bytes);
  }

 private:
  static std::string root(size_t i) { return "/layout" + std::to_string(i); }

  std::vector<StorePiece> pieces_of(const Config& config) const {
    const Settings settings = make_settings(config);
    const LayoutMap map(settings);
    const std::vector<StateKind> kinds = {weight_kind(settings.precision.compute),
                                          StateKind::kMoment1, StateKind::kMoment2};
    std::vector<StorePiece> pieces;
    for (int64_t rank = 0; rank < map.world(); ++rank) {
      for (const StatePiece& piece : map.pieces(rank, kinds)) {
        const auto tensor = static_cast<uint32_t>(piece.tensor);
        const Shape& shape = manifest_.tensors[tensor].shape;
        pieces.push_back({static_cast<uint32_t>(rank), tensor, piece.kind, DType::kFloat32,
                          piece.box,
                          store_values(tensor, piece.kind, DType::kFloat32, piece.box, shape)});
      }
    }
    return pieces;
  }

  SimFiles files_;
  Manifest manifest_;
  std::vector<Target> targets_;
};

// A step that layout b writes from what a wrote has the bytes of every other step of b. So what is
// saved in a, loaded in b, saved, loaded in a and saved again has the bytes of the first.
TEST_CASE("Every layout loads what every other saved, and writes the same bytes from it",
          "[reshard]") {
  constexpr size_t kStride = kIsSanitized ? 37 : 1;
  for (const bool is_llama : {false, true}) {
    Model model(is_llama);
    const std::vector<Target>& targets = model.targets();
    REQUIRE(targets.size() >= 32);
    model.save_all();
    for (size_t a = 0; a < targets.size(); ++a) {
      INFO("from " << targets[a].text);
      const auto source = model.saved(a);
      model.require_same_state(*source);
      REQUIRE(source->verify(true, nullptr, nullptr).empty());
      for (size_t b = 0; b < targets.size(); ++b) {
        if ((a * targets.size() + b) % kStride != 0) continue;
        INFO("to " << targets[b].text);
        model.require_loaded(*source, targets[b]);
        SimFiles written;
        Model::convert(*source, targets[b].config, written, "/root");
        REQUIRE((step_files(written, "/root") == targets[b].files));
      }
    }
  }
}

TEST_CASE("What an engine saves has the bytes that a conversion writes, in every layout",
          "[reshard]") {
  constexpr size_t kStride = kIsSanitized ? 7 : 1;
  for (const bool is_llama : {false, true}) {
    Model model(is_llama);
    model.save_all();
    const std::vector<Target>& targets = model.targets();
    for (size_t i = 0; i < targets.size(); i += kStride) {
      // Loaded from what another layout saved.
      const size_t from = (i + 5) % targets.size();
      INFO(targets[from].text << " into " << targets[i].text);
      Env env = memory_env(model.files());
      OpenEngine::Options options;
      options.env = &env;
      OpenEngine engine(targets[i].config, options);
      engine->load("/layout" + std::to_string(from), -1);
      const std::string root = "/engine" + std::to_string(i);
      const auto operation = engine->save(root, -1);
      REQUIRE(operation->wait(60'000));
      operation->result();
      engine->close(-1);
      REQUIRE((step_files(model.files(), root) == targets[i].files));
    }
  }
}

}  // namespace
}  // namespace plait::test
