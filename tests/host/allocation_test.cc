// A5: malloc, mmap or pthread_create fails at the n-th call, n = 1, 2, … until none does: always a
// code with word no_memory, never an end of the process; no descriptor, thread or memory is left;
// the state is unchanged or the engine says that it is lost.
//
// The program's own functions serve all libraries of the process. Requests of the dynamic linker
// and of the OpenMP runtime are let through: the latter ends the process when its tables of some
// hundred bytes cannot be had.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <oneapi/dnnl/dnnl.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/host/process_state.h"
#include "tests/host/rig.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

constexpr int64_t kNever = INT64_MAX;
std::atomic<int64_t> left{kNever};  // requests until one fails
const char* openmp_first = nullptr;
const char* openmp_last = nullptr;

bool fails(const void* caller) {
  if (left.load(std::memory_order_relaxed) == kNever) return false;
  if (caller >= openmp_first && caller < openmp_last) return false;
  return left.fetch_sub(1, std::memory_order_relaxed) == 0;
}

}  // namespace

#define PLAIT_FAIL_HERE(result, code)       \
  if (fails(__builtin_return_address(0))) { \
    errno = code;                           \
    return result;                          \
  }

extern "C" {
void* malloc(size_t bytes) {
  PLAIT_FAIL_HERE(nullptr, ENOMEM)
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  PLAIT_FAIL_HERE(nullptr, ENOMEM)
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  PLAIT_FAIL_HERE(nullptr, ENOMEM)
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  PLAIT_FAIL_HERE(nullptr, ENOMEM)
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  PLAIT_FAIL_HERE(nullptr, ENOMEM)
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  PLAIT_FAIL_HERE(ENOMEM, ENOMEM)
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  PLAIT_FAIL_HERE(MAP_FAILED, ENOMEM)
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  PLAIT_FAIL_HERE(EAGAIN, EAGAIN)
  static const auto real =
      reinterpret_cast<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>(
          dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, argument);
}
}

namespace {

/// Where the OpenMP runtime lies, and no cache of primitives, so that each engine makes its own.
void prepare() {
  static const bool is_done = [] {
    dl_iterate_phdr(
        [](struct dl_phdr_info* object, size_t, void*) {
          if (std::strstr(object->dlpi_name, "libgomp.so") == nullptr) return 0;
          openmp_first = reinterpret_cast<const char*>(object->dlpi_addr);
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto& part = object->dlpi_phdr[i];
            if (part.p_type == PT_LOAD) openmp_last = openmp_first + part.p_vaddr + part.p_memsz;
          }
          return 1;
        },
        nullptr);
    pthread_t thread;  // finds the real function while nothing fails
    pthread_create(
        &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
    pthread_join(thread, nullptr);
    return dnnl_set_primitive_cache_capacity(0) == dnnl_success;
  }();
  REQUIRE(is_done);
}

using Call = std::function<int32_t(plait_error**)>;

/// Calls `body` with the n-th request failing, n = 0, 1, … until none fails, and checks each end.
/// `after` runs with nothing failing; it gets the code. Returns how many requests there were.
int64_t exhaust(const Call& body, const std::function<void(int32_t)>& after = {}) {
  prepare();
  constexpr int64_t kMost = 50000;
  int64_t n = 0;
  for (int warm = 0; warm < 2; ++warm) {
    plait_error* err = nullptr;
    const int32_t code = body(&err);
    INFO(plait_error_message(err));
    REQUIRE(code == PLAIT_OK);
    if (after) after(code);
  }
  const int64_t descriptors = host::descriptor_count(), threads = host::thread_count();
  const int64_t heap = host::heap_bytes();
  for (bool has_failed = true; has_failed && n < kMost; ++n) {
    plait_error* err = nullptr;
    left = n;
    const int32_t code = body(&err);
    has_failed = left.exchange(kNever) < 0;
    const std::string message = plait_error_message(err);
    const bool is_right =
        plait_error_code(err) == code &&
        (code == PLAIT_OK || std::strcmp(plait_error_word(err), "no_memory") == 0);
    const int32_t disposition = plait_error_disposition(err);
    plait_error_free(err);
    if (!is_right) FAIL_CHECK("request " << n << ": code " << code << " " << message);
    if (code != PLAIT_OK && disposition == PLAIT_DISPOSITION_PROCESS_LOST) FAIL_CHECK(message);
    if (after) after(code);
    if (!host::has_descriptors(descriptors)) FAIL("descriptors after request " << n);
    if (!host::has_threads(threads)) FAIL("threads after request " << n);
  }
  CHECK(n < kMost);
  INFO(n << " requests");
  CHECK(host::heap_bytes() - heap < 64 << 10);  // caches of threads fill once; a leak grows with n
  return n;
}

/// What every call of these tests works on, freed in one go.
struct Handles {
  plait_context* context = nullptr;
  plait_config* config = nullptr;
  plait_group* group = nullptr;
  plait_engine* engine = nullptr;
  plait_batch* batch = nullptr;
  ~Handles() {
    plait_batch_free(batch);
    plait_engine_free(engine);
    plait_group_free(group);
    plait_config_free(config);
    plait_context_free(context);
  }
};

const std::vector<int32_t>& rows() {
  static const std::vector<int32_t> ids = host::make_rows(4, 17);
  return ids;
}

}  // namespace

