// Tensors and generation.
#include <algorithm>

#include "engine/trainer/local_engine.h"
#include "kernels/base/error.h"

namespace plait {

void LocalEngine::check_tensor(std::string_view name, DType dtype, const void* data, int64_t bytes,
                               int64_t* tensor) const {
  ranks_.check_usable();
  const Rank& rank = ranks_.rank(0);
  *tensor = find_tensor(rank, name);
  const bool is_float =
      dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  const Shape& shape = rank.tensors()[static_cast<size_t>(*tensor)].shape;
  const int64_t want = shape.elements() * dtype_size(dtype);
  if (is_float && (data == nullptr || bytes == want)) return;
  throw Error("argument", "a tensor is read and written whole, as float32, bfloat16 or float16")
      .with("tensor", name)
      .with("dtype", dtype_name(dtype))
      .with("bytes", bytes)
      .with("want", want);
}

/// On the thread of local rank 0: the whole of a part whose elements lie on one rank each. Local
/// ranks, which all wait meanwhile, are read in place; other processes answer through the leaders.
std::vector<float> LocalEngine::collect(const TensorTerm& part, int64_t elements) {
  std::vector<float> values(static_cast<size_t>(elements), kNothing);
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    read_part(ranks_.rank(local), part, values.data());
  }
  if (ranks_.leaders() != nullptr) {
    ranks_.leaders()->all_reduce({values.data(), DType::kFloat32, {elements}});
  }
  return values;
}

/// Sums of the terms of a gradient in the order of the reductions: over the data axis, over the
/// holders of partial segments, over the two uses; then the mean over the targets so far.
std::vector<float> LocalEngine::collect_gradient(int64_t tensor, int64_t elements) {
  const Rank& rank = ranks_.rank(0);
  const bool is_tied = settings_.model.tied &&
                       rank.tensors()[static_cast<size_t>(tensor)].name == "embedding.token.weight";
  std::vector<float> total(static_cast<size_t>(elements), kNothing);
  const auto add = [](const std::vector<float>& from, std::vector<float>* to) {
    for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
  };
  for (int use = 0; use < (is_tied ? 2 : 1); ++use) {
    std::vector<float> of_use(total.size(), kNothing);
    for (int64_t holder = 0; holder < settings_.layout.tensor; ++holder) {
      std::vector<float> of_holder(total.size(), kNothing);
      for (int64_t data = 0; data < settings_.layout.data; ++data) {
        add(collect({tensor, TensorKind::kGradient, data, holder, use == 1}, elements), &of_holder);
      }
      add(of_holder, &of_use);
    }
    add(of_use, &total);
  }
  const int64_t targets = pending_.sums.targets;
  const double factor = targets == 0 ? 0.0 : rank.gradient_factor(targets);
  for (float& value : total) value = static_cast<float>(factor * static_cast<double>(value));
  return total;
}

void LocalEngine::read_tensor(std::string_view name, TensorKind kind, DType dtype,
                              int64_t timeout_ms, void* data, int64_t bytes) {
  int64_t tensor = 0;
  check_tensor(name, dtype, data, bytes, &tensor);
  const bool is_gradient = kind == TensorKind::kGradient;
  if (is_gradient && !pending_.has_gradients) {
    throw Error("mid_step", "gradients can be read between forward_backward and optimizer_step")
        .with("tensor", name);
  }
  if (data == nullptr) return;
  const int64_t elements = ranks_.rank(0).tensors()[static_cast<size_t>(tensor)].shape.elements();
  const auto values = std::make_shared<std::vector<float>>();
  RankSet::Call call;
  call.name = "engine_read_tensor";
  call.value = std::string(name) + " " + std::to_string(static_cast<int>(kind));
  call.timeout_ms = timeout_ms;
  call.part = [this, tensor, kind, elements, values](int64_t local) {
    if (local != 0) return;
    *values = kind == TensorKind::kGradient ? collect_gradient(tensor, elements)
                                            : collect({tensor, kind}, elements);
  };
  ranks_.run(call);
  store_values(values->data(), elements, dtype, data);
}

