#include "kernels/base/env.h"

#include "kernels/base/error.h"

namespace plait {

std::unique_ptr<FileMapping> File::map(int64_t, int64_t) { return nullptr; }

void File::read_exactly(void* data, int64_t bytes, int64_t offset, const char* word) {
  const int64_t got = pread(data, bytes, offset);
  if (got == bytes) return;
  throw Error(word, "the file ends too early")
      .with("path", path())
      .with("offset", offset)
      .with("want", bytes)
      .with("got", got);
}

std::string read_file(Files& files, const std::string& path, int64_t limit) {
  const std::unique_ptr<File> file = files.open_read(path);
  const int64_t bytes = file->size();
  if (bytes > limit) {
    throw Error("too_large", "the file is too large")
        .with("path", path)
        .with("got", bytes)
        .with("limit", limit);
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  file->read_exactly(text.data(), bytes, 0, "invalid_file");
  return text;
}

std::string join_path(const std::string& directory, const std::string& name) {
  return directory + "/" + name;
}

}  // namespace plait
