// Columns of text for people.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

/// Rows under a heading, columns as wide as their widest cell and two spaces apart. A column in
/// which every cell is empty is left out with its heading.
class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kRight;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool is_empty() const { return rows_.empty(); }

  /// Lines that each begin with `indent`, without a line end after the last one.
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Characters of UTF-8 text, of which none is wide.
size_t character_count(const std::string& text);

/// `text` in lines of at most `width` characters where it has spaces, all but the first one behind
/// `indent`.
std::string wrapped(const std::string& text, size_t width, const std::string& indent);

}  // namespace plait::cli