void LocalEngine::write_tensor(std::string_view name, TensorKind kind, DType dtype,
                               const void* data, int64_t bytes, int64_t timeout_ms) {
  int64_t tensor = 0;
  check_tensor(name, dtype, data, bytes, &tensor);
  if (data == nullptr) throw Error("argument", "no data to write").with("tensor", name);
  if (kind == TensorKind::kGradient) {
    throw Error("argument", "gradients can be read but not written").with("tensor", name);
  }
  const int64_t elements = ranks_.rank(0).tensors()[static_cast<size_t>(tensor)].shape.elements();
  const auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(elements));
  fetch_values(data, elements, dtype, values->data());
  RankSet::Call call;
  call.name = "engine_write_tensor";
  call.value = std::string(name) + " " + std::to_string(static_cast<int>(kind));
  call.timeout_ms = timeout_ms;
  is_fresh_ = false;
  call.part = [this, tensor, kind, values](int64_t local) {
    plait::write_tensor(ranks_.rank(local), tensor, kind, values->data());
    ranks_.rank(local).masters_changed();
  };
  ranks_.run(call);
}

/// On a rank's thread: appends up to request_.count ids. All ranks append the same.
void LocalEngine::run_generation(Rank& rank, int64_t local) {
  constexpr int32_t kNonfinite = -2, kEnd = -1;
  std::vector<int32_t>* ids = &request_.ids[static_cast<size_t>(local)];
  std::vector<float> logits(static_cast<size_t>(rank.holds_loss() ? rank.padded_vocabulary() : 0));
  for (int64_t i = 0; i < request_.count; ++i) {
    const GlobalSums agreed = rank.add_up({0, 0, ranks_.is_stop_requested() ? 1 : 0});
    if (agreed.stop != 0) {
      if (local == 0) request_.is_stopped = true;
      return;
    }
    const auto length = static_cast<int64_t>(ids->size());
    const int64_t window = std::min(length, rank.longest_window());
    int32_t id = kEnd;
    if (rank.next_logits(ids->data() + (length - window), window, logits.data())) {
      try {
        id = generators_[static_cast<size_t>(local)].choose(settings_.generate, logits.data(),
                                                            settings_.model.vocab_size, i);
      } catch (const Error&) {
        id = kNonfinite;
      }
      if (id == settings_.generate.stop_token) id = kEnd;
    }
    id = rank.share_token(id);
    if (id == kEnd) return;
    if (id == kNonfinite) {
      if (local == 0) request_.is_nonfinite = true;
      return;
    }
    ids->push_back(id);
  }
}

Outcome LocalEngine::generate(const int32_t* prompt, int64_t prompt_count, int64_t max_tokens,
                              int64_t timeout_ms, std::vector<int32_t>* tokens) {
  ranks_.check_usable();
  if (prompt == nullptr || prompt_count < 1) {
    throw Error("argument", "the prompt is empty").with("prompt_count", prompt_count);
  }
  if (max_tokens < 0) {
    throw Error("argument", "max_tokens is negative").with("max_tokens", max_tokens);
  }
  for (int64_t i = 0; i < prompt_count; ++i) {
    if (prompt[i] >= 0 && prompt[i] < settings_.model.vocab_size) continue;
    throw Error("token_range", "an id lies outside the vocabulary")
        .with("tensor", "prompt")
        .with("position", i)
        .with("value", prompt[i])
        .with("vocabulary", settings_.model.vocab_size);
  }
  request_ = {};
  request_.ids.assign(static_cast<size_t>(ranks_.size()), {prompt, prompt + prompt_count});
  request_.count = max_tokens;
  RankSet::Call call;
  call.name = "engine_generate";
  call.value = std::to_string(prompt_count) + " " + std::to_string(max_tokens);
  call.timeout_ms = timeout_ms;
  call.part = [this](int64_t local) { run_generation(ranks_.rank(local), local); };
  ranks_.run(call);
  if (request_.is_nonfinite) throw Error("nonfinite_weights", "a logit is not finite");
  if (take_stop(request_.is_stopped)) return Outcome::kStopped;
  tokens->assign(request_.ids[0].begin() + prompt_count, request_.ids[0].end());
  return Outcome::kDone;
}

}  // namespace plait
