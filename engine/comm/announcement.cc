#include "engine/comm/announcement.h"

#include <tuple>

#include "engine/comm/wire_bytes.h"

namespace plait {
namespace {

constexpr uint32_t kMostFields = 256;
constexpr uint32_t kMostExcluded = 1u << 20;

auto order_key(const Error& error) {
  return std::make_tuple(error.rank(), is_loss(error) ? 1 : 0, std::string_view(error.word()),
                         std::string_view(error.message()));
}

}  // namespace

std::string encode_error(const Error& error) {
  ByteWriter out;
  out.text(error.word()).text(error.message()).text(error.subsystem());
  out.number(static_cast<int32_t>(error.disposition())).number(error.rank());
  out.number(error.host_code()).number(static_cast<uint32_t>(error.fields().size()));
  for (const auto& [key, json] : error.fields()) out.text(key).text(json);
  return out.bytes();
}

bool decode_error(std::string_view bytes, Error* error) {
  ByteReader in(bytes);
  const std::string word(in.text());
  std::string message(in.text());
  const std::string subsystem(in.text());
  const auto disposition = in.number<int32_t>();
  const auto rank = in.number<int32_t>();
  const auto host_code = in.number<int64_t>();
  const auto count = in.number<uint32_t>();
  Error::Fields fields;
  for (uint32_t i = 0; i < count && i < kMostFields && in.is_good(); ++i) {
    std::string key(in.text());
    std::string json(in.text());
    fields.emplace_back(std::move(key), std::move(json));
  }
  if (!in.is_complete() || disposition < 1 || disposition > 4) return false;
  if (message.compare(0, word.size() + 2, word + ": ") != 0) return false;
  *error = Error::restore(word, std::move(message), std::move(fields))
               .disposition(static_cast<Disposition>(disposition))
               .rank(rank)
               .host_code(host_code)
               .subsystem(subsystem);
  return error->word() == word;
}

std::string encode_announcement(const Announcement& announcement) {
  ByteWriter out;
  out.text(encode_error(announcement.error)).number(uint8_t{announcement.is_final});
  out.number(static_cast<uint32_t>(announcement.excluded.size()));
  for (const int64_t rank : announcement.excluded) out.number(rank);
  return out.bytes();
}

bool decode_announcement(std::string_view bytes, Announcement* announcement) {
  ByteReader in(bytes);
  if (!decode_error(in.text(), &announcement->error)) return false;
  announcement->is_final = in.number<uint8_t>() != 0;
  const auto count = in.number<uint32_t>();
  announcement->excluded.clear();
  for (uint32_t i = 0; i < count && i < kMostExcluded && in.is_good(); ++i) {
    announcement->excluded.push_back(in.number<int64_t>());
  }
  return in.is_complete();
}

bool is_loss(const Error& error) {
  return error.word() == "peer_lost" || error.word() == "peer_frozen";
}

bool is_preferred(const Error& a, const Error& b) { return order_key(a) < order_key(b); }

}  // namespace plait
