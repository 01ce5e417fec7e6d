// The end of a JSON tree. The library's own destructor gathers the children in memory of its own,
// and must not throw: at the end of memory it would end the process.
#pragma once

namespace plait {

/// Empties `tree` from its leaves up, which needs no memory. Its depth is limited by the reader.
template <class Json>
void empty_tree(Json& tree) noexcept {
  if (!tree.is_structured()) return;
  for (Json& child : tree) empty_tree(child);
  tree.clear();
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
