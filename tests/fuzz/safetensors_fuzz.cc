// Safetensors files from hostile bytes: opening either throws plait::Error, or gives tensors whose
// bytes tile the data section and can all be read. The first byte says which part is mutated: the
// whole file, or a header to which a true length and data are added; or an index.json.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_index.h"
#include "checkpoint/safetensors.h"
#include "kernels/base/error.h"
#include "tests/support/memory_files.h"

namespace plait {
namespace {

void require(bool condition) {
  if (!condition) std::terminate();
}

void read_tensor(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  constexpr int64_t kMostElements = 1 << 16;
  const int64_t size = entry.element_bytes();
  if (size == 0 || entry.bytes / size > kMostElements) return;
  const int64_t count = entry.bytes / size;
  std::vector<float> whole(static_cast<size_t>(count)), again(static_cast<size_t>(count));
  file.read(entry, 0, count, whole.data());
  if (entry.dims != 2) return;
  const FileRectangle all{0, entry.size[0], 0, entry.size[1]};
  file.read_rectangle(entry, all, true, again.data());
  if (count == 0) return;  // rows without columns may be any number
  for (int64_t r = 0; r < all.rows; ++r) {
    for (int64_t c = 0; c < all.columns; ++c) {
      const float a = whole[static_cast<size_t>(r * all.columns + c)];
      const float b = again[static_cast<size_t>(c * all.rows + r)];
      require(std::memcmp(&a, &b, sizeof a) == 0);
    }
  }
}

void read_file_bytes(std::string bytes) {
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  MemoryFiles files;
  files.put("f", std::move(bytes));
  const SafetensorsFile file(files, "f");
  int64_t sum = 0;
  const std::string* previous = nullptr;
  for (const SafetensorsEntry& entry : file.entries()) {
    require(entry.bytes >= 0 && entry.offset >= 8 && entry.offset <= file_bytes - entry.bytes);
    require(previous == nullptr || *previous < entry.name);
    previous = &entry.name;
    sum += entry.bytes;
    try {
      read_tensor(file, entry);
    } catch (const Error& error) {
      require(error.word() == "dtype_overflow");
    }
  }
  uint64_t header = 0;
  files.open_read("f")->read_exactly(&header, 8, 0, "invariant");
  require(sum == file_bytes - 8 - static_cast<int64_t>(header));
}

void read_bytes(uint8_t kind, std::string rest) {
  if (kind % 4 == 0) {
    read_file_bytes(std::move(rest));
  } else if (kind % 4 == 1) {
    const uint64_t header = rest.size();
    const std::string data(kind / 4, '\x3f');
    read_file_bytes(std::string(reinterpret_cast<const char*>(&header), 8) + rest + data);
  } else if (kind % 4 == 2) {
    MemoryFiles files;
    files.put(std::string("d/") + kHfIndexFile, std::move(rest));
    for (const std::string& shard : read_hf_index(files, "d").shards) {
      require(shard.find('/') == std::string::npos);
    }
  } else {
    const HfConfig config = parse_hf_config(std::move(rest), "config.json");
    const std::string text = write_hf_config(config.facts, DType::kFloat32, config.text);
    require(parse_hf_config(text, "written").facts == config.facts);
  }
}

}  // namespace
}  // namespace plait

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    plait::read_bytes(data[0], std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const plait::Error& error) {
    plait::require(error.word() == "invalid_field" || error.word() == "unsupported_model");
  }
  return 0;
}
