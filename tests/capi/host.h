// What a C++ host would write over plait.h: owning handles, an error that frees itself, and small
// inputs made on the spot.
#pragma once

#include <plait/plait.h>
#include <plait/plait_experimental.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace host {

template <class T, void (*Free)(T*)>
class Owned {
 public:
  Owned() = default;
  ~Owned() { Free(handle_); }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  operator T*() const { return handle_; }
  /// For output arguments; frees what was held.
  T** out() {
    Free(std::exchange(handle_, nullptr));
    return &handle_;
  }
  T* release() { return std::exchange(handle_, nullptr); }

 private:
  T* handle_ = nullptr;
};

using Context = Owned<plait_context, plait_context_free>;
using Config = Owned<plait_config, plait_config_free>;
using Group = Owned<plait_group, plait_group_free>;
using Engine = Owned<plait_engine, plait_engine_free>;
using Batch = Owned<plait_batch, plait_batch_free>;
using Dataset = Owned<plait_dataset, plait_dataset_free>;
using Tokenizer = Owned<plait_tokenizer, plait_tokenizer_free>;
using Checkpoint = Owned<plait_checkpoint, plait_checkpoint_free>;
using Op = Owned<plait_op, plait_op_free>;

class Bytes : public Owned<plait_bytes, plait_bytes_free> {
 public:
  std::string text() const {
    return {static_cast<const char*>(plait_bytes_data(*this)),
            static_cast<size_t>(plait_bytes_size(*this))};
  }
  std::vector<int32_t> integers() const;
};

class Err {
 public:
  Err() = default;
  ~Err() { plait_error_free(error_); }
  Err(const Err&) = delete;
  Err& operator=(const Err&) = delete;
  operator plait_error**() {
    plait_error_free(std::exchange(error_, nullptr));
    return &error_;
  }
  const plait_error* get() const { return error_; }
  std::string word() const { return plait_error_word(error_); }
  std::string message() const { return plait_error_message(error_); }
  std::string details() const { return plait_error_details(error_); }

 private:
  plait_error* error_ = nullptr;
};

template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

/// A context without callbacks. Throws std::runtime_error when it cannot be had, as the next ones.
Context make_context();
Config make_config(plait_context* context, const std::string& json = "{}");
Group make_group(plait_context* context, plait_config* config);

/// JSON of a model small enough for every test: GPT-2, 1 layer, 16 hidden, vocabulary 256.
std::string tiny_model();

/// A folder of its own that goes with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name = "") const;
  /// Writes a file into it and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path root_;
};

std::string read_file(const std::string& path);

/// Writes a Hugging Face directory of a GPT-2 with 1 layer, 4 hidden, 8 ids, 6 positions, whose
/// n-th value in file order is n/64 in float32.
void write_tiny_gpt2(const std::string& directory);

}  // namespace host
