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
#include "tests/engine/trainer/layout_cases.h"
#include "tests/engine/trainer/open_engine.h"

namespace plait::test {
namespace {

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

/// Layouts and, where they go with them, canonical sums of two parts.
std::vector<Keys> keys_of_layouts(bool is_llama) {
  std::vector<Keys> all;
  for (const LayoutCase& layout : layouts_of(is_llama)) {
    all.push_back(layout.keys());
    const bool may_be_canonical = 2 % layout.tensor == 0 && 2 % layout.data == 0 &&
                                  layout.zero < 2 && !layout.is_sequence_parallel;
    if (!may_be_canonical) continue;
    all.push_back(layout.keys());
    all.back().emplace_back("precision.reduction", "canonical");
  }
  return all;
}

TEST_CASE("A layout without an engine has the boxes of the engine's ranks", "[layout_map]") {
  for (const bool is_llama : {false, true}) {
    for (const Keys& keys : keys_of_layouts(is_llama)) {
      std::string text = is_llama ? "llama" : "gpt2";
      for (const auto& [key, value] : keys) text += " " + key + "=" + value;
      INFO(text);
      const Config config = laid_out_config(is_llama, keys);
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
      random_rows(config.get_integer("train.global_batch"), 25, 61, 5);
  for (int i = 0; i < 2; ++i) {
    step(*engine, token_batch(rows, config.get_integer("train.global_batch")));
  }
  const auto operation = engine->save(root, -1);
  REQUIRE(operation->wait(60000));
  operation->result();
  engine->close(-1);
  return join_path(root, step_name(2));
}

TEST_CASE("A conversion says what it cannot do and leaves no step", "[layout_map]") {
  const StepFolder folder;
  Env& env = posix_env();
  Files& files = env.files;
  const std::string original = save_step(laid_out_config(false, {}), folder / "a");
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
  CHECK(word(laid_out_config(false, {{"layout.tensor", "5"}}), false) == "argument");
  CHECK(word(laid_out_config(false, {{"layout.tensor", "auto"}}), false) == "argument");
  CHECK_FALSE(files.exists(folder / "b"));
  CHECK(word(laid_out_config(false, {}), true) == "cancelled");
  CHECK(list_root(files, folder / "b").steps.empty());
  CHECK(word(laid_out_config(false, {}), false).empty());
  CHECK(word(laid_out_config(false, {}), false) == "step_exists");
  CHECK(word(laid_out_config(false, {{"checkpoint.on_existing", "replace"}}), false).empty());
}

TEST_CASE("A conversion may leave canonical sums", "[layout_map]") {
  const StepFolder folder;
  Env& env = posix_env();
  const Keys canonical = {{"precision.reduction", "canonical"}};
  const std::string original = save_step(laid_out_config(false, canonical), folder / "a");
  Log log(env.clock);
  const auto convert = [&](const Keys& keys) {
    AsyncOperation operation(env.clock);
    convert_checkpoint(env, &log, *open_checkpoint_source(env.files, original),
                       laid_out_config(false, keys), folder / "b", operation);
  };
  Keys keys = {{"layout.data", "4"}};
  std::string word;
  try {
    convert(keys);
  } catch (const Error& error) {
    word = error.word();
  }
  CHECK(word == "argument");
  keys.emplace_back("precision.reduction", "ordered");
  convert(keys);
  CHECK(list_root(env.files, folder / "b").steps.size() == 1);
}

}  // namespace
}  // namespace plait::test
