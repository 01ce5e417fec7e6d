// Parts of a micro-batch's rows and shards of an embedding table, put together, are the whole: what
// ranks of a tensor group rely on.
#include "implementations.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/residual_norm.h"

using namespace plait;

namespace {

/// Runs `body` with each implementation of one list, at each level, on one and three threads.
template <class Kernel, class Body>
void for_all(std::vector<const Kernel*> Kernels::*list, const Body& body) {
  const Kernels all = cpu_kernels();
  for (const Kernel* kernel : all.*list) {
    for (const IsaLevel level : levels()) {
      if (!kernel->supports(DType::kBFloat16, DType::kFloat32, level)) continue;
      for (const int threads : {1, 3}) {
        Kernels only;
        only.*list = {kernel};
        OpRunner runner(only, level, threads);
        INFO(kernel->name() << " at " << isa_name(level) << " on " << threads << " threads");
        body(runner);
      }
    }
  }
}

constexpr int64_t kRows = 24, kSequence = 12, kHidden = 19, kVocabulary = 21, kPadded = 24;

struct EmbeddingProblem {
  DType compute, residual;
  bool has_positions;
  Dropout dropout = Dropout::make(stream_key("dropout/embedding", 2), 0.3, 9);
  std::vector<int32_t> tokens = random_ids(kRows, kVocabulary, 1);
  std::vector<int32_t> positions = random_ids(kRows, kSequence, 2);
  HostTensor token = random_tensor(compute, {kPadded, kHidden}, 3);
  HostTensor place = random_tensor(compute, {kSequence, kHidden}, 4);
  HostTensor grad_y = random_tensor(residual, {kRows, kHidden}, 5);

  const int32_t* positions_from(int64_t row) const {
    return has_positions ? positions.data() + row : nullptr;
  }

  /// y, the token table's and the position table's gradient, in one piece.
  std::vector<HostTensor> whole(OpRunner& runner) const {
    const HostTensor y(residual, {kRows, kHidden}), grad_token(DType::kFloat32, {kPadded, kHidden});
    const HostTensor grad_place(DType::kFloat32, {kSequence, kHidden});
    runner.run([&](OpContext& context) {
      embedding_forward(context, {tokens.data(), positions_from(0), token.view(), place.view(),
                                  dropout, kSequence, y.view()});
      embedding_backward(context, {tokens.data(), positions_from(0), grad_y.view(), dropout,
                                   kSequence, grad_token.view(), grad_place.view()});
    });
    return {y, grad_token, grad_place};
  }

  /// The same from `t` shards of the table and `t` parts of the rows.
  std::vector<HostTensor> parts(OpRunner& runner, int64_t t) const {
    const HostTensor y(residual, {kRows, kHidden}), grad_token(DType::kFloat32, {kPadded, kHidden});
    HostTensor grad_place(DType::kFloat32, {kSequence, kHidden});
    HostTensor sum(compute, {kRows, kHidden});
    sum.fill(0.0);
    const int64_t width = kPadded / t, rows = kRows / t;
    for (int64_t shard = 0; shard < t; ++shard) {
      const HostTensor found(compute, {kRows, kHidden});
      runner.run([&](OpContext& context) { look_up(context, shard * width, width, found); });
      for (int64_t i = 0; i < sum.elements(); ++i) sum.set(i, sum.at(i) + found.at(i));
      runner.run([&](OpContext& context) {
        EmbeddingBackward backward;
        backward.tokens = tokens.data();
        backward.grad_y = grad_y.view();
        backward.dropout = dropout;
        backward.sequence = kSequence;
        backward.grad_token = grad_token.view().slice_rows(shard * width, width);
        backward.first_id = shard * width;
        backward.vocabulary = kVocabulary;
        embedding_backward(context, backward);
      });
    }
    for (int64_t part = 0; part < t; ++part) {
      runner.run([&](OpContext& context) {
        EmbeddingForward forward;
        forward.positions = positions_from(part * rows);
        forward.position_weight = place.view();
        forward.dropout = dropout;
        forward.sequence = kSequence;
        forward.y = y.view().slice_rows(part * rows, rows);
        forward.first_row = part * rows;
        forward.token_rows = sum.view().slice_rows(part * rows, rows);
        embedding_forward(context, forward);
      });
      runner.run([&](OpContext& context) {
        EmbeddingBackward backward;
        backward.positions = positions_from(part * rows);
        backward.grad_y = grad_y.view().slice_rows(part * rows, rows);
        backward.dropout = dropout;
        backward.sequence = kSequence;
        backward.grad_position = grad_place.view();
        backward.mode = part == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate;
        backward.first_row = part * rows;
        embedding_backward(context, backward);
      });
    }
    return {y, grad_token, grad_place};
  }

  void look_up(OpContext& context, int64_t first, int64_t width, const HostTensor& to) const {
    EmbeddingForward forward;
    forward.tokens = tokens.data();
    forward.token_weight = token.view().slice_rows(first, width);
    forward.sequence = kSequence;
    forward.y = to.view();
    forward.first_id = first;
    forward.vocabulary = kVocabulary;
    embedding_forward(context, forward);
  }
};

}  // namespace

