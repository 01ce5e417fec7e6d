#include "engine/config/hardware_lists.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "engine/config/json_tree.h"
#include "engine/config/number_text.h"
#include "engine/config/rule.h"
#include "kernels/base/error.h"
#include "kernels/base/json_end.h"

namespace plait {
namespace {

using Json = nlohmann::json;

/// Where a figure stands.
struct FigurePlace {
  const char* key;
  size_t element;
  const char* field;
};

struct FigureLimits {
  double minimum = 0;
  bool is_open = false;  // the minimum itself is outside
  double maximum = std::numeric_limits<double>::infinity();

  bool hold(double value) const {
    return value <= maximum && (is_open ? value > minimum : value >= minimum);
  }
};

constexpr FigureLimits kNotNegative = {};
constexpr FigureLimits kAboveZero = {.minimum = 0, .is_open = true};
constexpr FigureLimits kShareAboveZero = {.minimum = 0, .is_open = true, .maximum = 1};
constexpr FigureLimits kCount = {.minimum = 1, .is_open = false, .maximum = 2147483647};

Error figure_error(const FigurePlace& place, std::string sentence) {
  Error error = Error("argument", std::move(sentence))
                    .with("key", place.key)
                    .with("element", place.element)
                    .subsystem("config");
  return place.field[0] == '\0' ? error : with_field(std::move(error), "field", place.field);
}

Error value_error(const FigurePlace& place, const Json& value, std::string sentence) {
  Error error = figure_error(place, std::move(sentence));
  if (value.is_number()) return std::move(error).with_raw("value", value.dump());
  return std::move(error).with("value", value.dump().substr(0, kLongestShown));
}

[[noreturn]] void refuse_form(const FigurePlace& place, const Json& value, const char* expected) {
  throw value_error(place, value, "a list of hardware figures has an element of the wrong form")
      .with("expected", expected);
}

/// A wrong sign is the likeliest slip, so that the nearest value is that without it.
[[noreturn]] void refuse_figure(const FigurePlace& place, const Json& value,
                                const FigureLimits& limits) {
  const auto figure = value.get<double>();
  const bool is_low = figure <= limits.minimum;
  Error error = value_error(place, value, "a hardware figure is out of range");
  const char* bound = is_low ? (limits.is_open ? "above" : "minimum") : "maximum";
  error = with_field(std::move(error), bound, is_low ? limits.minimum : limits.maximum);
  if (limits.hold(-figure)) throw with_field(std::move(error), "nearest", -figure);
  if (is_low && limits.is_open) throw error;
  throw with_field(std::move(error), "nearest", is_low ? limits.minimum : limits.maximum);
}

double figure_of(const FigurePlace& place, const Json& value, const FigureLimits& limits) {
  if (!value.is_number()) refuse_form(place, value, "real");
  if (!limits.hold(value.get<double>())) refuse_figure(place, value, limits);
  return value.get<double>();
}

int64_t count_of(const FigurePlace& place, const Json& value) {
  if (!value.is_number()) refuse_form(place, value, "integer");
  const double figure = figure_of(place, value, kCount);
  if (figure != std::trunc(figure)) refuse_form(place, value, "integer");
  return static_cast<int64_t>(figure);
}

/// One element that is an object of known fields.
class ObjectReader {
 public:
  /// Throws for what is no object and for a field that is not among `fields`.
  ObjectReader(const char* key, size_t element, const Json& object,
               std::initializer_list<const char*> fields)
      : key_(key), element_(element), object_(object) {
    if (!object.is_object()) refuse_form({key, element, ""}, object, "object");
    for (auto member = object.begin(); member != object.end(); ++member) {
      require_known(member.key(), fields);
    }
  }

  bool has(const char* field) const { return object_.contains(field); }
  double real(const char* field, const FigureLimits& limits) const {
    return figure_of(place(field), member(field), limits);
  }
  int64_t count(const char* field) const { return count_of(place(field), member(field)); }

  /// Position of a word among `choices`.
  int32_t word(const char* field, const char* choices) const {
    const Json& value = member(field);
    const auto* text = value.get_ptr<const std::string*>();
    const int32_t index = text == nullptr ? -1 : choice_index(choices, *text);
    if (index >= 0) return index;
    throw value_error(place(field), value, "a hardware figure is none of its choices")
        .with("choices", choices);
  }

  const Json& member(const char* field) const {
    const auto found = object_.find(field);
    if (found != object_.end() && !found->is_null()) return *found;
    throw figure_error(place(field), "a list of hardware figures lacks one")
        .with("nearest", std::string("add ") + field);
  }

  FigurePlace place(const char* field) const { return {key_, element_, field}; }

 private:
  void require_known(const std::string& name, std::initializer_list<const char*> fields) const {
    const std::string_view shown = std::string_view(name).substr(0, kLongestShown);
    const char* nearest = "";
    size_t least = std::numeric_limits<size_t>::max();
    for (const char* field : fields) {
      const size_t distance = edit_distance(shown, field);
      if (distance == 0) return;
      if (distance < least) nearest = field;
      least = std::min(least, distance);
    }
    throw figure_error({key_, element_, ""}, "a list of hardware figures has no such field")
        .with("field", shown)
        .with("nearest", nearest);
  }

