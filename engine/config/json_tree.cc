#include "engine/config/json_tree.h"

#include <string>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/json_end.h"

namespace plait {
namespace {

using Json = nlohmann::json;

/// Builds the tree from the parser's events; open containers stand on a stack.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  ~TreeBuilder() override { empty_tree(root_); }
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) {
      throw Error("argument", "a JSON object holds the same key twice")
          .with("key", std::string_view(value).substr(0, 96))
          .subsystem("config");
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error("argument", "the configuration is not valid JSON text")
        .with("offset", position)
        .subsystem("config");
  }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= kJsonMaxDepth) {
      throw Error("argument", "the JSON text is nested too deeply")
          .with("limit", kJsonMaxDepth)
          .subsystem("config");
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  if (text.size() > kJsonMaxBytes) {
    throw Error("argument", "the JSON text is too long")
        .with("bytes", text.size())
        .with("limit", kJsonMaxBytes)
        .subsystem("config");
  }
  TreeBuilder builder;
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace plait