TEST_CASE("A5: a context, a configuration and a group", "[allocation]") {
  const std::string json = host::tiny_model();
  const int64_t requests = exhaust([&](plait_error** err) {
    Handles h;
    int32_t code = plait_context_create(PLAIT_API_VERSION, nullptr, &h.context, err);
    if (code == PLAIT_OK) code = plait_config_create(h.context, &h.config, err);
    if (code == PLAIT_OK) {
      code = plait_config_load(h.config, json.data(), static_cast<int64_t>(json.size()), err);
    }
    if (code == PLAIT_OK) code = plait_group_create(h.context, h.config, 0, 1, 1, &h.group, err);
    return code;
  });
  CHECK(requests > 50);
}

TEST_CASE("A5: an engine with log callback and several threads", "[allocation]") {
  const std::string keys = GENERATE(R"({"threads":1})", R"({"threads":3,"layout.micro_batch":2})",
                                    R"({"threads":2,"precision.compute":"bf16"})");
  auto callbacks = host::sized<plait_host>();
  callbacks.log = [](void*, const plait_log_record*) {};
  const host::Context outer = host::make_context();
  const host::Config config = host::small_config(outer, keys);
  const int64_t requests = exhaust([&](plait_error** err) {
    Handles h;
    int32_t code = plait_context_create(PLAIT_API_VERSION, &callbacks, &h.context, err);
    if (code == PLAIT_OK) code = plait_group_create(h.context, config, 0, 1, 1, &h.group, err);
    if (code == PLAIT_OK) code = plait_engine_create(h.group, config, 60000, &h.engine, err);
    if (code == PLAIT_OK) code = plait_batch_create(h.engine, PLAIT_BATCH_GLOBAL, &h.batch, err);
    if (code == PLAIT_OK) code = plait_batch_set(h.batch, "tokens", rows().data(), 4, 17, err);
    if (code == PLAIT_OK) code = plait_engine_step(h.engine, h.batch, 60000, nullptr, err);
    return code;
  });
  CHECK(requests > 200);
}