  const char* key_;
  size_t element_;
  const Json& object_;
};

/// Calls `read(element index, element)` for all elements of a list key.
template <class Read>
void for_elements(const Config& config, const char* key, Read read) {
  const std::string text = config.get(key);
  if (text.empty()) return;
  Json list = parse_json(text);
  const TreeEnd end(list);
  for (size_t i = 0; i < list.size(); ++i) read(i, list[i]);
}

/// The array of `count` numbers that `value` is.
const Json& numbers_of(const FigurePlace& place, const Json& value, size_t count,
                       const char* expected) {
  if (!value.is_array() || value.size() != count) refuse_form(place, value, expected);
  return value;
}

std::vector<std::pair<double, double>> message_points(const FigurePlace& place, const Json& list) {
  constexpr const char* kForm = "list of [bytes, seconds]";
  if (!list.is_array() || list.empty()) refuse_form(place, list, kForm);
  std::vector<std::pair<double, double>> points;
  for (const Json& point : list) {
    numbers_of(place, point, 2, kForm);
    const double bytes = figure_of(place, point[0], kAboveZero);
    const double seconds = figure_of(place, point[1], kAboveZero);
    if (!points.empty() && bytes <= points.back().first) {
      throw value_error(place, point[0], "points of a collective do not ascend in bytes")
          .with("above", points.back().first);
    }
    points.emplace_back(bytes, seconds);
  }
  return points;
}

void require_new_shape(std::span<const CollectiveLine> lines, const CollectiveLine& line,
                       const ObjectReader& reader) {
  if (line.members_per_node == 1 && line.nodes == 1) {
    throw figure_error(reader.place("members_per_node"),
                       "a collective of a single member costs nothing and has no line")
        .with("members_per_node", line.members_per_node)
        .with("nodes", line.nodes)
        .with("nearest", "leave it out");
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].members_per_node != line.members_per_node || lines[i].nodes != line.nodes) {
      continue;
    }
    throw figure_error(reader.place("members_per_node"), "two lines are for the same group shape")
        .with("members_per_node", line.members_per_node)
        .with("nodes", line.nodes)
        .with("first", i)
        .with("nearest", "leave one out");
  }
}

}  // namespace

std::vector<CollectiveLine> make_collectives(const Config& config) {
  constexpr const char* kKey = "hardware.collectives";
  std::vector<CollectiveLine> lines;
  for_elements(config, kKey, [&](size_t i, const Json& element) {
    const ObjectReader reader(
        kKey, i, element,
        {"members_per_node", "nodes", "alpha_seconds", "bytes_per_second", "residual", "points"});
    CollectiveLine line{.members_per_node = reader.count("members_per_node"),
                        .nodes = reader.count("nodes"),
                        .alpha_seconds = reader.real("alpha_seconds", kNotNegative),
                        .bytes_per_second = reader.real("bytes_per_second", kAboveZero),
                        .residual = 0,
                        .points = {}};
    if (reader.has("residual")) line.residual = reader.real("residual", kNotNegative);
    if (reader.has("points")) {
      line.points = message_points(reader.place("points"), reader.member("points"));
    }
    require_new_shape(lines, line, reader);
    lines.push_back(std::move(line));
  });
  return lines;
}

TransferLines make_transfers(const Config& config) {
  constexpr const char* kKey = "hardware.transfers";
  TransferLines lines;
  for_elements(config, kKey, [&](size_t i, const Json& element) {
    const ObjectReader reader(kKey, i, element, {"level", "alpha_seconds", "bytes_per_second"});
    const bool is_node = reader.word("level", "node,fabric") == 0;
    TransferLine& line = is_node ? lines.node : lines.fabric;
    if (line.bytes_per_second > 0) {
      throw value_error(reader.place("level"), reader.member("level"),
                        "two transfers are for the same level")
          .with("nearest", "leave one out");
    }
    line = {.alpha_seconds = reader.real("alpha_seconds", kNotNegative),
            .bytes_per_second = reader.real("bytes_per_second", kAboveZero)};
  });
  return lines;
}

std::vector<ProductPoint> make_product_points(const Config& config) {
  constexpr const char* kKey = "hardware.matmul.points";
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  std::vector<ProductPoint> points;
  for_elements(config, kKey, [&](size_t i, const Json& element) {
    const ObjectReader reader(kKey, i, element, {"m", "n", "k", "batch", "dtype", "seconds"});
    points.push_back({.m = reader.count("m"),
                      .n = reader.count("n"),
                      .k = reader.count("k"),
                      .batch = reader.has("batch") ? reader.count("batch") : 1,
                      .dtype = kTypes[reader.word("dtype", "float32,bfloat16,float16")],
                      .seconds = reader.real("seconds", kAboveZero)});
  });
  return points;
}

std::vector<ProductTile> make_product_tiles(const Config& config) {
  constexpr const char* kKey = "hardware.matmul.tiles";
  std::vector<ProductTile> tiles;
  for_elements(config, kKey, [&](size_t i, const Json& element) {
    numbers_of({kKey, i, ""}, element, 3, "[rows, columns, rate]");
    tiles.push_back({.rows = count_of({kKey, i, "rows"}, element[0]),
                     .columns = count_of({kKey, i, "columns"}, element[1]),
                     .rate = figure_of({kKey, i, "rate"}, element[2], kShareAboveZero)});
  });
  return tiles;
}

}  // namespace plait
