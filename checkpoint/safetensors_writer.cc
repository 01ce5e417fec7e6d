#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr int64_t kChunkElements = 1 << 20;
const char kMetadata[] = R"("__metadata__":{"format":"pt"})";

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat16:
      return "F16";
    default:
      break;
  }
  throw Error("argument", "weights are written as float32, bfloat16 or float16")
      .with("key", "export.dtype")
      .with("value", dtype_name(dtype));
}

int64_t tensor_bytes(const SafetensorsSpec& spec, DType dtype) {
  return spec.shape.elements() * dtype_size(dtype);
}

/// `"name":{…}` of a tensor whose data begins at `begin` of the data section.
std::string entry_text(const SafetensorsSpec& spec, DType dtype, int64_t begin) {
  const int64_t end = begin + tensor_bytes(spec, dtype);
  return json_string(spec.name) + R"(:{"dtype":")" + type_name(dtype) + R"(","shape":)" +
         spec.shape.text() + R"(,"data_offsets":[)" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

template <class T>
void narrow(const float* values, int64_t count, T* out, const std::string& name, int64_t index) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = from_float<T>(values[i]);
    if (!std::isinf(to_float(out[i])) || std::isinf(values[i])) continue;
    throw Error("dtype_overflow", "a finite value would become infinite")
        .with("tensor", name)
        .with("index", index + i)
        .with("value", values[i])
        .with("dtype", dtype_name(DTypeOf<T>::value));
  }
}

}  // namespace

void SafetensorsSize::add(const SafetensorsSpec& spec) {
  text_bytes_ += 1 + static_cast<int64_t>(entry_text(spec, dtype_, data_bytes_).size());
  data_bytes_ += tensor_bytes(spec, dtype_);
}

int64_t SafetensorsSize::file_bytes() const {
  const int64_t braces = 2, metadata = sizeof kMetadata - 1;
  return 8 + round_up(braces + metadata + text_bytes_, 8) + data_bytes_;
}

SafetensorsWriter::SafetensorsWriter(File& file, std::vector<SafetensorsSpec> tensors, DType dtype,
                                     OnChunk on_chunk)
    : file_(file), dtype_(dtype), on_chunk_(std::move(on_chunk)) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string header = "{";
  header += kMetadata;
  int64_t data = 0;
  for (SafetensorsSpec& spec : tensors) {
    header += "," + entry_text(spec, dtype_, data);
    const int64_t bytes = tensor_bytes(spec, dtype_);
    slots_.push_back({std::move(spec), data, false});
    data += bytes;
  }
  header += "}";
  header.resize(static_cast<size_t>(round_up(static_cast<int64_t>(header.size()), 8)), ' ');
  const uint64_t header_bytes = header.size();
  const int64_t data_offset = 8 + static_cast<int64_t>(header_bytes);
  for (Slot& slot : slots_) slot.offset += data_offset;
  file_bytes_ = data_offset + data;
  file_.pwrite(&header_bytes, 8, 0);
  file_.pwrite(header.data(), static_cast<int64_t>(header_bytes), 8);
}

void SafetensorsWriter::write(const std::string& name, const float* values) {
  const auto slot =
      std::lower_bound(slots_.begin(), slots_.end(), name,
                       [](const Slot& a, const std::string& key) { return a.spec.name < key; });
  check(slot != slots_.end() && slot->spec.name == name && !slot->is_written,
        "each tensor of a file is written once");
  const int64_t count = slot->spec.shape.elements(), size = dtype_size(dtype_);
  const auto room = static_cast<size_t>(std::min(count, kChunkElements));
  std::vector<BFloat16> brains(dtype_ == DType::kBFloat16 ? room : 0);
  std::vector<Float16> halves(dtype_ == DType::kFloat16 ? room : 0);
  for (int64_t done = 0; done < count; done += kChunkElements) {
    const int64_t part = std::min(kChunkElements, count - done);
    const void* bytes = values + done;
    if (dtype_ == DType::kBFloat16) {
      narrow(values + done, part, brains.data(), name, done);
      bytes = brains.data();
    } else if (dtype_ == DType::kFloat16) {
      narrow(values + done, part, halves.data(), name, done);
      bytes = halves.data();
    }
    file_.pwrite(bytes, part * size, slot->offset + done * size);
    if (on_chunk_) on_chunk_(part * size);
  }
  slot->is_written = true;
}

void SafetensorsWriter::finish() {
  for (const Slot& slot : slots_) check(slot.is_written, "every tensor of a file is written");
  check(file_.size() == file_bytes_, "the file has the size its header says");
  file_.sync();
}

}  // namespace plait
