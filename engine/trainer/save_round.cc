#include "engine/trainer/save_round.h"

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/comm/wire_bytes.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr std::array kFactNames = {"format", "library",    "root",     "step",
                                   "config", "properties", "identity", "layout"};
constexpr size_t kVersionFacts = 2;  // the first ones

uint64_t hash_properties(const std::vector<SavedProperty>& properties) {
  ByteWriter bytes;
  for (const SavedProperty& property : properties) {
    bytes.text(property.name).number(static_cast<uint8_t>(property.type));
    bytes.number(property.integer).number(property.real).text(property.text);
  }
  return XXH3_64bits(bytes.bytes().data(), bytes.bytes().size());
}

std::vector<std::string> split_facts(const std::string& text) {
  std::vector<std::string> facts;
  ByteReader in(text);
  for (size_t i = 0; i < kFactNames.size(); ++i) facts.emplace_back(in.text());
  return facts;
}

}  // namespace

const Error* first_failure(const std::vector<Answer>& answers) {
  return first_error(answers, [](const Error& error) { return error.code() != Code::kCancelled; });
}

std::string save_facts(const Manifest& manifest, const std::string& root, uint64_t config) {
  Manifest sealed = manifest;  // no digests yet: the identity of everything but the tensors' values
  seal_identity(&sealed);
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const SavedFormat& format = manifest.format;
  return ByteWriter()
      .text(std::to_string(format.major) + "." + std::to_string(format.minor))
      .text(format.writer)
      .text(root)
      .text(std::to_string(manifest.progress.step))
      .text(number(config))
      .text(number(hash_properties(manifest.properties)))
      .text(number(sealed.state_digest.low) + "." + number(sealed.state_digest.high))
      .text(number(sealed.save_id.low) + "." + number(sealed.save_id.high))
      .bytes();
}

void compare_facts(const World& world, const std::vector<std::string>& facts) {
  const std::vector<std::string> first = split_facts(facts[0]);
  JsonArray table;
  std::string names;
  bool is_version = false;
  for (size_t fact = 0; fact < kFactNames.size(); ++fact) {
    bool differs = false;
    for (size_t peer = 1; peer < facts.size(); ++peer) {
      const std::string other = split_facts(facts[peer])[fact];
      if (other == first[fact]) continue;
      differs = true;
      table.add(JsonObject()
                    .field("field", kFactNames[fact])
                    .field("rank", world.peers()[0].first_rank)
                    .field("value", first[fact])
                    .field("other_rank", world.peers()[peer].first_rank)
                    .field("other_value", other)
                    .text());
    }
    if (!differs) continue;
    names += (names.empty() ? "" : ",") + std::string(kFactNames[fact]);
    is_version = is_version || fact < kVersionFacts;
  }
  if (names.empty()) return;
  throw Error(is_version ? "version_mismatch" : "mismatch",
              "the processes do not save the same run into the same root")
      .with("call", "checkpoint_save")
      .with("fields", names)
      .with_raw("differences", table.text())
      .subsystem("engine/trainer");
}

}  // namespace plait
