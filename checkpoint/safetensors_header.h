// The header of a safetensors file: a table of tensors in JSON. Hostile text: everything in it is
// tested, and memory is bounded by the header's size and fixed limits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/tensor.h"

namespace plait {

/// Element types that models are read from; the format's others are known by their size alone.
enum class FileDType : uint8_t { kF64, kF32, kF16, kBF16, kOther };

struct SafetensorsEntry {
  std::string name;
  std::array<int64_t, Shape::kMaxDims> size{};  ///< the first four dims
  int32_t dims = 0;                             ///< may exceed four in tensors nobody reads
  FileDType dtype = FileDType::kOther;
  uint8_t type_row = 0;  ///< which of the format's types, for `type_name`
  int64_t offset = 0;    ///< of the first byte, in the file; of any alignment
  int64_t bytes = 0;

  const char* type_name() const;  ///< "F32", "BOOL", …
  int64_t element_bytes() const;  ///< 0 for kOther
  std::string shape_text() const;
  bool has_shape(const Shape& shape) const;
};

struct SafetensorsLimits {
  static constexpr int64_t kHeaderBytes = 100'000'000;
  static constexpr int64_t kTensors = 1 << 17;
  static constexpr int64_t kNameBytes = 1 << 24;  ///< all names and metadata keys together
};

/// Parses the JSON text `header` of a file whose data section begins at `data_offset` and has
/// `data_bytes`. Entries come sorted by name; their ranges tile the data section. Any defect is
/// `invalid_field` with file, field, value and limit.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, int64_t data_offset,
                                                       int64_t data_bytes, const std::string& file);

}  // namespace plait
