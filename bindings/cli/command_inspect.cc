// plait inspect: what a token file or a checkpoint holds.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "bindings/cli/checkpoint_tables.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/describe.h"
#include "bindings/cli/operation.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"
#include "bindings/cli/token_reader.h"

namespace plait::cli {
namespace {

Report report_of(const Checkpoint& checkpoint) {
  return Report::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_checkpoint_report(checkpoint.get(), out, err);
  }));
}

/// The steps of a root first, then the newest that can be read; or what else the directory is.
int inspect_checkpoint(Host& host, const Context& context) {
  const Report listing = list_steps(context, host.options.input);
  const bool is_root = !listing["steps"].empty() || !listing["bad"].empty();
  if (is_root && host.options.is_json) host.print(listing.dump());
  if (is_root && !host.options.is_json) print_listing(host, listing), host.print("");
  const Checkpoint checkpoint = open_checkpoint(context, host.options.input);
  const Report report = report_of(checkpoint);
  const std::vector<Entry> entries = entries_of(checkpoint);
  if (host.options.is_json) {
    host.print(report.dump());
    for (const Entry& entry : entries) host.print(entry_json(entry));
    return kExitDone;
  }
  print_report_table(host, report);
  print_entries(host, entries);
  return kExitDone;
}

/// Two checkpoints side by side; counts what differs.
class Comparison {
 public:
  Comparison(Host& host, const Context& context)
      : host_(host),
        first_(open_checkpoint(context, host.options.input)),
        second_(open_checkpoint(context, host.options.diff_path)) {}

  /// In order of name and kind, properties last.
  void compare_entries() {
    using Key = std::pair<bool, std::pair<std::string, int64_t>>;
    std::map<Key, std::pair<const Entry*, const Entry*>> pairs;
    const std::vector<Entry> left = entries_of(first_), right = entries_of(second_);
    const auto key = [](const Entry& entry) {
      return Key(entry.kind == 0, {entry.name, entry.kind});
    };
    for (const Entry& entry : left) pairs[key(entry)].first = &entry;
    for (const Entry& entry : right) pairs[key(entry)].second = &entry;
    for (const auto& [name, pair] : pairs) compare_pair(pair.first, pair.second);
  }

  /// What a step holds beside tensors; a Hugging Face directory has none of it.
  void compare_progress() {
    const Report a = report_of(first_), b = report_of(second_);
    for (const char* part : {"progress", "scaler", "random", "data"}) {
      if (!a.contains(part) || !b.contains(part)) continue;
      if (!a[part].is_object() || !b[part].is_object()) {
        compare_values(part, a[part], b[part]);
        continue;
      }
      for (const auto& [field, value] : a[part].items()) {
        compare_values(std::string(part) + "." + field, value, b[part].value(field, Report()));
      }
    }
  }

  int end() const {
    host_.print_json(
        JsonLine().number("tensors", compared_).number("different", differing_).done());
    host_.print_human(counted(compared_) + " tensors compared, " + counted(differing_) + " differ");
    return differing_ == 0 ? kExitDone : kExitFailed;
  }

 private:
  void compare_pair(const Entry* a, const Entry* b) {
    const Entry& entry = a != nullptr ? *a : *b;
    if (entry.kind != 0) ++compared_;
    std::string difference;
    if (a == nullptr || b == nullptr) {
      difference = "only in " + (b == nullptr ? host_.options.input : host_.options.diff_path);
    } else if (entry.kind != 0) {
      difference = first_difference(first_, second_, *a, *b);
    } else if (!is_same_property(*a, *b)) {
      difference = property_text(*a) + " and " + property_text(*b);
    }
    if (!difference.empty()) print(entry.name, kind_name(entry.kind), difference);
  }

  void compare_values(const std::string& name, const Report& a, const Report& b) {
    if (a != b) print(name, "run", a.dump() + " and " + b.dump());
  }

  void print(const std::string& name, const std::string& kind, const std::string& difference) {
    ++differing_;
    host_.print_json(
        JsonLine().text("name", name).text("kind", kind).text("difference", difference).done());
    host_.print_human(name + " (" + kind + "): " + difference);
  }

  Host& host_;
  Checkpoint first_, second_;
  int64_t compared_ = 0, differing_ = 0;
};

/// Exit code 1 when anything differs.
int compare_checkpoints(Host& host, const Context& context) {
  Comparison comparison(host, context);
  comparison.compare_entries();
  comparison.compare_progress();
  return comparison.end();
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
    call([&, key = key, &value = value](plait_error** err) {
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