TEST_CASE("shards of an embedding put together are the whole", "[embedding]") {
  for (const auto& pair : dtype_pairs()) {
    const DType compute = pair.first, residual = pair.second;
    for (const bool has_positions : {false, true}) {
      const EmbeddingProblem problem{compute, residual, has_positions};
      for_all(&Kernels::embedding, [&](OpRunner& runner) {
        const std::vector<HostTensor> want = problem.whole(runner);
        for (const int64_t t : {2, 3, 4}) {
          INFO(dtype_name(compute) << " on " << dtype_name(residual) << ", " << t << " shards");
          const std::vector<HostTensor> got = problem.parts(runner, t);
          CHECK(got[0].same_bits(want[0]));
          CHECK(got[1].same_bits(want[1]));
          CHECK(difference(got[2].values(), want[2].values(), 4e-6, 1e-6) == "");
        }
      });
    }
  }
}

TEST_CASE("a foreign row is zeros, whatever lies outside the shard", "[embedding]") {
  for_all(&Kernels::embedding, [&](OpRunner& runner) {
    const EmbeddingProblem problem{DType::kFloat32, DType::kFloat32, false};
    const HostTensor found(DType::kFloat32, {kRows, kHidden});
    runner.run([&](OpContext& context) { problem.look_up(context, 6, 6, found); });
    for (int64_t i = 0; i < found.elements(); ++i) {
      const int32_t id = problem.tokens[static_cast<size_t>(i / kHidden)];
      const double want = id >= 6 && id < 12 ? problem.token.at(id * kHidden + i % kHidden) : 0.0;
      if (found.at(i) != want) FAIL_CHECK("element " << i);
    }
  });
}

TEST_CASE("parts of a residual norm's rows are the whole", "[residual_norm]") {
  const Shape shape{kRows, kHidden}, vector{kHidden};
  const Dropout dropout = Dropout::make(stream_key("dropout/layers.0.attention.output", 2), 0.3, 7);
  for (const auto& pair : dtype_pairs()) {
    const DType compute = pair.first, residual = pair.second;
    const HostTensor x = random_tensor(residual, shape, 1),
                     delta = random_tensor(compute, shape, 2);
    const HostTensor bias = random_tensor(compute, vector, 3);
    const HostTensor weight = random_tensor(compute, vector, 4);
    const HostTensor grad_y = random_tensor(compute, shape, 5);
    const HostTensor grad_sum = random_tensor(residual, shape, 6);
    const auto run = [&, c = compute, r = residual](OpRunner& runner, int64_t t) {
      std::vector<HostTensor> out = {HostTensor(r, shape), HostTensor(c, shape),
                                     HostTensor(DType::kFloat32, {kRows, 2}), HostTensor(r, shape),
                                     HostTensor(c, shape)};
      for (int i = 0; i < 2; ++i) out.emplace_back(DType::kFloat32, vector);
      const int64_t rows = kRows / t;
      for (int64_t part = 0; part < t; ++part) {
        const auto cut = [&](const HostTensor& tensor) {
          return tensor.view().slice_rows(part * rows, rows);
        };
        ResidualNormForward forward;
        forward.x = cut(x);
        forward.delta = cut(delta);
        forward.bias = bias.view();
        forward.dropout = dropout;
        forward.sequence = kSequence;
        forward.first_row = part * rows;
        forward.sum = cut(out[0]);
        forward.weight = weight.view();
        forward.y = cut(out[1]);
        forward.statistics = cut(out[2]);
        ResidualNormBackward backward;
        backward.grad_y = cut(grad_y);
        backward.grad_sum = cut(grad_sum);
        backward.sum = cut(out[0]);
        backward.weight = weight.view();
        backward.statistics = cut(out[2]);
        backward.dropout = dropout;
        backward.sequence = kSequence;
        backward.first_row = part * rows;
        backward.grad_x = cut(out[3]);
        backward.grad_delta = cut(out[4]);
        backward.grad_weight = out[5].view();
        backward.grad_bias = out[6].view();
        backward.mode = part == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate;
        runner.run([&](OpContext& context) {
          residual_norm_forward(context, forward);
          residual_norm_backward(context, backward);
        });
      }
      return out;
    };
    for_all(&Kernels::residual_norm, [&](OpRunner& runner) {
      const std::vector<HostTensor> want = run(runner, 1);
      for (const int64_t t : {2, 3, 4, 8}) {
        INFO(dtype_name(compute) << " on " << dtype_name(residual) << ", " << t << " parts");
        const std::vector<HostTensor> got = run(runner, t);
        for (size_t i = 0; i < 5; ++i) CHECK(got[i].same_bits(want[i]));
        for (size_t i = 5; i < 7; ++i) {
          CHECK(difference(got[i].values(), want[i].values(), 1e-5, 1e-5) == "");
        }
      }
    });
  }
}
