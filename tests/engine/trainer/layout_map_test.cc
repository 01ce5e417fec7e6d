#include "engine/trainer/layout_map.h"

#include <stdlib.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/store/step_reader.h"
#include "engine/config/settings.h"
#include "engine/trainer/convert_step.h"
#include "tests/engine/trainer/open_engine.h"

namespace plait::test {
namespace {

struct LayoutCase {
  const char* name;
  Keys keys;
};

const std::vector<LayoutCase>& layout_cases() {
  static const std::vector<LayoutCase> cases = {
      {"one rank", {}},
      {"tensor 2", {{"layout.tensor", "2"}}},
      {"tensor 4, sequence parallel",
       {{"layout.tensor", "4"}, {"layout.sequence_parallel", "true"}}},
      {"pipeline 2", {{"layout.pipeline", "2"}}},
      {"uneven stages", {{"layout.pipeline", "2"}, {"layout.stage_layers", "[1,3]"}}},
      {"interleaved", {{"layout.pipeline", "2"}, {"layout.interleave", "2"}}},
      {"data 2", {{"layout.data", "2"}}},
      {"data 3, zero 1", {{"layout.data", "3"}, {"layout.zero", "1"}, {"train.global_batch", "6"}}},
      {"data 4, zero 2", {{"layout.data", "4"}, {"layout.zero", "2"}}},
      {"data 2, zero 3", {{"layout.data", "2"}, {"layout.zero", "3"}}},
      {"two by two by two",
       {{"layout.tensor", "2"}, {"layout.pipeline", "2"}, {"layout.data", "2"}}},
      {"two by two by two, zero 3",
       {{"layout.tensor", "2"},
        {"layout.pipeline", "2"},
        {"layout.data", "2"},
        {"layout.zero", "3"}}},
      {"a stage without layers", {{"layout.pipeline", "2"}, {"layout.stage_layers", "[0,4]"}}},
  };
  return cases;
}

/// Four layers; llama has two key/value heads, which four ranks share, and a head of its own.
Config mapped_config(bool is_llama, const Keys& layout) {
  Keys keys = {{"model.layers", "4"}, {"threads", "1"}};
  if (is_llama) {
    keys.emplace_back("model.family", "llama");
    keys.emplace_back("model.key_value_heads", "2");
    keys.emplace_back("precision.compute", "bf16");
  }
  keys.insert(keys.end(), layout.begin(), layout.end());
  return tiny_config(keys);
}

using Piece = std::tuple<int64_t, int, std::array<int64_t, Shape::kMaxDims>,
                         std::array<int64_t, Shape::kMaxDims>, bool>;

std::vector<Piece> comparable(const std::vector<StatePiece>& pieces) {
  std::vector<Piece> all;
  for (const StatePiece& piece : pieces) {
    all.emplace_back(piece.tensor, static_cast<int>(piece.kind), piece.box.first, piece.box.size,
                     piece.is_owned);
  }
  return all;
}

TEST_CASE("A layout without an engine has the boxes of the engine's ranks", "[layout_map]") {
  for (const bool is_llama : {false, true}) {
    for (const LayoutCase& layout : layout_cases()) {
      INFO(layout.name << (is_llama ? ", llama" : ", gpt2"));
      const Config config = mapped_config(is_llama, layout.keys);
      const Settings settings = make_settings(config);
      const LayoutMap map(settings);
      OpenEngine engine(config);
      REQUIRE(map.world() == engine.size());
      const StateKind weights = weight_kind(settings.precision.compute);
      const std::vector<StateKind> all = {weights, StateKind::kMoment1, StateKind::kMoment2};
      std::set<Piece> owned;
      size_t owned_pieces = 0;
      for (int64_t rank = 0; rank < map.world(); ++rank) {
        Rank& live = engine.rank(rank);
        const SortedTensors sorted = sorted_tensors(live.tensors());
        const std::vector<Piece> pieces = comparable(map.pieces(rank, all));
        CHECK((pieces == comparable(state_pieces(live, sorted, false))));
        const std::vector<StateKind> alone = {weights};
        CHECK(
            (comparable(map.pieces(rank, alone)) == comparable(state_pieces(live, sorted, true))));
        CHECK(map.place(rank).ordinal == rank);
        CHECK(map.place(rank).tensor == live.at().tensor);
        CHECK(map.place(rank).pipeline == live.at().pipeline);
        CHECK(map.place(rank).data == live.at().data);
        for (const Piece& piece : pieces) {
          if (!std::get<bool>(piece)) continue;
          owned.insert(piece);
          ++owned_pieces;
        }
      }
      CHECK(owned.size() == owned_pieces);  // no two ranks own one box
    }
  }
}

/// A directory that goes with the object.
class StepFolder {
 public:
  StepFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "plait-steps-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~StepFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

/// A step of an engine that has trained a little.
std::string save_step(const Config& config, const std::string& root) {
  OpenEngine engine(config);
  const std::vector<int32_t> rows =
      random_rows(config.get_integer("train.global_batch"), 17, 61, 5);
  for (int i = 0; i < 2; ++i) {
    step(*engine, token_batch(rows, config.get_integer("train.global_batch")));
  }
  const auto operation = engine->save(root, -1);
  REQUIRE(operation->wait(60000));
  operation->result();
  engine->close(-1);
  return join_path(root, step_name(2));
}

std::string convert_into(Env& env, const std::string& from, const Config& layout,
                         const std::string& root) {
  AsyncOperation operation(env.clock);
  Log log(env.clock);
  convert_checkpoint(env, &log, *open_checkpoint_source(env.files, from), layout, root, operation);
  CHECK(operation.progress().done_bytes == operation.progress().total_bytes);
  return join_path(root, list_root(env.files, root).steps.at(0).name);
}

/// Names and contents of what a step is made of, its INFO and its sequence left out.
std::vector<std::pair<std::string, std::string>> step_files(Files& files,
                                                            const std::string& directory) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& name : files.list(directory)) {
    if (name == "INFO.json") continue;
    std::string bytes = read_file(files, join_path(directory, name), int64_t{1} << 30);
    if (name == "MANIFEST") bytes.resize(bytes.size() - 32);
    all.emplace_back(name, std::move(bytes));
  }
  return all;
}

TEST_CASE("A converted step is byte-equal to a saved one", "[layout_map]") {
  const std::vector<LayoutCase>& cases = layout_cases();
  for (const bool is_llama : {false, true}) {
    const StepFolder folder;
    Env& env = posix_env();
    const Config first = mapped_config(is_llama, {});
    const std::string original = save_step(first, folder / "original");
    std::string at = original;
    for (const size_t index : {size_t{2}, size_t{5}, size_t{8}, size_t{11}, size_t{12}}) {
      INFO(cases[index].name << (is_llama ? ", llama" : ", gpt2"));
      const std::string name = std::to_string(index);
      const Config wanted = mapped_config(is_llama, cases[index].keys);
      at = convert_into(env, at, wanted, folder / ("converted" + name));
      OpenEngine engine(wanted);
      engine->load(original, -1);
      const auto operation = engine->save(folder / ("saved" + name), -1);
      REQUIRE(operation->wait(60000));
      operation->result();
      engine->close(-1);
      const std::string saved = join_path(folder / ("saved" + name), step_name(2));
      CHECK((step_files(env.files, at) == step_files(env.files, saved)));
    }
    at = convert_into(env, at, first, folder / "back");
    CHECK((step_files(env.files, at) == step_files(env.files, original)));
  }
}

TEST_CASE("A conversion says what it cannot do and leaves no step", "[layout_map]") {
  const StepFolder folder;
  Env& env = posix_env();
  Files& files = env.files;
  const std::string original = save_step(mapped_config(false, {}), folder / "a");
  Log log(env.clock);
  const auto word = [&](const Config& layout, bool is_cancelled) -> std::string {
    AsyncOperation operation(env.clock);
    if (is_cancelled) operation.cancel();
    try {
      convert_checkpoint(env, &log, *open_checkpoint_source(files, original), layout, folder / "b",
                         operation);
    } catch (const Error& error) {
      return error.word();
    }
    return "";
  };
  CHECK(word(mapped_config(false, {{"layout.tensor", "3"}}), false) == "argument");
  CHECK(word(mapped_config(false, {{"layout.tensor", "auto"}}), false) == "argument");
  CHECK_FALSE(files.exists(folder / "b"));
  CHECK(word(mapped_config(false, {}), true) == "cancelled");
  CHECK(list_root(files, folder / "b").steps.empty());
  CHECK(word(mapped_config(false, {}), false).empty());
  CHECK(word(mapped_config(false, {}), false) == "step_exists");
  CHECK(word(mapped_config(false, {{"checkpoint.on_existing", "replace"}}), false).empty());
}

}  // namespace
}  // namespace plait::test
