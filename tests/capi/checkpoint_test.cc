#include <algorithm>
#include <catch2/catch.hpp>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

namespace {

/// A run of one tiny model that can save, and the folder of its checkpoints.
class CheckpointRun {
 public:
  explicit CheckpointRun(const std::string& more = "{}") {
    config_ = host::make_config(context_, host::tiny_model());
    require(plait_config_load(config_, more.data(), static_cast<int64_t>(more.size()), err_));
    require(plait_group_create(context_, config_, 0, ranks(), ranks(), group_.out(), err_));
    require(plait_engine_create(group_, config_, 60000, engine_.out(), err_));
    require(plait_batch_create(engine_, PLAIT_BATCH_GLOBAL, batch_.out(), err_));
    std::vector<int32_t> tokens;
    for (int i = 0; i < 2 * 9; ++i) tokens.push_back(i * 7 % 256);
    require(plait_batch_set(batch_, "tokens", tokens.data(), 2, 9, err_));
  }

  plait_context* context() const { return context_; }
  plait_config* config() const { return config_; }
  plait_engine* engine() const { return engine_; }
  std::string path(const std::string& name) const { return folder_.path(name); }
  const host::Folder& folder() const { return folder_; }

  double train(int steps) {
    auto metrics = host::sized<plait_metrics>();
    for (int i = 0; i < steps; ++i) {
      require(plait_engine_step(engine_, batch_, 60000, &metrics, err_));
    }
    return metrics.loss;
  }
  /// The report of a save that has ended.
  std::string save(const std::string& root) {
    host::Op op;
    require(plait_checkpoint_save(engine_, path(root).c_str(), 60000, op.out(), err_));
    require(plait_op_wait(op, 60000, err_));
    host::Bytes report;
    require(plait_op_result(op, report.out(), err_));
    return report.text();
  }
  std::string load(const std::string& name) {
    host::Bytes report;
    require(plait_checkpoint_load(engine_, path(name).c_str(), 60000, report.out(), err_));
    return report.text();
  }
  host::Checkpoint open(const std::string& name) {
    host::Checkpoint checkpoint;
    require(plait_checkpoint_open(context_, path(name).c_str(), checkpoint.out(), err_));
    return checkpoint;
  }
  std::string list(const std::string& name) {
    host::Bytes report;
    require(plait_checkpoint_list(context_, path(name).c_str(), report.out(), err_));
    return report.text();
  }

 private:
  int32_t ranks() {
    int64_t ranks = 1;
    for (const char* key : {"layout.tensor", "layout.pipeline", "layout.data"}) {
      host::Bytes value;
      require(plait_config_get(config_, key, value.out(), err_));
      ranks *= std::stoll(value.text());
    }
    return static_cast<int32_t>(ranks);
  }
  void require(int32_t code) {
    INFO(err_.message());
    REQUIRE(code == PLAIT_OK);
  }

