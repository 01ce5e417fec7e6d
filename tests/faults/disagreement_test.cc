// Processes that were given different things, or do different things: all learn of it by name, in
// time, and go on where nothing has changed.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/data/sampler.h"
#include "tests/engine/data/data_support.h"
#include "tests/faults/fault_cases.h"
#include "tests/faults/process_engines.h"

using namespace plait;
using namespace plait::test;

namespace {

using Endings = std::vector<Ending>;

/// All ended with `word`, soon, and each message has `part`.
void check_all(const Endings& endings, const std::string& word, const std::string& part,
               int64_t within_ms = 5000) {
  for (const Ending& ending : endings) {
    INFO(ending.error.message());
    CHECK(ending.word == word);
    CHECK(has(ending.error.message(), part));
    CHECK(ending.took_ms < within_ms);
  }
}

std::vector<int32_t> part(const std::vector<int32_t>& rows, int64_t first, int64_t count) {
  return {rows.begin() + first * (kFaultSequence + 1),
          rows.begin() + (first + count) * (kFaultSequence + 1)};
}

Batch batch_of(const std::vector<int32_t>& rows) {
  return token_batch(rows, static_cast<int64_t>(rows.size()) / (kFaultSequence + 1));
}

/// All processes make a step on `rows`; their losses.
std::vector<double> step_all(ProcessEngines& engines, const std::vector<int32_t>& rows) {
  std::vector<double> losses(engines.size());
  require_all(engines.each([&](size_t i) { losses[i] = step(engines[i], batch_of(rows)).loss; }),
              "");
  return losses;
}

std::shared_ptr<const Dataset> open_tokens(const std::string& path) {
  DataOptions options;
  options.paths = {path};
  options.sequence_length = kFaultSequence;
  options.vocab_size = kFaultVocabulary;
  return Dataset::open(posix_env().files, options);
}

/// A flat token file of `count` ids.
void write_tokens(const std::string& path, int64_t count, uint64_t seed) {
  const std::vector<int32_t> ids = random_rows(1, count, kFaultVocabulary, seed);
  write_text(path, pack<uint16_t>(std::vector<int64_t>(ids.begin(), ids.end())));
}

}  // namespace

TEST_CASE("R7: degrees whose product is not the world are topology in each process",
          "[faults][disagreement]") {
  ProcessEngines engines({1, 1});
  const Endings endings = engines.create(fault_config(degrees(1, 2, 2)));
  check_all(endings, "topology", "layout.pipeline=2 layout.data=2 world=2");
  for (const Ending& ending : endings) {
    CHECK(ending.error.disposition() == Disposition::kUnchanged);
  }
  // One corrects its call while the others wait for it.
  const Config good = fault_config(degrees(1, 2, 1));
  const Endings mixed = engines.create({good, fault_config(degrees(1, 1, 1))}, 400);
  CHECK(mixed[1].word == "topology");
  CHECK(mixed[0].word == "deadline");
  CHECK(has(mixed[0].error.message(), "missing=[1]"));
  require_all(engines.create(good), "");
  step_all(engines, fault_rows(31));
}

TEST_CASE("R8: keys that differ between processes are named with both values",
          "[faults][disagreement]") {
  ProcessEngines engines({1, 2});
  const Layout layout = degrees(1, 1, 3);
  const auto config = [&](const Keys& keys) {
    Keys all = {{"train.global_batch", "6"}};
    all.insert(all.end(), keys.begin(), keys.end());
    return fault_config(layout, all);
  };
  struct Case {
    const char* key;
    const char* value;
    const char* text;  ///< both values in the error of the first process
  };
  for (const Case& one :
       {Case{"seed", "77", R"("value":"1234","other_rank":1,"other_value":"77")"},
        {"optimizer.lr", "0.5", R"("other_value":"0.5")"},
        {"layout.zero", "2", R"("value":"0","other_rank":1,"other_value":"2")"},
        {"train.global_batch", "12", R"("value":"6","other_rank":1,"other_value":"12")"},
        {"precision.compute", "bf16", R"("value":"fp32","other_rank":1,"other_value":"bf16")"},
        {"model.layers", "5", R"("value":"4","other_rank":1,"other_value":"5")"}}) {
    INFO(one.key);
    const Endings endings = engines.create({config({}), config({{one.key, one.value}})});
    check_all(endings, "mismatch", one.key);
    CHECK(has(endings[0].error.message(), one.text));
    CHECK(has(endings[1].error.message(), R"("other_rank":0)"));
    CHECK(endings[0].error.disposition() == Disposition::kUnchanged);
  }
  // Keys of the machine may differ.
  require_all(engines.create({config({{"threads", "2"}}), config({{"threads", "1"}})}), "");
  const std::vector<double> losses = step_all(engines, fault_rows(32, 6));
  CHECK(losses[0] == losses[1]);
}

