// plait inspect: what a token file or a checkpoint holds.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/cli/commands.h"
#include "bindings/cli/describe.h"
#include "bindings/cli/operation.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"
#include "bindings/cli/token_reader.h"

namespace plait::cli {
namespace {

Checkpoint open_checkpoint(const Context& context, const std::string& path) {
  return make<Checkpoint>([&](plait_checkpoint** out, plait_error** err) {
    return plait_checkpoint_open(context.get(), path.c_str(), out, err);
  });
}

void print_inspection(Host& host, const std::string& report) {
  const auto fields = nlohmann::ordered_json::parse(report);
  for (const auto& [name, value] : fields.items()) {
    if (value.is_object()) {
      for (const auto& [key, inner] : value.items()) {
        const std::string text = inner.is_string() ? inner.get<std::string>() : inner.dump();
        host.print(key + "  " + text);
      }
    } else if (value.is_array()) {
      for (const auto& item : value) {
        host.print(name + "  " + (item.is_string() ? item.get<std::string>() : item.dump()));
      }
    } else {
      host.print(name + "  " + (value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
}

int inspect_checkpoint(Host& host, const Context& context) {
  const Checkpoint checkpoint = open_checkpoint(context, host.options.input);
  const std::string report = make_text([&](plait_bytes** out, plait_error** err) {
    return plait_checkpoint_report(checkpoint.get(), out, err);
  });
  const std::vector<Entry> entries = tensors_of(checkpoint);
  if (host.options.is_json) {
    host.print(report);
    for (const Entry& entry : entries) host.print(entry_json(entry));
    return kExitDone;
  }
  print_inspection(host, report);
  size_t width = 0;
  int64_t parameters = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  for (const Entry& entry : entries) {
    host.print("  " + entry.name + std::string(width - entry.name.size() + 2, ' ') +
               kind_name(entry.kind) + "  " + dtype_name(entry.dtype) + "  " +
               shape_text(entry.shape));
    if (entry.kind == PLAIT_KIND_PARAM) parameters += entry.elements;
  }
  host.print("parameters  " + counted(parameters));
  return kExitDone;
}

void print_difference(Host& host, const Entry& entry, const std::string& difference) {
  host.print_json(JsonLine()
                      .text("name", entry.name)
                      .text("kind", kind_name(entry.kind))
                      .text("difference", difference)
                      .done());
  host.print_human(entry.name + " (" + kind_name(entry.kind) + "): " + difference);
}

/// Both sides in order of name and kind; exit code 1 when anything differs.
int compare_checkpoints(Host& host, const Context& context) {
  using Key = std::pair<std::string, int64_t>;
  const Checkpoint first = open_checkpoint(context, host.options.input);
  const Checkpoint second = open_checkpoint(context, host.options.diff_path);
  std::map<Key, std::pair<const Entry*, const Entry*>> pairs;
  const std::vector<Entry> left = tensors_of(first), right = tensors_of(second);
  for (const Entry& entry : left) pairs[{entry.name, entry.kind}].first = &entry;
  for (const Entry& entry : right) pairs[{entry.name, entry.kind}].second = &entry;
  int64_t differing = 0;
  for (const auto& [key, pair] : pairs) {
    const auto [a, b] = pair;
    std::string difference;
    if (a == nullptr || b == nullptr) {
      difference = "only in " + (b == nullptr ? host.options.input : host.options.diff_path);
    } else {
      difference = first_difference(first, second, *a, *b);
    }
    if (difference.empty()) continue;
    ++differing;
    print_difference(host, a != nullptr ? *a : *b, difference);
  }
  const auto compared = static_cast<int64_t>(pairs.size());
  host.print_json(JsonLine().number("tensors", compared).number("different", differing).done());
  host.print_human(counted(compared) + " tensors compared, " + counted(differing) + " differ");
  return differing == 0 ? kExitDone : kExitFailed;
}

struct TokenFacts {
  int64_t tokens = 0;
  int64_t largest = -1, different = 0;
};

TokenFacts scan(Host& host, TokenReader* reader) {
  constexpr int64_t kAtOnce = 1 << 20;
  TokenFacts facts;
  std::vector<bool> seen;
  for (std::vector<int32_t> ids; !(ids = reader->read(kAtOnce)).empty();) {
    if (host.stop.is_requested()) throw Failure(PLAIT_CANCELLED, "cancelled", "stopped on request");
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0) {
        throw Failure(PLAIT_DATA_LOSS, "dataset_token", "a token is negative")
            .with("path", host.options.input)
            .with("index", facts.tokens + static_cast<int64_t>(i))
            .with("value", ids[i]);
      }
      const auto id = static_cast<size_t>(ids[i]);
      if (id >= seen.size()) seen.resize(std::max(id + 1, seen.size() * 2), false);
      if (!seen[id]) ++facts.different;
      seen[id] = true;
      facts.largest = std::max<int64_t>(facts.largest, ids[i]);
    }
    facts.tokens += static_cast<int64_t>(ids.size());
    if (!host.has_bar()) continue;
    host.draw_bar("reading " +
                  bar(static_cast<double>(facts.tokens) / static_cast<double>(reader->tokens())));
  }
  host.draw_bar("");
  return facts;
}

/// What the library says about the file as data: index and tokens agree, and how many documents.
plait_dataset_info describe_data(const Context& context, const Config& config,
                                 const std::string& path, int64_t largest) {
  const std::pair<const char*, std::string> keys[] = {
      {"data.train", path},
      {"train.sequence_length", "1"},
      {"model.vocab_size", std::to_string(std::max<int64_t>(largest + 1, 1))}};
  for (const auto& [key, value] : keys) {
    call([&, key = key](plait_error** err) {
      return plait_config_set(config.get(), key, value.c_str(), err);
    });
  }
  const Dataset dataset = open_dataset(context, config, "train");
  auto info = sized<plait_dataset_info>();
  call([&](plait_error** err) { return plait_dataset_describe(dataset.get(), &info, err); });
  return info;
}

int inspect_tokens(Host& host, const Context& context) {
  const std::string& path = host.options.input;
  const Config config = make_config(host, context);
  const bool is_int32 = get_text(config, "data.token_type") == "int32";
  const bool is_indexed = !token_paths(path).index.empty();
  TokenReader reader(path, is_int32 ? TokenWidth::kInt32 : TokenWidth::kUint16);
  const TokenFacts facts = scan(host, &reader);
  const char* type = reader.width() == TokenWidth::kInt32 ? "int32" : "uint16";
  call([&](plait_error** err) {
    return plait_config_set(config.get(), "data.token_type", type, err);
  });
  int64_t documents = 1;
  if (is_indexed) {
    documents = describe_data(context, config, token_paths(path).tokens, facts.largest).documents;
  }
  host.print_json(JsonLine()
                      .text("format", is_indexed ? "indexed" : "flat")
                      .text("path", path)
                      .text("token_type", type)
                      .number("tokens", facts.tokens)
                      .number("documents", documents)
                      .number("largest", facts.largest)
                      .number("different", facts.different)
                      .done());
  host.print_human(std::string("format     ") + (is_indexed ? "indexed" : "flat") + ", " + type +
                   (is_indexed ? "" : " (--set data.token_type=… reads it otherwise)"));
  host.print_human("tokens     " + counted(facts.tokens));
  if (is_indexed) host.print_human("documents  " + counted(documents));
  host.print_human("largest    " + std::to_string(facts.largest));
  host.print_human("different  " + counted(facts.different));
  return kExitDone;
}

}  // namespace

int run_inspect(Host& host) {
  const Context context = open_context(host);
  struct stat facts;
  if (stat(host.options.input.c_str(), &facts) != 0) {
    throw file_failure(errno, "open", host.options.input);
  }
  if (!host.options.diff_path.empty()) return compare_checkpoints(host, context);
  return S_ISDIR(facts.st_mode) ? inspect_checkpoint(host, context) : inspect_tokens(host, context);
}

}  // namespace plait::cli
