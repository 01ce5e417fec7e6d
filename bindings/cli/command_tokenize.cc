// plait tokenize: text file to token file, and back.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"
#include "bindings/cli/operation.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"
#include "bindings/cli/token_reader.h"

namespace plait::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Counts {
  int64_t bytes = 0, tokens = 0, documents = -1;  ///< −1: not known
};

/// A file that appears whole under its name when it is committed, and not at all otherwise.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path)
      : path_(path),
        temporary_(path + ".tmp-" + std::to_string(getpid())),
        file_(std::fopen(temporary_.c_str(), "wb"), std::fclose) {
    if (file_ == nullptr) throw file_failure(errno, "create", temporary_);
  }
  ~WholeFile() {
    file_.reset();
    if (!temporary_.empty()) std::remove(temporary_.c_str());
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
      throw file_failure(errno, "write", temporary_);
    }
  }
  void commit() {
    if (std::fflush(file_.get()) != 0) throw file_failure(errno, "write", temporary_);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      throw file_failure(errno, "rename", path_);
    }
    temporary_.clear();
  }

 private:
  std::string path_, temporary_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

Counts encode_file(Host& host, const Tokenizer& tokenizer, const Config& config) {
  const Options& options = host.options;
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_tokenizer_encode_file(tokenizer.get(), config.get(), options.input.c_str(),
                                       options.output.c_str(), out, err);
  });
  const nlohmann::json report = nlohmann::json::parse(finish(host, operation, "tokenizing"));
  return {report.at("bytes").get<int64_t>(), report.at("tokens").get<int64_t>(),
          report.at("documents").get<int64_t>()};
}

TokenWidth width_of_flat(const Tokenizer& tokenizer, const Config& config) {
  const std::string type = get_text(config, "data.token_type");
  if (type == "uint16") return TokenWidth::kUint16;
  if (type == "int32") return TokenWidth::kInt32;
  constexpr int64_t kUint16Ids = 65536;
  return plait_tokenizer_vocab_size(tokenizer.get()) <= kUint16Ids ? TokenWidth::kUint16
                                                                   : TokenWidth::kInt32;
}

Counts decode_file(Host& host, const Tokenizer& tokenizer, const Config& config) {
  constexpr int64_t kAtOnce = 1 << 20;
  TokenReader reader(host.options.input, width_of_flat(tokenizer, config));
  WholeFile output(host.options.output);
  Counts counts;
  for (std::vector<int32_t> ids; !(ids = reader.read(kAtOnce)).empty();) {
    if (host.stop.is_requested()) throw Failure(PLAIT_CANCELLED, "cancelled", "stopped on request");
    const std::string text = make_text([&](plait_bytes** out, plait_error** err) {
      return plait_tokenizer_decode(tokenizer.get(), ids.data(), static_cast<int64_t>(ids.size()),
                                    out, err);
    });
    output.write(text);
    counts.tokens += static_cast<int64_t>(ids.size());
    counts.bytes += static_cast<int64_t>(text.size());
    if (!host.has_bar()) continue;
    const double share = static_cast<double>(counts.tokens) / static_cast<double>(reader.tokens());
    host.draw_bar("decoding " + bar(share));
  }
  output.commit();
  return counts;
}

void print_counts(Host& host, const Counts& counts, double seconds) {
  const double rate = static_cast<double>(counts.bytes) / std::max(seconds, 1e-9);
  JsonLine line;
  line.text("input", host.options.input).text("output", host.options.output);
  line.number("bytes", counts.bytes).number("tokens", counts.tokens);
  if (counts.documents >= 0) line.number("documents", counts.documents);
  host.print_json(line.number("seconds", seconds).number("bytes_per_second", rate).done());
  std::string text = counted(counts.bytes) + " bytes, " + counted(counts.tokens) + " tokens";
  if (counts.documents > 1) text += ", " + counted(counts.documents) + " documents";
  host.print_human(text + " in " + duration(seconds) + " (" + byte_size(rate) + "/s)");
}

}  // namespace

int run_tokenize(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  const Tokenizer tokenizer = open_tokenizer(host, context);
  const Clock::time_point begin = Clock::now();
  const Counts counts = host.options.is_decode ? decode_file(host, tokenizer, config)
                                               : encode_file(host, tokenizer, config);
  print_counts(host, counts, std::chrono::duration<double>(Clock::now() - begin).count());
  drain_logs(host, context);
  return kExitDone;
}

}  // namespace plait::cli
