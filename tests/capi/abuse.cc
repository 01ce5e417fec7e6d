#include "tests/capi/abuse.h"

#include <catch2/catch.hpp>

namespace abuse {
namespace {

int64_t put_nothing(void*, const char*, const void*, int64_t) { return 1; }
int64_t get_nothing(void*, const char*, int64_t, plait_reply*) { return 1; }

}  // namespace

void judge(const char* where, int32_t code, const plait_error* err, Expect expect, bool is_told) {
  INFO(where);
  INFO(plait_error_message(err));
  if (expect == Expect::bad_handle) {
    CHECK(code == PLAIT_INVALID_ARGUMENT);
    CHECK(std::string(plait_error_word(err)) == "bad_handle");
  }
  if (expect == Expect::fails) CHECK(code != PLAIT_OK);
  if (!is_told) return;
  CHECK((err == nullptr) == (code == PLAIT_OK));
  if (err == nullptr) return;
  CHECK(plait_error_code(err) == code);
  CHECK(code != PLAIT_INTERNAL);
  const std::string word = plait_error_word(err), message = plait_error_message(err);
  CHECK(!word.empty());
  CHECK(message.rfind(word + ": ", 0) == 0);
}

World& World::get() {
  static World* const world = new World;  // lives as long as the process, as a host's handles may
  return *world;
}

World::World() {
  host::Err err;
  const auto require = [&](int32_t code) {
    INFO(err.message());
    REQUIRE(code == PLAIT_OK);
  };
  folder_.write("d.bin", std::string(4000, '\1'));
  host::write_tiny_gpt2(folder_.path("m"));
  context = host::make_context();
  config = host::make_config(context, host::tiny_model());
  require(plait_config_set(config, "data.train", folder_.path("d.bin").c_str(), err));
  require(plait_config_set(config, "data.token_type", "uint16", err));
  require(plait_config_set(config, "model.vocab_size", "300", err));
  group = host::make_group(context, config);
  engine_group = host::make_group(context, config);
  require(plait_engine_create(engine_group, config, 60000, engine.out(), err));
  require(plait_batch_create(engine, PLAIT_BATCH_GLOBAL, batch.out(), err));
  require(plait_dataset_open(context, config, "train", dataset.out(), err));
  require(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err));
  require(plait_checkpoint_open(context, folder_.path("m").c_str(), checkpoint.out(), err));
  require(plait_tokenizer_encode_file(tokenizer, nullptr, folder_.path("d.bin").c_str(),
                                      folder_.path("out.bin").c_str(), op.out(), err));
  require(plait_op_wait(op, 60000, err));
  require(plait_op_result(op, bytes.out(), err));
  plait_context_set_log_level(nullptr, 1, &error);
  kv.put = put_nothing;
  kv.get = get_nothing;
  if (std::string(plait_build_info("feature.quarantine")) == "yes") {
    plait_context* gone = host::make_context().release();
    plait_context_free(gone);
    freed_ = gone;
  }
}

}  // namespace abuse
