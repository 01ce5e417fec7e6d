#include "kernels/device/memory.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/base/error.h"

using namespace plait;

TEST_CASE("buffers are aligned, zeroed and counted", "[memory]") {
  MemoryLedger ledger;
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{4097}, int64_t{2} << 20, (int64_t{5} << 20) + 3}) {
    CAPTURE(bytes);
    Buffer buffer(bytes, MemoryCategory::kWeights, &ledger);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0);
    CHECK(buffer.bytes() == bytes);
    CHECK(std::all_of(buffer.data(), buffer.data() + bytes, [](char c) { return c == 0; }));
    std::fill(buffer.data(), buffer.data() + bytes, 'x');
    CHECK(ledger.bytes(MemoryCategory::kWeights) == bytes);
    CHECK(ledger.total() == bytes);
  }
  CHECK(ledger.total() == 0);
  CHECK(ledger.peak() == (int64_t{5} << 20) + 3);
}

TEST_CASE("a moved buffer is counted once", "[memory]") {
  MemoryLedger ledger;
  Buffer first(100, MemoryCategory::kOptimizer, &ledger);
  char* data = first.data();
  Buffer second = std::move(first);
  CHECK(second.data() == data);
  CHECK(ledger.total() == 100);
  second = Buffer(50, MemoryCategory::kGradients, &ledger);
  CHECK(ledger.bytes(MemoryCategory::kOptimizer) == 0);
  CHECK(ledger.bytes(MemoryCategory::kGradients) == 50);
  CHECK(ledger.peak() == 150);
}

TEST_CASE("a request beyond all memory says how much it was", "[memory]") {
  MemoryLedger ledger;
  try {
    const Buffer buffer(int64_t{1} << 60, MemoryCategory::kActivations, &ledger);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == Code::kResourceExhausted);
    CHECK(error.word() == "no_memory");
    CHECK(error.message().find("need=1152921504606846976") != std::string::npos);
    CHECK(error.message().find("category=activations") != std::string::npos);
  }
  CHECK(ledger.total() == 0);
}

TEST_CASE("views lie inside their buffer", "[memory]") {
  const Buffer buffer(64, MemoryCategory::kWeights, nullptr);
  CHECK(buffer.view(DType::kFloat32, {4, 4}).data == buffer.data());
  CHECK(buffer.view(DType::kBFloat16, {16}, 32).data == buffer.data() + 32);
  CHECK_THROWS_AS(buffer.view(DType::kFloat32, {4, 4}, 4), Error);
}

TEST_CASE("the workspace measures, then holds just that much", "[memory]") {
  MemoryLedger ledger;
  Workspace workspace;
  const auto use = [&] {
    Workspace::Frame outer(workspace);
    char* a = static_cast<char*>(outer.take(100));
    {
      Workspace::Frame inner(workspace);
      char* b = static_cast<char*>(inner.take(1));
      CHECK(b == a + 128);
      CHECK(reinterpret_cast<uintptr_t>(inner.take<double>(8)) % 64 == 0);
    }
    const TensorView again = outer.tensor(DType::kFloat16, {3, 5});
    CHECK(again.data == a + 128);  // what the inner frame had
    CHECK(again.is_present());
  };
  CHECK(workspace.is_measuring());
  use();
  CHECK(workspace.needed() == 128 + 64 + 64);
  workspace.allocate(&ledger);
  CHECK_FALSE(workspace.is_measuring());
  CHECK(ledger.bytes(MemoryCategory::kWorkspace) == 256);
  use();
  Workspace::Frame frame(workspace);
  CHECK(frame.take(256) != nullptr);
  try {
    frame.take(1);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.word() == "invariant");
    CHECK(error.message().find("need=257") != std::string::npos);
    CHECK(error.message().find("have=256") != std::string::npos);
  }
}
