#include "bindings/cli/text_table.h"

#include <algorithm>
#include <sstream>

namespace plait::cli {
namespace {

/// Nothing behind the last character that shows.
void end_line(std::string* text) { text->erase(text->find_last_not_of(' ') + 1); }

std::string padded(const std::string& cell, size_t width, TextTable::Align align) {
  const std::string space(width - std::min(width, character_count(cell)), ' ');
  return align == TextTable::Align::kLeft ? cell + space : space + cell;
}

}  // namespace

size_t character_count(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string wrapped(const std::string& text, size_t width, const std::string& indent) {
  std::istringstream words(text);
  std::string out, line;
  for (std::string word; words >> word;) {
    const bool is_first = line.empty();
    if (!is_first && character_count(line) + 1 + character_count(word) > width) {
      out += line + "\n" + indent;
      line = word;
    } else {
      line += (is_first ? "" : " ") + word;
    }
  }
  return out + line;
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t column = 0; column < columns_.size(); ++column) {
    for (const std::vector<std::string>& row : rows_) {
      widths[column] = std::max(widths[column], character_count(row[column]));
    }
    if (widths[column] == 0) continue;
    widths[column] = std::max(widths[column], character_count(columns_[column].heading));
  }
  std::string out = indent;
  for (size_t column = 0; column < columns_.size(); ++column) {
    if (widths[column] == 0) continue;
    out += padded(columns_[column].heading, widths[column], columns_[column].align) + "  ";
  }
  end_line(&out);
  for (const std::vector<std::string>& row : rows_) {
    out += "\n" + indent;
    for (size_t column = 0; column < columns_.size(); ++column) {
      if (widths[column] == 0) continue;
      out += padded(row[column], widths[column], columns_[column].align) + "  ";
    }
    end_line(&out);
  }
  return out;
}

}  // namespace plait::cli