  host::Folder folder_;
  Err err_;
  host::Context context_ = host::make_context();
  host::Config config_;
  host::Group group_;
  host::Engine engine_;
  host::Batch batch_;
};

std::string report_of(plait_checkpoint* checkpoint) {
  Err err;
  host::Bytes report;
  REQUIRE(plait_checkpoint_report(checkpoint, report.out(), err) == PLAIT_OK);
  return report.text();
}

std::vector<plait_entry_info> entries_of(plait_checkpoint* checkpoint) {
  std::vector<plait_entry_info> entries;
  Err err;
  for (int64_t i = 0; i < plait_checkpoint_entry_count(checkpoint); ++i) {
    entries.push_back(host::sized<plait_entry_info>());
    REQUIRE(plait_checkpoint_entry_at(checkpoint, i, &entries.back(), err) == PLAIT_OK);
  }
  return entries;
}

/// Waits for an operation and returns its code.
int32_t outcome(plait_op* op, Err& err) { return plait_op_wait(op, 60000, err); }

void flip_bit(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const char* const kStep2 = "step-000000000002";
const char* const kStep3 = "step-000000000003";

}  // namespace

TEST_CASE("A save is listed, opened, and what another engine loads", "[capi][checkpoint]") {
  CheckpointRun first;
  first.train(2);
  const std::string saved = first.save("root");
  CHECK(holds(saved, kStep2));
  const double next = first.train(1);
  first.save("root");
  const std::string listing = first.list("root");
  CHECK(listing.find(kStep3) < listing.find(kStep2));
  CHECK(holds(listing, "\"bad\":[]"));

  CheckpointRun second(R"({"layout":{"tensor":2}})");
  Err err;
  host::Bytes report;
  const std::string step = first.path(std::string("root/") + kStep2);
  REQUIRE(plait_checkpoint_load(second.engine(), step.c_str(), 60000, report.out(), err) ==
          PLAIT_OK);
  CHECK(holds(report.text(), "\"step\":2"));
  CHECK(std::abs(second.train(1) / next - 1) < 1e-5);
  CHECK(first.list("root") == listing);
  host::Bytes nothing;
  CHECK(plait_checkpoint_list(first.context(), first.path("none").c_str(), nothing.out(), err) ==
        PLAIT_NOT_FOUND);
}

TEST_CASE("A load that is asked to stop has no effect, and the next one runs",
          "[capi][checkpoint]") {
  CheckpointRun run;
  Err err;
  run.train(1);
  run.save("root");
  const double next = run.train(1);
  host::Bytes report;
  plait_engine_request_stop(run.engine());
  CHECK(plait_checkpoint_load(run.engine(), run.path("root").c_str(), -1, report.out(), err) ==
        PLAIT_STOPPED);
  CHECK(static_cast<plait_bytes*>(report) == nullptr);
  CHECK(err.get() == nullptr);
  CHECK(holds(run.load("root"), "\"step\":1"));
  CHECK(run.train(1) == next);
}

TEST_CASE("An open step has its tensors, kinds and properties", "[capi][checkpoint]") {
  CheckpointRun run;
  Err err;
  const struct {
    const char* name;
    int32_t type;
    int64_t integer;
    double real;
    const char* text;
  } properties[] = {
      {"a.integer", PLAIT_PROPERTY_INTEGER, std::numeric_limits<int64_t>::max(), 0, nullptr},
      {"b.zero", PLAIT_PROPERTY_REAL, 0, -0.0, nullptr},
      {"c.nan", PLAIT_PROPERTY_REAL, 0, std::nan(""), nullptr},
      {"d.text", PLAIT_PROPERTY_TEXT, 0, 0, "\xF0\x9F\x8C\xBE and more"}};
  for (const auto& p : properties) {
    REQUIRE(plait_engine_set_property(run.engine(), p.name, p.type, p.integer, p.real, p.text,
                                      err) == PLAIT_OK);
  }
  run.train(2);
  run.save("root");
  const host::Checkpoint checkpoint = run.open("root");
  const std::string report = report_of(checkpoint);
  for (const char* part : {"\"format\":\"plait\"", "\"step\":2", "\"model.hidden\":\"16\"",
                           "\"tensor\":1", "\"adamw\"", "\"skipped\":[]", "\"state_digest\""}) {
    INFO(part);
    CHECK(holds(report, part));
  }
  const std::vector<plait_entry_info> entries = entries_of(checkpoint);
  REQUIRE(entries.size() > 4 + 3 * 16);
  const size_t tensors = entries.size() - 4;
  for (size_t i = 0; i < tensors; ++i) {
    const plait_entry_info& entry = entries[i];
    CHECK(entry.valid == (PLAIT_ENTRY_TENSOR | PLAIT_ENTRY_DIGEST));
    if (i > 0) {
      const plait_entry_info& before = entries[i - 1];
      const int order = std::strcmp(before.name, entry.name);
      CHECK((order < 0 || (order == 0 && before.kind < entry.kind)));
    }
    const void* data = nullptr;
    int64_t bytes = 0;
    REQUIRE(plait_checkpoint_map(checkpoint, entry.name, static_cast<int32_t>(entry.kind), &data,
                                 &bytes, err) == PLAIT_OK);
    REQUIRE(bytes == entry.elements * 4);
    std::vector<char> live(static_cast<size_t>(bytes));
    REQUIRE(plait_engine_tensor_read(run.engine(), entry.name, static_cast<int32_t>(entry.kind),
                                     PLAIT_DTYPE_FLOAT32, 60000, live.data(), bytes,
                                     err) == PLAIT_OK);
    CHECK(std::memcmp(live.data(), data, live.size()) == 0);
  }
  for (size_t i = 0; i < 4; ++i) {
    const plait_entry_info& entry = entries[tensors + i];
    CHECK(entry.valid == PLAIT_ENTRY_PROPERTY);
    CHECK(entry.kind == 0);
    CHECK(entry.name == std::string(properties[i].name));
    CHECK(entry.type == properties[i].type);
    CHECK(entry.integer == properties[i].integer);
    CHECK(std::memcmp(&entry.real, &properties[i].real, sizeof(double)) == 0);
    if (properties[i].text != nullptr) CHECK(entry.text == std::string(properties[i].text));
  }
  CHECK(plait_checkpoint_map(checkpoint, "none", 1, nullptr, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_map(checkpoint, entries[0].name, PLAIT_KIND_GRADIENT, nullptr, nullptr,
                             err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("With checkpoint.mmap a tensor in one piece is the file itself", "[capi][checkpoint]") {
  const auto is_of_shard = [](const void* data) {
    std::ifstream maps("/proc/self/maps");
    const auto address = reinterpret_cast<uintptr_t>(data);
    for (std::string line; std::getline(maps, line);) {
      uintptr_t begin = 0, end = 0;
      if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2) continue;
      if (begin <= address && address < end) return holds(line, "s00000.plt");
    }
    return false;
  };
  CheckpointRun run;
  run.train(1);
  run.save("root");
  Err err;
  const host::Checkpoint mapped = run.open("root"), read = run.open("root");
  CHECK(plait_checkpoint_set(mapped, "checkpoint.verify", "full", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_set(mapped, "checkpoint.mmap", "perhaps", err) == PLAIT_INVALID_ARGUMENT);
  REQUIRE(plait_checkpoint_set(mapped, "checkpoint.mmap", "true", err) == PLAIT_OK);
  const plait_entry_info entry = entries_of(mapped)[0];
  const auto kind = static_cast<int32_t>(entry.kind);
  const void *shown = nullptr, *copied = nullptr, *again = nullptr;
  int64_t bytes = 0;
  REQUIRE(plait_checkpoint_map(mapped, entry.name, kind, &shown, &bytes, err) == PLAIT_OK);
  REQUIRE(plait_checkpoint_map(read, entry.name, kind, &copied, nullptr, err) == PLAIT_OK);
  CHECK(is_of_shard(shown));
  CHECK_FALSE(is_of_shard(copied));
  CHECK(std::memcmp(shown, copied, static_cast<size_t>(bytes)) == 0);
  REQUIRE(plait_checkpoint_set(mapped, "checkpoint.mmap", nullptr, err) == PLAIT_OK);
  REQUIRE(plait_checkpoint_map(mapped, entry.name, kind, &again, nullptr, err) == PLAIT_OK);
  CHECK(again == shown);  // it lives as long as the handle
}

TEST_CASE("Damage is found, listed, and passed over by a root", "[capi][checkpoint]") {
  CheckpointRun run;
  run.train(2);
  run.save("root");
  run.train(1);
  run.save("root");
  Err err;
  host::Op op;
  for (const int32_t is_full : {0, 1}) {
    const host::Checkpoint good = run.open("root");
    REQUIRE(plait_checkpoint_verify(good, is_full, op.out(), err) == PLAIT_OK);
    CHECK(outcome(op, err) == PLAIT_OK);
    auto progress = host::sized<plait_progress>();
    REQUIRE(plait_op_progress(op, &progress, err) == PLAIT_OK);
    CHECK(progress.state == PLAIT_OP_DONE);
    CHECK(progress.done_bytes >= progress.total_bytes);
    CHECK(progress.total_bytes > 0);
  }

  const std::string shard = std::string("root/") + kStep3 + "/s00000.plt";
  flip_bit(run.path(shard), 4096 + 8);
  flip_bit(run.path(shard), static_cast<int64_t>(std::filesystem::file_size(run.path(shard))) - 1);
  const host::Checkpoint damaged = run.open(std::string("root/") + kStep3);
  REQUIRE(plait_checkpoint_verify(damaged, 0, op.out(), err) == PLAIT_OK);
  CHECK(outcome(op, err) == PLAIT_DATA_LOSS);
  CHECK(err.word() == "corrupt");
  CHECK(holds(err.message(), "file=s00000.plt offset=4096"));
  const std::string details = err.details();
  const size_t first = details.find("\"file\":\"s00000.plt\"", details.find("\"damage\":"));
  REQUIRE(first != std::string::npos);
  CHECK(details.find("\"file\":\"s00000.plt\"", first + 1) != std::string::npos);

  CHECK(holds(run.load("root"), kStep3));
  CHECK(holds(report_of(run.open("root")), "\"step\":3"));  // its manifest is right
  flip_bit(run.path(std::string("root/") + kStep3 + "/MANIFEST"), 100);
  const std::string report = report_of(run.open("root"));
  CHECK(holds(report, "\"step\":2"));
  CHECK(holds(report, kStep3));
  CHECK(holds(run.list("root"), "\"bad\":[{"));
  host::Checkpoint none;
  CHECK(plait_checkpoint_open(run.context(), run.path(std::string("root/") + kStep3).c_str(),
                              none.out(), err) == PLAIT_DATA_LOSS);
}

TEST_CASE("A step is converted to other layouts and back", "[capi][checkpoint]") {
  CheckpointRun run;
  run.train(2);
  run.save("root");
  Err err;
  host::Op op;
  std::string from = "root";
  for (const char* layout : {R"({"layout":{"tensor":2,"data":2,"zero":1}})",
                             R"({"layout":{"data":2,"zero":3}})", "{}"}) {
    const host::Config config = host::make_config(run.context(), layout);
    const std::string to = from + "x";
    const host::Checkpoint source = run.open(from);
    REQUIRE(plait_checkpoint_convert(source, config, run.path(to).c_str(), op.out(), err) ==
            PLAIT_OK);
    const int32_t code = outcome(op, err);
    INFO(err.message());
    REQUIRE(code == PLAIT_OK);
    const host::Checkpoint converted = run.open(to);
    REQUIRE(plait_checkpoint_verify(converted, 1, op.out(), err) == PLAIT_OK);
    CHECK(outcome(op, err) == PLAIT_OK);
    from = to;
  }
  const std::string file = std::string("/") + kStep2 + "/s00000.plt";
  CHECK((host::read_file(run.path("root" + file)) == host::read_file(run.path(from + file))));
  const host::Checkpoint source = run.open("root");
  const host::Config bad = host::make_config(run.context(), R"({"layout":{"tensor":3}})");
  REQUIRE(plait_checkpoint_convert(source, bad, run.path("bad").c_str(), op.out(), err) ==
          PLAIT_OK);
  CHECK(outcome(op, err) == PLAIT_INVALID_ARGUMENT);
  CHECK_FALSE(std::filesystem::exists(run.path("bad")));
}

TEST_CASE("Weights go from Hugging Face to a step and back bit-equal", "[capi][checkpoint]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  const host::Context context = host::make_context();
  Err err;
  host::Op op;
  host::Checkpoint source, native, exported;
  REQUIRE(plait_checkpoint_open(context, folder.path("m").c_str(), source.out(), err) == PLAIT_OK);
  const host::Config layout =
      host::make_config(context, R"({"layout":{"tensor":2,"data":2},"precision.compute":"bf16"})");
  REQUIRE(plait_checkpoint_convert(source, layout, folder.path("root").c_str(), op.out(), err) ==
          PLAIT_OK);
  const int32_t code = outcome(op, err);
  INFO(err.message());
  REQUIRE(code == PLAIT_OK);
  REQUIRE(plait_checkpoint_open(context, folder.path("root").c_str(), native.out(), err) ==
          PLAIT_OK);
  for (const plait_entry_info& entry : entries_of(native)) {
    if (entry.kind == 0) {
      CHECK(entry.name == std::string("hf.config"));
      continue;
    }
    CHECK(entry.kind == PLAIT_KIND_MASTER);
    const void *a = nullptr, *b = nullptr;
    int64_t bytes = 0;
    REQUIRE(plait_checkpoint_map(native, entry.name, PLAIT_KIND_MASTER, &a, &bytes, err) ==
            PLAIT_OK);
    REQUIRE(plait_checkpoint_map(source, entry.name, PLAIT_KIND_PARAM, &b, nullptr, err) ==
            PLAIT_OK);
    CHECK(std::memcmp(a, b, static_cast<size_t>(bytes)) == 0);
  }
  REQUIRE(plait_checkpoint_export_hf(native, nullptr, folder.path("out").c_str(), op.out(), err) ==
          PLAIT_OK);
  REQUIRE(outcome(op, err) == PLAIT_OK);
  REQUIRE(plait_checkpoint_open(context, folder.path("out").c_str(), exported.out(), err) ==
          PLAIT_OK);
  for (const plait_entry_info& entry : entries_of(exported)) {
    const void *a = nullptr, *b = nullptr;
    int64_t bytes = 0;
    REQUIRE(plait_checkpoint_map(exported, entry.name, PLAIT_KIND_PARAM, &a, &bytes, err) ==
            PLAIT_OK);
    REQUIRE(plait_checkpoint_map(source, entry.name, PLAIT_KIND_PARAM, &b, nullptr, err) ==
            PLAIT_OK);
    CHECK(std::memcmp(a, b, static_cast<size_t>(bytes)) == 0);
  }
  CHECK(holds(host::read_file(folder.path("out/config.json")), "GPT2LMHeadModel"));
}

TEST_CASE("A save and a load check their arguments first", "[capi][checkpoint]") {
  CheckpointRun run;
  Err err;
  host::Op op;
  host::Bytes report;
  CHECK(plait_checkpoint_save(run.engine(), nullptr, -1, op.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_save(run.engine(), "x", 0, op.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_load(run.engine(), nullptr, -1, report.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_load(run.engine(), run.path("none").c_str(), -1, report.out(), err) ==
        PLAIT_NOT_FOUND);
  std::filesystem::create_directory(run.path("empty"));
  CHECK(plait_checkpoint_load(run.engine(), run.path("empty").c_str(), -1, report.out(), err) ==
        PLAIT_NOT_FOUND);
  CHECK(err.word() == "no_checkpoint");
  CHECK(plait_engine_state(run.engine()) == PLAIT_ENGINE_READY);
  run.train(1);
}
