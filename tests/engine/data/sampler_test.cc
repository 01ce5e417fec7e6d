#include "engine/data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "tests/engine/data/data_support.h"
#include "tests/support/memory_files.h"

using namespace plait;

namespace {

DataOptions options_of(const std::string& path, int64_t sequence_length) {
  DataOptions options;
  options.paths = {path};
  options.sequence_length = sequence_length;
  options.vocab_size = 50257;
  return options;
}

std::vector<int32_t> read_row(const Dataset& data, int64_t ordinal) {
  std::vector<int32_t> row(static_cast<size_t>(data.sequence_length() + 1));
  data.read(ordinal, 1, row.data());
  return row;
}

/// Sample indices of draws [first, first + count).
std::vector<int64_t> samples(const Dataset& data, int64_t first, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(data.locate(first + i).sample);
  return out;
}

/// Documents of `lengths` tokens each, one sequence per document, ids counting from 0.
void put_documents(MemoryFiles& files, const std::string& stem,
                   const std::vector<int64_t>& lengths) {
  IndexText index;
  int64_t tokens = 0;
  index.documents = {0};
  for (const int64_t length : lengths) {
    index.lengths.push_back(length);
    index.offsets.push_back(2 * tokens);
    index.documents.push_back(static_cast<int64_t>(index.lengths.size()));
    tokens += length;
  }
  files.put(stem + ".idx", index.bytes());
  files.put(stem + ".bin", pack<uint16_t>(counting(0, tokens)));
}

}  // namespace

TEST_CASE("the shuffle is the published permutation", "[sampler]") {
  const Shuffle shuffle(1234, 0, 10);
  std::vector<int64_t> epochs[2];
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (int64_t x = 0; x < 10; ++x) epochs[epoch].push_back(shuffle.permute(epoch, x));
  }
  CHECK(epochs[0] == std::vector<int64_t>{5, 9, 8, 1, 6, 0, 4, 2, 7, 3});
  CHECK(epochs[1] == std::vector<int64_t>{9, 4, 2, 6, 7, 1, 3, 5, 0, 8});
}

TEST_CASE("the shuffle permutes every count", "[sampler]") {
  for (const int64_t count : {1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1000}) {
    const Shuffle shuffle(7, 3, count);
    for (const int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
      std::set<int64_t> seen;
      for (int64_t x = 0; x < count; ++x) seen.insert(shuffle.permute(epoch, x));
      CHECK(static_cast<int64_t>(seen.size()) == count);
      CHECK(*seen.begin() == 0);
      CHECK(*seen.rbegin() == count - 1);
    }
  }
  const int64_t huge = (int64_t{1} << 62) + 1;
  const Shuffle shuffle(7, 3, huge);
  for (int64_t x = 0; x < 100; ++x) {
    CHECK(shuffle.permute(5, huge - 1 - x) < huge);
    CHECK(shuffle.permute(5, huge - 1 - x) >= 0);
  }
}

