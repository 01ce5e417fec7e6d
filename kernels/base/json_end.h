// The end of a JSON tree. The library's own destructor gathers the children in memory of its own,
// and must not throw: at the end of memory it would end the process. So would its comparison of a
// tree with a text, of which it makes another tree.
#pragma once

#include <string_view>

namespace plait {

/// Empties `tree` from its leaves up, which needs no memory. Its depth is limited by the reader.
template <class Json>
void empty_tree(Json& tree) noexcept {
  if (!tree.is_structured()) return;
  for (Json& child : tree) empty_tree(child);
  tree.clear();
}

/// True where `value` is the string `text`.
template <class Json>
bool is_text(const Json& value, std::string_view text) noexcept {
  const auto* string = value.template get_ptr<const typename Json::string_t*>();
  return string != nullptr && *string == text;
}

/// Empties a tree that outlives this object, on every way out.
template <class Json>
class TreeEnd {
 public:
  explicit TreeEnd(Json& tree) : tree_(tree) {}
  ~TreeEnd() { empty_tree(tree_); }
  TreeEnd(const TreeEnd&) = delete;
  TreeEnd& operator=(const TreeEnd&) = delete;

 private:
  Json& tree_;
};

}  // namespace plait