TEST_CASE("R8, L10, trap 45: data sets that differ are refused, and the engines go on",
          "[faults][disagreement]") {
  const TempDirectory folder;
  write_tokens(folder.file("a"), 400, 1);
  write_tokens(folder.file("b"), 400, 2);
  write_tokens(folder.file("short"), 300, 1);
  ProcessEngines engines({1, 1});
  require_all(engines.create(fault_config(degrees(1, 1, 2))), "");
  for (const char* other : {"b", "short"}) {
    const Endings endings = engines.each([&](size_t i) {
      engines[i].attach_dataset("train", open_tokens(folder.file(i == 0 ? "a" : other)), 5000);
    });
    check_all(endings, "mismatch", "call=engine_attach_dataset");
    CHECK(endings[0].error.disposition() == Disposition::kUnchanged);
  }
  step_all(engines, fault_rows(33));  // nothing is attached
}

TEST_CASE("L8, trap 44: every process reads its own copy of the data, in one order",
          "[faults][disagreement]") {
  const TempDirectory folders[2];
  for (const TempDirectory& folder : folders) write_tokens(folder.file("tokens"), 150, 3);
  const Config config = fault_config(degrees(1, 1, 2, 1));
  TestEngine alone(config);
  alone->attach_dataset("train", open_tokens(folders[0].file("tokens")), -1);
  ProcessEngines engines({1, 1});
  require_all(engines.create(config), "");
  require_all(engines.each([&](size_t i) {
    engines[i].attach_dataset("train", open_tokens(folders[i].file("tokens")), 5000);
  }),
              "");
  for (int number = 0; number < 6; ++number) {  // several epochs of 18 samples
    Metrics want, got[2];
    alone->step(nullptr, -1, &want);
    require_all(engines.each([&](size_t i) { engines[i].step(nullptr, 5000, &got[i]); }), "");
    for (const Metrics& one : got) {
      CHECK(one.loss == want.loss);
      CHECK(one.grad_norm == want.grad_norm);
    }
  }
}

TEST_CASE("R8: the same call with other rows or another tensor is mismatch",
          "[faults][disagreement]") {
  ProcessEngines engines({1, 1});
  require_all(engines.create(fault_config(degrees(1, 1, 2))), "");
  const std::vector<int32_t> rows[] = {fault_rows(34, 4), fault_rows(34, 8)};
  const Endings endings =
      engines.each([&](size_t i) { forward_backward(engines[i], batch_of(rows[i])); });
  check_all(endings, "mismatch", R"({"rank":0,"call":"engine_forward_backward","value":"4"})");
  check_all(endings, "mismatch", R"({"rank":1,"call":"engine_forward_backward","value":"8"})");
  const Endings tensors = engines.each([&](size_t i) {
    read(engines[i], i == 0 ? "final_norm.weight" : "final_norm.bias", TensorKind::kParam);
  });
  check_all(tensors, "mismatch", "final_norm.bias");
  step_all(engines, fault_rows(35));
}