TEST_CASE("every epoch is a permutation of its own", "[sampler][L2]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 401)));
  const auto data = Dataset::open(files, options_of("a", 4));
  REQUIRE(data->samples_per_epoch() == 100);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order = samples(*data, 100 * epoch, 100);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    CHECK(order == counting(0, 100));
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("an epoch has floor((n - 1)/s) samples", "[sampler][L3][L4]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 94)));
  files.put("b", pack<uint16_t>(counting(0, 100)));
  // 2 ranks of batch 1, sequences of 5: 9 global steps. 4 ranks of batch 2, of 8: 1 whole step.
  CHECK(Dataset::open(files, options_of("a", 5))->samples_per_epoch() == 18);
  CHECK(Dataset::open(files, options_of("a", 5))->samples_per_epoch() / 2 == 9);
  CHECK(Dataset::open(files, options_of("b", 8))->samples_per_epoch() == 12);
  CHECK(Dataset::open(files, options_of("b", 8))->samples_per_epoch() / 8 == 1);
  for (int64_t tokens = 2; tokens < 40; ++tokens) {
    files.put("c", pack<uint16_t>(counting(0, tokens)));
    for (int64_t length = 1; length < tokens; ++length) {
      const auto data = Dataset::open(files, options_of("c", length));
      if (data->samples_per_epoch() != (tokens - 1) / length) FAIL(tokens << " " << length);
    }
  }
}

TEST_CASE("samples cover the stream, each input token once", "[sampler][L6]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(100, 94)));
  DataOptions options = options_of("a", 5);
  const auto data = Dataset::open(files, options);
  const int64_t count = data->samples_per_epoch();
  std::vector<int64_t> inputs;
  for (int64_t sample = 0; sample < count; ++sample) {
    int32_t row[6];
    data->set(0).read(sample, row);
    for (int i = 0; i < 5; ++i) {
      inputs.push_back(row[i]);
      CHECK(row[i + 1] == row[i] + 1);
    }
  }
  CHECK(inputs == counting(100, 5 * count));
  int32_t row[6];
  check_error([&] { data->set(0).read(count, row); }, "argument", {R"("got":18,"limit":18)"});
  check_error([&] { data->set(0).read(-1, row); }, "argument", {R"("got":-1)"});
  check_error([&] { data->read(-1, 1, row); }, "argument", {R"("first":-1)"});
  check_error([&] { data->read(INT64_MAX, 2, row); }, "argument");
}

TEST_CASE("order depends on seed and length, on nothing kept from before", "[sampler][L7]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 6401)));
  const auto order = [&](int64_t length, uint64_t seed) {
    DataOptions options = options_of("a", length);
    options.seed = seed;
    return samples(*Dataset::open(files, options), 0, 90);
  };
  const std::vector<int64_t> first = order(64, 1), second = order(32, 1), third = order(64, 2);
  CHECK(first == order(64, 1));
  CHECK(first != second);
  CHECK(first != third);
  CHECK(files.names() == std::vector<std::string>{"a"});
}

TEST_CASE("sample 3,000,000,000 of a small file", "[sampler][F2]") {
  MemoryFiles files;
  put_documents(files, "d", {7, 20, 14});
  DataOptions options = options_of("d.bin", 3);
  options.shuffle = false;
  const auto data = Dataset::open(files, options);
  REQUIRE(data->samples_per_epoch() == 13);
  const int64_t far = 3'000'000'000;
  CHECK(read_row(*data, far) == read_row(*data, far % 13));
  CHECK(read_row(*data, far)[0] == 3 * (far % 13));
  options.shuffle = true;
  const auto shuffled = Dataset::open(files, options);
  std::vector<int64_t> epoch = samples(*shuffled, far - far % 13, 13);
  CHECK(epoch != samples(*shuffled, 0, 13));
  std::sort(epoch.begin(), epoch.end());
  CHECK(epoch == counting(0, 13));
}

TEST_CASE("splits take whole documents, flat files are cut by token", "[sampler]") {
  MemoryFiles files;
  put_documents(files, "d", std::vector<int64_t>(10, 5));
  files.put("a", pack<uint16_t>(counting(0, 50)));
  for (const std::string path : {"d.bin", "a"}) {
    DataOptions options = options_of(path, 4);
    options.split = {.7, .2, .1};
    options.shuffle = false;
    const int64_t want_first[] = {0, 35, 45}, want_tokens[] = {35, 10, 5};
    for (int64_t role = 0; role < 3; ++role) {
      options.role = role;
      const auto data = Dataset::open(files, options);
      CHECK(data->tokens() == want_tokens[role]);
      CHECK(data->documents() == (path == "a" ? 1 : want_tokens[role] / 5));
      CHECK(read_row(*data, 0)[0] == want_first[role]);
      CHECK(data->samples_per_epoch() == (want_tokens[role] - 1) / 4);
    }
  }
}

TEST_CASE("an empty or too small split is named with its counts", "[sampler][L5][D6]") {
  MemoryFiles files;
  put_documents(files, "d", std::vector<int64_t>(50, 3));
  DataOptions options = options_of("d.bin", 2);
  options.split = {98, 1, 1};
  CHECK(Dataset::open(files, options)->documents() == 49);
  options.role = 1;  // documents 49 … 48
  check_error([&] { Dataset::open(files, options); }, "argument",
              {R"("path":"d.bin")", R"("split":"evaluate")", R"("tokens":0)",
               R"("file_tokens":150)", R"("file_documents":50)"});
  options.role = 2;
  CHECK(Dataset::open(files, options)->tokens() == 3);
  options.sequence_length = 3;
  check_error([&] { Dataset::open(files, options); }, "argument",
              {R"("split":"rest")", R"("tokens":3)", R"("sequence_length":3)"});
  options.role = 5;
  check_error([&] { Dataset::open(files, options); }, "argument", {R"("split":"5")"});
  options.role = 1;
  options.split = {1};
  check_error([&] { Dataset::open(files, options); }, "argument", {R"("split":"evaluate")"});
  files.put("e", "");
  check_error([&] { Dataset::open(files, options_of("e", 3)); }, "dataset_truncated",
              {R"("path":"e")", R"("got":0)"});
}

TEST_CASE("options that make no sense are refused by key", "[sampler]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 50)));
  const auto refused = [&](auto change, const std::vector<std::string>& fields) {
    DataOptions options = options_of("a", 4);
    change(&options);
    check_error([&] { Dataset::open(files, options); }, "argument", fields);
  };
  refused([](DataOptions* o) { o->paths = {}; }, {R"("key":"data.train")"});
  refused([](DataOptions* o) { o->weights = {1, 2}; }, {R"("got":2,"want":1)"});
  refused([](DataOptions* o) { o->weights = {0}; }, {R"("got":0)"});
  refused([](DataOptions* o) { o->sequence_length = 0; }, {"train.sequence_length"});
  refused([](DataOptions* o) { o->split = {}; }, {R"("key":"data.split")"});
  refused([](DataOptions* o) { o->split = {0, 0}; }, {R"("key":"data.split")"});
  refused([](DataOptions* o) { o->split = {1, -.5}; }, {R"("got":-0.5)"});
  refused([](DataOptions* o) { o->role = -1; }, {R"("got":-1)"});
  refused([](DataOptions* o) { o->role = INT64_MAX; }, {R"("key":"data.split")"});
}

TEST_CASE("documents of a sample count from its first token", "[sampler]") {
  MemoryFiles files;
  put_documents(files, "d", {3, 0, 4, 1, 1, 8});
  DataOptions options = options_of("d.bin", 8);
  options.shuffle = false;
  options.isolate_documents = true;
  const auto data = Dataset::open(files, options);
  CHECK(data->isolates_documents());
  std::vector<int32_t> rows(18);
  data->read_documents(0, 2, rows.data());
  CHECK(rows == std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, 2, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("a blend draws from every set's own order", "[sampler]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 41)));
  files.put("b", pack<uint16_t>(counting(1000, 21)));
  files.put("c", pack<uint16_t>(counting(2000, 13)));
  DataOptions options = options_of("a", 4);
  options.paths = {"a", "b", "c"};
  options.weights = {.7, .2, .1};
  const auto data = Dataset::open(files, options);
  CHECK(data->sets() == 3);
  CHECK(data->samples_per_epoch() == 10 + 5 + 3);
  std::vector<int64_t> sets, next(3, 0);
  for (int64_t i = 0; i < 1000; ++i) {
    const SampleSource source = data->locate(i);
    if (i < 10) sets.push_back(source.set);
    const size_t set = static_cast<size_t>(source.set);
    if (source.ordinal != next[set]++) FAIL(i);
    const Shuffle shuffle(1234, source.set, data->set(source.set).samples());
    const int64_t n = data->set(source.set).samples();
    if (source.sample != shuffle.permute(source.ordinal / n, source.ordinal % n)) FAIL(i);
    if (read_row(*data, i)[0] != 1000 * source.set + 4 * source.sample) FAIL(i);
  }
  CHECK(sets == std::vector<int64_t>{0, 0, 1, 0, 0, 2, 0, 0, 1, 0});
  CHECK(data->state_at(1000).drawn == std::vector<int64_t>{700, 200, 100});
  // A resumed run sees the same samples.
  const auto resumed = Dataset::open(files, options);
  resumed->seek(data->state_at(537));
  std::vector<int32_t> want(5 * 40), got(5 * 40);
  data->read(537, 40, want.data());
  resumed->read(537, 40, got.data());
  CHECK(want == got);
  check_error([&] { resumed->seek(BlendState{10, {10, 0, 0}}); }, "argument");
}

TEST_CASE("the fingerprint knows contents, not names", "[sampler][D4][L10]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 400)));
  files.put("b", pack<uint16_t>(counting(0, 400)));
  files.put("c", pack<uint16_t>(counting(0, 404)));
  const auto of = [&](const std::string& path) {
    return Dataset::open(files, options_of(path, 4))->fingerprint();
  };
  CHECK(of("a") == of("b"));
  CHECK(of("a") != of("c"));
  files.at("b").bytes[399] = 77;
  CHECK(of("a") != of("b"));
  DataOptions options = options_of("a", 4);
  options.paths = {"a", "c"};
  const uint64_t forward = Dataset::open(files, options)->fingerprint();
  options.paths = {"c", "a"};
  CHECK(Dataset::open(files, options)->fingerprint() != forward);
  const auto data = Dataset::open(files, options_of("a", 4));
  CHECK(data->set(0).fingerprint() == data->fingerprint());
}

TEST_CASE("threads may read at once", "[sampler]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 4001)));
  files.put("b", pack<uint16_t>(counting(8000, 2001)));
  DataOptions options = options_of("a", 16);
  options.paths = {"a", "b"};
  const auto data = Dataset::open(files, options);
  const auto alone = Dataset::open(files, options);
  std::vector<int32_t> want(500 * 17), got(500 * 17);
  alone->read(0, 500, want.data());
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = t; i < 500; i += 4) data->read(i, 1, got.data() + i * 17);
      });
    }
  }
  CHECK(want == got);
}
