#include "implementations.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/support/sanitized.h"

namespace plait {

std::vector<std::vector<int64_t>> shapes(const std::string& op) {
  std::ifstream file(PLAIT_SHAPES_FILE);
  REQUIRE(file.good());
  std::vector<std::vector<int64_t>> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != op) continue;
    std::vector<int64_t> sizes;
    for (int64_t size = 0; words >> size;) sizes.push_back(size);
    found.push_back(sizes);
  }
  REQUIRE(!found.empty());
  return found;
}

std::vector<IsaLevel> levels() {
  const int best = static_cast<int>(detected_isa().level);
  // Threads share the work in the same way at every level.
  const int step = test::kIsThreadSanitized ? std::max(best, 1) : 1;
  std::vector<IsaLevel> all;
  for (int i = 0; i <= best; i += step) all.push_back(static_cast<IsaLevel>(i));
  return all;
}

void check_results(const std::string& where, const std::vector<HostTensor>& got,
                   const std::vector<HostTensor>& want, const std::vector<Bound>& bounds) {
  REQUIRE(got.size() == bounds.size());
  REQUIRE(want.size() == bounds.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string found =
        difference(got[i].values(), want[i].values(), bounds[i].absolute, bounds[i].relative);
    if (!found.empty()) FAIL_CHECK(where << ": " << bounds[i].name << " " << found);
    if (!got[i].is_guarded()) FAIL_CHECK(where << ": wrote beside " << bounds[i].name);
  }
  SUCCEED();
}

std::vector<std::pair<DType, DType>> dtype_pairs() {
  return {{DType::kFloat32, DType::kFloat32},
          {DType::kBFloat16, DType::kBFloat16},
          {DType::kBFloat16, DType::kFloat32},
          {DType::kFloat16, DType::kFloat16},
          {DType::kFloat16, DType::kFloat32}};
}

double largest(const HostTensor& tensor) {
  double most = 0.0;
  for (const double value : tensor.values()) most = std::max(most, std::fabs(value));
  return most;
}

double largest_norm(const HostTensor& tensor, bool is_down) {
  const int64_t columns = tensor.view().columns();
  std::vector<double> sums(static_cast<size_t>(is_down ? columns : tensor.view().rows()), 0.0);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    sums[static_cast<size_t>(is_down ? i % columns : i / columns)] += tensor.at(i) * tensor.at(i);
  }
  return std::sqrt(*std::max_element(sums.begin(), sums.end()));
}

double rounding(DType dtype) { return dtype == DType::kFloat32 ? 2e-7 : spacing(dtype); }

}  // namespace plait
