// The proof of a sealed FlatBuffer before its meaning: trailer, identifier, size, verification. And
// access to its parts that a verifier does not prove: presence, alignment of elements, total text.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "checkpoint/format/rules.h"
#include "checkpoint/format/trailer.h"

namespace plait {

/// Trailer, identifier and size, in this order.
Sealed open_buffer(std::string_view file, const char* identifier, int64_t most_bytes,
                   const FieldChecker& checker);
/// Bounds of a verification, which takes time and stack in proportion to the bytes alone.
flatbuffers::Verifier::Options verifier_options(int64_t bytes);
/// That the buffer did not verify.
void require_verified(bool is_verified, std::string_view payload, const FieldChecker& checker);

/// The root of a proved buffer; `sealed` is filled in.
template <class Root>
const Root& prove(std::string_view file, const char* identifier, int64_t most_bytes,
                  const FieldChecker& checker, Sealed* sealed) {
  *sealed = open_buffer(file, identifier, most_bytes, checker);
  const auto* bytes = reinterpret_cast<const uint8_t*>(sealed->payload.data());
  flatbuffers::Verifier verifier(bytes, sealed->payload.size(),
                                 verifier_options(static_cast<int64_t>(sealed->payload.size())));
  require_verified(verifier.VerifyBuffer<Root>(identifier), sealed->payload, checker);
  return *flatbuffers::GetRoot<Root>(bytes);
}

/// Parts of a verified buffer of `bytes` bytes. Texts and vectors may share bytes in a hostile
/// file; their sum, which is copied, may not be more than the buffer.
class WireReader {
 public:
  WireReader(std::string_view payload, const FieldChecker& checker)
      : payload_(payload), checker_(checker), texts_left_(static_cast<int64_t>(payload.size())) {}

  const FieldChecker& checker() const { return checker_; }

  template <class Part>
  const Part& part(const Part* part, const FieldPath& field) const {
    checker_.require(part != nullptr, "a field is missing", field, "none", "present");
    return *part;
  }

  std::string text(const flatbuffers::String* text, const FieldPath& field) {
    const auto size = static_cast<int64_t>(part(text, field).size());
    checker_.require(size <= texts_left_, "texts share bytes", field, size, texts_left_);
    texts_left_ -= size;
    return text->str();
  }

  /// A vector of scalars or structs of at most `limit`.
  template <class Element>
  const flatbuffers::Vector<Element>& vector(const flatbuffers::Vector<Element>* vector,
                                             int64_t limit, const FieldPath& field) const {
    checker_.require_limit(part(vector, field).size(), limit, field);
    using Stored = std::remove_cv_t<std::remove_pointer_t<Element>>;
    // An empty vector may end where its elements would be misplaced.
    const auto offset = reinterpret_cast<const char*>(vector->Data()) - payload_.data();
    checker_.require(vector->size() == 0 || offset % static_cast<int64_t>(alignof(Stored)) == 0,
                     "elements are not aligned", field, offset, alignof(Stored));
    return *vector;
  }

  /// Up to 2^63 − 1.
  int64_t integer(uint64_t value, const FieldPath& field) const {
    checker_.require(value <= static_cast<uint64_t>(INT64_MAX), "a value is too large", field,
                     value, INT64_MAX);
    return static_cast<int64_t>(value);
  }

 private:
  std::string_view payload_;
  const FieldChecker& checker_;
  int64_t texts_left_;
};

}  // namespace plait