TEST_CASE("A5: calls on an engine leave its state or lose it", "[allocation]") {
  const std::string keys = GENERATE(R"({"threads":1})", R"({"precision.compute":"bf16"})");
  host::Rig rig(keys);
  rig.set_tokens(rows());
  const int32_t prompt[] = {1, 2, 3};
  std::vector<float> losses(64), values(1024);
  std::string state = rig.state();
  int64_t lost = 0;
  const auto unchanged = [&](int32_t code) {
    if (plait_engine_state(rig.engine) == PLAIT_ENGINE_READY) {
      if (code != PLAIT_OK && rig.state() != state) FAIL_CHECK("a failed call changed the state");
      if (code == PLAIT_OK) state = rig.state();
      return;
    }
    ++lost;
    rig = host::Rig(keys);
    rig.set_tokens(rows());
    state = rig.state();
  };
  auto metrics = host::sized<plait_metrics>();
  const std::vector<Call> calls = {
      [&](plait_error** err) {
        return plait_batch_set(rig.batch, "tokens", rows().data(), 4, 17, err);
      },
      [&](plait_error** err) {
        return plait_engine_step(rig.engine, rig.batch, 60000, &metrics, err);
      },
      [&](plait_error** err) {
        const int32_t code =
            plait_engine_forward_backward(rig.engine, rig.batch, 60000, &metrics, err);
        return code == PLAIT_OK ? plait_engine_optimizer_step(rig.engine, 60000, &metrics, err)
                                : code;
      },
      [&](plait_error** err) {
        return plait_engine_evaluate(rig.engine, rig.batch, 60000, &metrics, err);
      },
      [&](plait_error** err) {
        return plait_engine_score(rig.engine, rig.batch, 60000, losses.data(), 256, err);
      },
      [&](plait_error** err) {
        host::Bytes tokens;
        return plait_engine_generate(rig.engine, prompt, 3, 20, 60000, tokens.out(), err);
      },
      [&](plait_error** err) {
        return plait_engine_tensor_read(rig.engine, "layers.0.attention.query.weight",
                                        PLAIT_KIND_PARAM, PLAIT_DTYPE_FLOAT32, 60000, values.data(),
                                        4096, err);
      },
      [&](plait_error** err) {
        return plait_engine_tensor_write(rig.engine, "layers.0.attention.query.weight",
                                         PLAIT_KIND_PARAM, PLAIT_DTYPE_FLOAT32, values.data(), 4096,
                                         60000, err);
      },
      [&](plait_error** err) { return plait_engine_set(rig.engine, "generate.seed", "3", err); },
      [&](plait_error** err) {
        host::Bytes report;
        return plait_engine_report(rig.engine, "operations", report.out(), err);
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    INFO("call " << i);
    exhaust(calls[i], unchanged);
  }
  CHECK(plait_engine_step(rig.engine, rig.batch, 60000, nullptr, nullptr) == PLAIT_OK);
  CHECK(lost < 1000);
}

TEST_CASE("A5: data, tokens and weights", "[allocation]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  folder.write("d.bin", std::string(400, '\1'));
  const std::string model = folder.path("m"), text = folder.write("text", "some text\nand more\n");
  const std::string out = folder.path("out");
  const host::Context context = host::make_context();
  const host::Config config = host::small_config(
      context, "{\"data.train\":\"" + folder.path("d.bin") + "\",\"model.vocab_size\":300}");
  exhaust([&](plait_error** err) {
    host::Dataset dataset;
    host::Bytes values;
    int32_t code = plait_dataset_open(context, config, "train", dataset.out(), err);
    if (code == PLAIT_OK) code = plait_dataset_read(dataset, "tokens", 0, 4, values.out(), err);
    return code;
  });
  exhaust([&](plait_error** err) {
    host::Tokenizer tokenizer;
    host::Op op;
    int32_t code = plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err);
    if (code == PLAIT_OK) {
      code =
          plait_tokenizer_encode_file(tokenizer, config, text.c_str(), out.c_str(), op.out(), err);
    }
    return code == PLAIT_OK ? plait_op_wait(op, 60000, err) : code;
  });
  const auto make = [] {
    return std::make_unique<host::Rig>(
        R"({"model":{"layers":1,"hidden":4,"heads":2,"vocab_size":8,"sequence_length":6,
    "tied":true}})");
  };
  auto rig = make();
  const std::string state = rig->state();
  exhaust(
      [&](plait_error** err) {
        host::Bytes report;
        const int32_t code =
            plait_checkpoint_load(rig->engine, model.c_str(), 60000, report.out(), err);
        // Once values are being replaced, there is no way back: the error then says so.
        const bool is_lost = plait_engine_state(rig->engine) == PLAIT_ENGINE_LOST;
        if (code != PLAIT_OK && err != nullptr && *err != nullptr) {
          CHECK(is_lost == (plait_error_disposition(*err) == PLAIT_DISPOSITION_ENGINE_LOST));
        }
        return code;
      },
      [&](int32_t) {
        if (plait_engine_state(rig->engine) == PLAIT_ENGINE_LOST) rig = make();
      });
  CHECK(rig->state() != state);
}