TEST_CASE("R8: a sequence that two processes supply differently is named, and none is computed",
          "[faults][disagreement]") {
  ProcessEngines engines({1, 1, 2});
  require_all(engines.create(fault_config(degrees(2, 1, 2))), "");
  // Processes 0 and 1 share a replica; process 2 has the other one.
  const std::vector<int32_t> rows = fault_rows(41);
  std::vector<int32_t> other = rows;
  other[2 * (kFaultSequence + 1) + 4] ^= 1;
  const auto each_with = [&](const std::function<void(Engine&, const Batch&)>& call) {
    return engines.each([&](size_t i) { call(engines[i], batch_of(i == 1 ? other : rows)); });
  };
  const std::vector<std::function<void(Engine&, const Batch&)>> calls = {
      [](Engine& engine, const Batch& batch) { step(engine, batch); },
      [](Engine& engine, const Batch& batch) { forward_backward(engine, batch); },
      [](Engine& engine, const Batch& batch) { evaluate(engine, batch); },
      [](Engine& engine, const Batch& batch) {
        std::vector<float> losses(kFaultBatch * kFaultSequence);
        engine.score(batch, 5000, losses.data(), static_cast<int64_t>(4 * losses.size()));
      }};
  for (const auto& call : calls) {
    const Endings endings = each_with(call);
    check_all(endings, "mismatch", "rank=0 other_rank=1 sequence=2");
    CHECK(endings[2].error.disposition() == Disposition::kUnchanged);
  }
  // Who has rows of its own replica alone is compared on these.
  const auto local_step = [&](int32_t changed) {
    return engines.each([&](size_t i) {
      std::vector<int32_t> own = part(rows, i == 2 ? 4 : 0, 4);
      if (i == 2) own[3] = changed;  // nobody else has that row
      Batch batch = batch_of(own);
      batch.scope = BatchScope::kLocal;
      step(engines[i], batch);
    });
  };
  require_all(local_step(7), "");
  const Endings mixed = engines.each([&](size_t i) {
    std::vector<int32_t> own = part(rows, i == 2 ? 4 : 0, 4);
    if (i == 2) own[3] = rows[4 * (kFaultSequence + 1) + 3] ^ 1;
    Batch batch = batch_of(i == 0 ? rows : own);
    if (i != 0) batch.scope = BatchScope::kLocal;
    step(engines[i], batch);
  });
  check_all(mixed, "mismatch", "rank=0 other_rank=2 sequence=4");
  const std::vector<int32_t> tokens = random_rows(kFaultBatch, kFaultSequence, 50, 42);
  const Endings tensors = engines.each([&](size_t i) {
    step(engines[i], i == 2 ? target_batch(tokens, tokens, kFaultBatch) : batch_of(rows));
  });
  check_all(tensors, "mismatch", "tensors=tokens other_tensors=tokens,targets");
  step_all(engines, rows);
  CHECK(engines[2].counter("steps") == 2);
}

TEST_CASE("R10: different calls are desync on all with a table, and the state is unchanged",
          "[faults][disagreement]") {
  ProcessEngines engines({2, 1, 1});
  require_all(engines.create(fault_config(degrees(1, 2, 2, 2))), "");
  const std::vector<int32_t> rows = fault_rows(36);
  step_all(engines, rows);
  const auto weights = [&] {
    std::vector<std::vector<float>> all(engines.size());
    require_all(engines.each([&](size_t i) { all[i] = read_all(engines[i], TensorKind::kParam); }),
                "");
    return all;
  };
  const auto before = weights();
  CHECK(before[0] == before[2]);
  const Endings endings = engines.each([&](size_t i) {
    if (i == 1) {
      evaluate(engines[i], batch_of(rows));
    } else {
      step(engines[i], batch_of(rows));
    }
  });
  check_all(endings, "desync", R"({"rank":2,"ranks":1,"operation":"engine_evaluate","sequence":)");
  check_all(endings, "desync", R"({"rank":0,"ranks":2,"operation":"engine_step","sequence":)");
  for (const Ending& ending : endings) {
    CHECK(ending.error.rank() == 2);
    CHECK(ending.error.disposition() == Disposition::kUnchanged);
  }
  CHECK(weights() == before);
  step_all(engines, rows);
  CHECK(engines[1].counter("steps") == 2);
}

