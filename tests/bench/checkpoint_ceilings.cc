#include "tests/bench/checkpoint_ceilings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "checkpoint/format/digest.h"
#include "checkpoint/format/hash.h"
#include "tests/bench/measure.h"

namespace plait::bench {
namespace {

constexpr int64_t kChunkBytes = int64_t{8} << 20;     // of one read or write, as in the library
constexpr int64_t kPieceBytes = int64_t{256} << 10;   // hashed at once, as in the library
constexpr int64_t kTargetBytes = int64_t{512} << 20;  // of a copy to memory
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kPartsOfThread = 4;
constexpr Repetition kRepetition{0.3, 3, 20, 2.0};

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw std::runtime_error(std::string("cannot ") + what + " " + path + ": " +
                           std::strerror(errno));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : path_(path) {
    number_ = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    if (number_ < 0) fail("open", path_);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

  void read(char* to, int64_t bytes, int64_t at) const {
    for (int64_t done = 0; done < bytes;) {
      const ssize_t got = ::pread(number_, to + done, static_cast<size_t>(bytes - done), at + done);
      if (got <= 0) fail("read", path_);
      done += got;
    }
  }

  void write(const char* from, int64_t bytes, int64_t at) const {
    for (int64_t done = 0; done < bytes;) {
      const ssize_t put =
          ::pwrite(number_, from + done, static_cast<size_t>(bytes - done), at + done);
      if (put <= 0) fail("write", path_);
      done += put;
    }
  }

 private:
  std::string path_;
  int number_ = -1;
};

/// body(at, bytes) for each chunk of `total`.
void in_chunks(int64_t total, int64_t chunk,
               const std::function<void(int64_t at, int64_t bytes)>& body) {
  for (int64_t at = 0; at < total; at += chunk) body(at, std::min(chunk, total - at));
}

Ceiling ceiling_of(int64_t bytes, const Samples& samples) {
  return {static_cast<double>(bytes) / samples.least(), samples.spread()};
}

}  // namespace

void read_files(const FileSizes& files, char* to) {
  for (const auto& [path, bytes] : files) {
    Descriptor(path, O_RDONLY).read(to, bytes, 0);
    to += bytes;
  }
}

double copy_seconds(ThreadPool& pool, const char* from, char* to, int64_t bytes) {
  // Long parts: memcpy then knows that the caches do not hold them.
  const int64_t parts = pool.threads() * kPartsOfThread;
  const int64_t grain = (bytes + parts - 1) / parts;
  const double begin = now();
  pool.run_range(bytes, grain, [&](int64_t first, int64_t last, int) {
    std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
  });
  const double seconds = now() - begin;
  constexpr int64_t kStride = 4099;
  for (int64_t i = 0; i < bytes; i += kStride) {
    if (to[i] != from[i]) throw std::runtime_error("a copy left a wrong value");
  }
  std::memset(to, 0, static_cast<size_t>(bytes));  // the next one is checked anew
  return seconds;
}

double plain_write_seconds(const std::string& directory, const FileSizes& files, const char* from) {
  std::vector<std::string> paths;
  for (size_t i = 0; i < files.size(); ++i) {
    paths.push_back(directory + "/plain-" + std::to_string(i));
  }
  const double begin = now();
  for (size_t i = 0; i < files.size(); ++i) {
    const Descriptor file(paths[i], O_WRONLY | O_CREAT | O_EXCL);
    in_chunks(files[i].second, kChunkBytes,
              [&](int64_t at, int64_t bytes) { file.write(from + at, bytes, at); });
    if (::fdatasync(file.number()) != 0) fail("sync", paths[i]);
    from += files[i].second;
  }
  const double seconds = now() - begin;
  for (const std::string& path : paths) {
    if (::unlink(path.c_str()) != 0) fail("remove", path);
  }
  return seconds;
}

void settle_disk(const std::string& directory) {
  const Descriptor opened(directory, O_RDONLY | O_DIRECTORY);
  if (::syncfs(opened.number()) != 0) fail("sync", directory);
}

double ReadCeilings::together() const {
  return 1.0 / (1.0 / read.rate + 1.0 / hash.rate + 1.0 / digest.rate + 1.0 / copy.rate);
}

ReadCeilings read_ceilings(const FileSizes& files) {
  ReadCeilings out;
  int64_t total = 0;
  for (const auto& [path, bytes] : files) total += bytes;
  // Whole pages: some processors copy several times slower to addresses just behind the start of
  // one.
  MemoryLedger ledger;
  const Buffer chunk(kChunkBytes, MemoryCategory::kWorkspace, &ledger);
  out.read = ceiling_of(total, measure(kRepetition, [&](int64_t) {
                          for (const auto& [path, size] : files) {
                            const Descriptor file(path, O_RDONLY);
                            in_chunks(size, kChunkBytes, [&](int64_t at, int64_t bytes) {
                              file.read(chunk.data(), bytes, at);
                            });
                          }
                        }));
  uint64_t sum = 0;
  out.hash = ceiling_of(kChunkBytes, measure(kRepetition, [&](int64_t) {
                          in_chunks(kChunkBytes, kPieceBytes, [&](int64_t at, int64_t bytes) {
                            sum += xxh3_64({chunk.data() + at, static_cast<size_t>(bytes)});
                          });
                        }));
  out.digest = ceiling_of(kChunkBytes, measure(kRepetition, [&](int64_t) {
                            in_chunks(kChunkBytes, kPieceBytes, [&](int64_t at, int64_t bytes) {
                              sum +=
                                  digest_run(chunk.data() + at, DType::kFloat32, bytes / 4, at / 4);
                            });
                          }));
  if (sum == 0) throw std::runtime_error("a hash computed nothing");
  const Buffer target(kTargetBytes, MemoryCategory::kWorkspace, &ledger);
  const auto fill = [&](int64_t at, int64_t bytes) {
    std::memcpy(target.data() + at, chunk.data() + at % kChunkBytes, static_cast<size_t>(bytes));
  };
  out.copy = ceiling_of(target.bytes(), measure(kRepetition, [&](int64_t) {
                          in_chunks(target.bytes(), kPieceBytes, fill);
                        }));
  if (std::memcmp(target.data(), chunk.data(), static_cast<size_t>(kChunkBytes)) != 0) {
    throw std::runtime_error("a copy left a wrong value");
  }
  out.first_use =
      ceiling_of(kTargetBytes, measure(kRepetition, [&](int64_t) {
                   const Buffer untouched(kTargetBytes, MemoryCategory::kWorkspace, &ledger);
                   volatile char* bytes = untouched.data();
                   for (int64_t i = 0; i < kTargetBytes; i += kPageBytes) bytes[i] = 1;
                 }));
  return out;
}

}  // namespace plait::bench