TEST_CASE("A5: checkpoints are saved, loaded, read, verified and written anew", "[allocation]") {
  const host::Folder folder;
  const std::string root = folder.path("root"), good = folder.path("good");
  const std::string out = folder.path("out");
  const auto make = [] {
    auto rig =
        std::make_unique<host::Rig>(R"({"model":{"layers":1,"hidden":8,"heads":2,"tied":true}})");
    rig->good_step();
    return rig;
  };
  const auto finish = [](int32_t code, plait_op* op, plait_error** err) {
    return code == PLAIT_OK ? plait_op_wait(op, 60000, err) : code;
  };
  auto rig = make();
  const auto save = [&](const std::string& path, plait_error** err) {
    host::Op op;
    const int32_t code = plait_checkpoint_save(rig->engine, path.c_str(), 60000, op.out(), err);
    return finish(code, op, err);
  };
  REQUIRE(save(good, nullptr) == PLAIT_OK);
  const std::string state = rig->state();
  std::filesystem::create_directory(root);
  const auto revive = [&](int32_t code) {
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      std::filesystem::remove_all(entry.path());
    }
    std::filesystem::remove_all(out);
    host::Bytes lines;  // each failed save leaves one
    plait_context_log_drain(rig->context, 100, lines.out(), nullptr);
    if (plait_engine_state(rig->engine) == PLAIT_ENGINE_LOST) rig = make();
    if (code == PLAIT_OK && rig->state() != state) FAIL_CHECK("the state is another");
  };
  exhaust([&](plait_error** err) { return save(root, err); }, revive);
  exhaust(
      [&](plait_error** err) {
        return plait_checkpoint_load(rig->engine, good.c_str(), 60000, nullptr, err);
      },
      revive);
  exhaust([&](plait_error** err) {
    host::Checkpoint checkpoint;
    const void* data = nullptr;
    int64_t bytes = 0;
    int32_t code = plait_checkpoint_open(rig->context, good.c_str(), checkpoint.out(), err);
    if (code == PLAIT_OK) {
      code = plait_checkpoint_map(checkpoint, "final_norm.weight", PLAIT_KIND_PARAM, &data, &bytes,
                                  err);
    }
    return code;
  });
  host::Checkpoint checkpoint;
  REQUIRE(plait_checkpoint_open(rig->context, good.c_str(), checkpoint.out(), nullptr) == PLAIT_OK);
  const std::vector<std::function<int32_t(plait_op**, plait_error**)>> operations = {
      [&](plait_op** op, plait_error** err) {
        return plait_checkpoint_verify(checkpoint, 1, op, err);
      },
      [&](plait_op** op, plait_error** err) {
        return plait_checkpoint_convert(checkpoint, rig->config, root.c_str(), op, err);
      },
      [&](plait_op** op, plait_error** err) {
        return plait_checkpoint_export_hf(checkpoint, nullptr, out.c_str(), op, err);
      },
  };
  for (size_t i = 0; i < operations.size(); ++i) {
    INFO("operation " << i);
    exhaust(
        [&](plait_error** err) {
          host::Op op;
          const int32_t code = operations[i](op.out(), err);
          return finish(code, op, err);
        },
        revive);
  }
}