TEST_CASE("R10: who has not come to a call is named, and the call may be repeated",
          "[faults][disagreement]") {
  ProcessEngines engines({1, 2, 1});
  require_all(engines.create(fault_config(degrees(1, 4, 1))), "");
  const std::vector<int32_t> rows = fault_rows(37);
  step_all(engines, rows);
  const Batch batch = batch_of(rows);
  const Endings endings = engines.each([&](size_t i) {
    if (i != 1) engines[i].step(&batch, 400, nullptr);
  });
  for (const size_t i : {size_t{0}, size_t{2}}) {
    INFO(endings[i].error.message());
    CHECK(endings[i].word == "deadline");
    CHECK(has(endings[i].error.message(), "operation=engine_step"));
    CHECK(endings[i].error.disposition() == Disposition::kRetry);
    CHECK(endings[i].took_ms < 2000);
  }
  CHECK(has(endings[0].error.message() + endings[2].error.message(), "missing=[1,2]"));
  step_all(engines, rows);
  CHECK(engines[0].counter("steps") == 2);
}

TEST_CASE("H5: what fails in one process before a call fails the call in all",
          "[faults][disagreement]") {
  const TempDirectory folder;
  ProcessEngines engines({1, 2});
  require_all(engines.create(fault_config(degrees(1, 3, 1))), "");
  const Endings endings = engines.each(
      [&](size_t i) { engines[i].load(folder.file("nothing-" + std::to_string(i)), 5000); });
  CHECK(endings[0].word != "");
  check_all(endings, endings[0].word, "nothing-0");
  CHECK(endings[0].error.code() == endings[1].error.code());
  CHECK(endings[1].error.disposition() == Disposition::kUnchanged);
  step_all(engines, fault_rows(38));
}

TEST_CASE("N1 of faults: what is not finite in one process ends the step of all alike",
          "[faults][disagreement][nonfinite]") {
  constexpr int32_t kRare = kFaultVocabulary - 1;
  for (const Layout& layout : {degrees(1, 2, 2), degrees(2, 2, 1), degrees(1, 1, 4, 2)}) {
    INFO(layout.text());
    ProcessEngines engines({2, 2});
    require_all(engines.create(fault_config(layout, {{"model.tied", "false"}})), "");
    require_all(engines.each([&](size_t i) {
      std::vector<float> table = read(engines[i], "embedding.token.weight", TensorKind::kParam);
      table[static_cast<size_t>(kRare) * 16] = std::numeric_limits<float>::quiet_NaN();
      write(engines[i], "embedding.token.weight", table);
    }),
                "");
    std::vector<int32_t> rows = random_rows(kFaultBatch, kFaultSequence + 1, kRare, 39);
    step_all(engines, rows);
    rows[rows.size() - 3] = kRare;  // of the last data rank
    const Endings endings = engines.each([&](size_t i) { step(engines[i], batch_of(rows)); });
    check_all(endings, "nonfinite_loss", "step=2 ");
    CHECK(endings[0].error.details() == endings[1].error.details());
    CHECK(endings[0].error.disposition() == Disposition::kUnchanged);
    rows[rows.size() - 3] = 0;
    const std::vector<double> losses = step_all(engines, rows);
    CHECK(losses[0] == losses[1]);
    CHECK(engines[0].counter("steps") == 2);
    CHECK(engines[1].counter("steps") == 2);
  }
}

TEST_CASE("P9, trap 30: every process reports the loss of the last stage",
          "[faults][disagreement]") {
  ProcessEngines engines({1, 1, 1});
  require_all(engines.create(fault_config(degrees(1, 3, 1), {{"optimizer.lr", "0"}})), "");
  const std::vector<int32_t> rows = fault_rows(40);
  const std::vector<double> losses = step_all(engines, rows);
  std::vector<double> evaluated(engines.size());
  require_all(
      engines.each([&](size_t i) { evaluated[i] = evaluate(engines[i], batch_of(rows)).loss; }),
      "");
  for (size_t i = 0; i < engines.size(); ++i) {
    CHECK(losses[i] == losses[0]);
    CHECK(evaluated[i] == Approx(losses[0]).epsilon(1e-6));
  }
  CHECK(losses[0] == Approx(std::log(double{kFaultVocabulary})).epsilon(0.05));
}
