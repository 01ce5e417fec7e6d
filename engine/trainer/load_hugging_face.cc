// The weights of a Hugging Face directory as the source of a load.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "checkpoint/hf_directory.h"
#include "engine/trainer/load_source.h"
#include "engine/trainer/model_facts.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

class HuggingFaceLoadSource final : public LoadSource {
 public:
  explicit HuggingFaceLoadSource(HfDirectory directory) : directory_(std::move(directory)) {}

  std::string identity() const override {
    return "huggingface " + std::to_string(directory_.file_count()) + " " +
           std::to_string(directory_.data_bytes());
  }
  ResumeDecision compare(const LoadingRun& run) override;
  DigestSums read(std::span<const StatePiece> pieces, bool is_live,
                  const std::atomic<bool>& is_cancelled) override;
  void verify(const std::atomic<bool>&) override {}  // every load reads all there is
  void prove(const DigestSums&) const override {}    // these files hold no sums
  const Manifest* manifest() const override { return nullptr; }
  std::vector<SavedProperty> properties() const override;
  void report(JsonObject* report) const override;

 private:
  HfDirectory directory_;
  LoadingRun run_;
};

ResumeDecision HuggingFaceLoadSource::compare(const LoadingRun& run) {
  directory_.check_matches(model_facts(run.settings->model));
  run_ = run;
  return {directory_.warnings(), true};
}

/// Box by box, those of replicas once. Without live memory each box passes through a buffer of its
/// own size.
DigestSums HuggingFaceLoadSource::read(std::span<const StatePiece> pieces, bool is_live,
                                       const std::atomic<bool>& is_cancelled) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    return std::tie(pieces[i].tensor, pieces[i].box.first, pieces[i].box.size);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<float> scratch;
  const float* values = nullptr;
  for (size_t i = 0; i < order.size(); ++i) {
    if (is_cancelled.load()) throw Error("cancelled", "the load was told to stop");
    const StatePiece& piece = pieces[order[i]];
    const auto elements = static_cast<size_t>(piece.box.elements());
    if (i > 0 && key(order[i]) == key(order[i - 1])) {
      if (is_live) std::memcpy(piece.data, values, elements * sizeof(float));
      continue;
    }
    if (!is_live) scratch.resize(elements);
    float* target = is_live ? piece.data : scratch.data();
    const SavedTensor& tensor = run_.expected->tensors[static_cast<size_t>(piece.tensor)];
    directory_.read(tensor.name, piece.box, target);
    values = target;
    if (run_.settings->checkpoint.check_finite) check_finite_values(piece, values, tensor);
  }
  return {};
}

std::vector<SavedProperty> HuggingFaceLoadSource::properties() const {
  const std::string& text = directory_.config().text;
  if (static_cast<int64_t>(text.size()) > FormatLimits::kPropertyTextBytes) return {};
  SavedProperty property;
  property.name = "hf.config";
  property.type = SavedProperty::Type::kText;
  property.text = text;
  return {property};
}

void HuggingFaceLoadSource::report(JsonObject* report) const {
  report->field("format", "huggingface")
      .field("weights_only", true)
      .field("tensors", directory_.tensors().size())
      .field("files", directory_.file_count())
      .field("bytes", directory_.data_bytes());
}

}  // namespace

std::unique_ptr<LoadSource> open_hugging_face_source(Files& files, const std::string& directory) {
  return std::make_unique<HuggingFaceLoadSource>(HfDirectory::open(files, directory));
}

}  // namespace plait
