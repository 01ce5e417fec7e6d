// What all fronts share: checks, the abort flag, measuring, the choice of an implementation.
#include <catch2/catch.hpp>

#include "kernels/ops/activation.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/names.h"
#include "kernels/ops/span.h"
#include "kernels/reference/reference_kernels.h"
#include "op_fixture.h"

using namespace plait;

namespace {

/// The message of the Error that `call` throws, "" if none.
std::string message_of(const std::function<void(OpContext&)>& call) {
  Workspace workspace;
  workspace.allocate(nullptr);
  OpContext context{reference_runner().device(), reference_runner().kernels(), workspace};
  try {
    call(context);
  } catch (const Error& error) {
    CHECK(error.code() == Code::kInternal);
    CHECK(error.word() == "invariant");
    return error.message();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a wrong shape, dtype or alias names op and tensor", "[arguments]") {
  const HostTensor u = random_tensor(DType::kFloat32, {2, 4}, 1);
  const HostTensor short_y(DType::kFloat32, {2, 3}), wrong_dtype(DType::kBFloat16, {2, 4});
  const auto forward = [](const TensorView& u_view, const TensorView& y) {
    return message_of([=](OpContext& context) {
      activation_forward(context, {ActivationKind::kGelu, u_view, y});
    });
  };
  const std::string shape = forward(u.view(), short_y.view());
  CHECK(contains(shape, "op=activation_forward"));
  CHECK(contains(shape, "tensor=y"));
  CHECK(contains(shape, "want=float32[2,4]"));
  CHECK(contains(shape, "got=float32[2,3]"));
  CHECK(contains(forward(u.view(), wrong_dtype.view()), "got=bfloat16[2,4]"));
  CHECK(contains(forward(u.view(), {}), "got=absent"));
  CHECK(contains(forward(u.view(), u.view()), "different memory"));
  CHECK(contains(forward({}, u.view()), "tensor=u"));
}

TEST_CASE("ids out of range are caught before they are used", "[arguments]") {
  const HostTensor table = random_tensor(DType::kFloat32, {4, 2}, 1), y(DType::kFloat32, {3, 2});
  for (const int32_t bad : {-1, 4}) {
    const std::vector<int32_t> tokens = {0, bad, 1};
    const std::string message = message_of([&](OpContext& context) {
      embedding_forward(context, {tokens.data(), nullptr, table.view(), {}, {}, 3, y.view()});
    });
    CHECK(contains(message, "row=1"));
    CHECK(contains(message, "got=" + std::to_string(bad)));
  }
  const std::vector<int32_t> future = {0, 2, 0};  // row 1 would see nothing
  const HostTensor qkv = random_tensor(DType::kFloat32, {3, 3}, 1), out(DType::kFloat32, {3, 1}),
                   log_sum(DType::kFloat32, {1, 1, 3});
  CHECK(contains(
      message_of([&](OpContext& context) {
        attention_forward(
            context, {{1, 3, 1, 1, 1}, qkv.view(), future.data(), {}, out.view(), log_sum.view()});
      }),
      "op=attention_forward"));
}

TEST_CASE("a shard of an embedding refuses what belongs to the whole", "[arguments]") {
  const HostTensor table = random_tensor(DType::kFloat32, {4, 2}, 1), y(DType::kFloat32, {3, 2});
  const std::vector<int32_t> tokens = {0, 9, 1};
  const auto forward = [&](const std::function<void(EmbeddingForward*)>& change) {
    EmbeddingForward a;
    a.tokens = tokens.data();
    a.token_weight = table.view();
    a.first_id = 4;
    a.vocabulary = 10;
    a.y = y.view();
    change(&a);
    return message_of([&](OpContext& context) { embedding_forward(context, a); });
  };
  CHECK(forward([](EmbeddingForward*) {}) == "");
  CHECK(contains(forward([](EmbeddingForward* a) { a->vocabulary = 9; }), "got=9"));
  CHECK(contains(forward([](EmbeddingForward* a) { a->vocabulary = 0; }), "starts at 0"));
  CHECK(contains(forward([](EmbeddingForward* a) { a->first_row = -1; }), "rows start at 0"));
  CHECK(contains(forward([](EmbeddingForward* a) { a->dropout = Dropout::make({}, 0.5, 0); }),
                 "after the sum over shards"));
  CHECK(contains(forward([&](EmbeddingForward* a) { a->position_weight = table.view(); }),
                 "after the sum over shards"));
  CHECK(contains(forward([&](EmbeddingForward* a) { a->token_rows = y.view(); }),
                 "come from a table or are given"));
}

TEST_CASE("more rows than planned are refused", "[arguments]") {
  const HostTensor w = random_tensor(DType::kFloat32, {2, 3}, 1), y(DType::kFloat32, {5, 2}),
                   x = random_tensor(DType::kFloat32, {5, 3}, 2);
  CHECK(contains(message_of([&](OpContext& context) {
                   LinearWeight weight;
                   weight.shape = {2, 3, DType::kFloat32, 4};
                   weight.plan = make_linear_plan(context, weight.shape);
                   weight.weight = w.view();
                   linear_forward(context, weight, {x.view(), {}, y.view()});
                 }),
                 "op=linear_forward"));
}

TEST_CASE("an aborted engine stops at the next op", "[arguments]") {
  Workspace workspace;
  workspace.allocate(nullptr);
  std::atomic<bool> is_aborted{true};
  OpContext context{reference_runner().device(), reference_runner().kernels(), workspace,
                    &is_aborted};
  const HostTensor a = random_tensor(DType::kFloat32, {4}, 1);
  const HostTensor b(DType::kFloat32, {4}, std::vector<double>(4, 1.0));
  try {
    add_span(context, a.view(), b.view());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == Code::kAborted);
    CHECK(error.word() == "aborted");
  }
  for (int64_t i = 0; i < 4; ++i) CHECK(b.at(i) == 1.0);
}

TEST_CASE("a measuring pass touches nothing and notes the workspace", "[arguments]") {
  Workspace workspace;
  OpContext context{reference_runner().device(), reference_runner().kernels(), workspace};
  Workspace::Frame frame(workspace);
  const TensorView grad_y = frame.tensor(DType::kFloat32, {6, 2});
  const TensorView table = frame.tensor(DType::kFloat32, {5, 2});
  embedding_backward(context, {nullptr, nullptr, grad_y, {}, 3, table, {}});
  CHECK(workspace.needed() >= 128 + 4 * (6 + 5));
  CHECK(sum_squares(context, frame.tensor(DType::kFloat32, {100000})) == 0.0);
  CHECK(workspace.needed() >= 400000 + 25 * 8);
}

TEST_CASE("the report names an implementation for each op", "[arguments]") {
  Workspace workspace;
  OpContext context{reference_runner().device(), reference_runner().kernels(), workspace};
  KernelNeeds needs;
  needs.compute = DType::kBFloat16;
  needs.linears = {{"output", {4, 8, DType::kBFloat16, 2}},
                   {"output", {4, 9, DType::kBFloat16, 2}}};
  needs.attention = {1, 2, 1, 1, 4};
  const auto lines = chosen_kernels(context, needs);
  CHECK(lines.size() == 10);
  for (const auto& [op, name] : lines) CHECK(name == "reference");
  CHECK(lines[2].first == "linear/output");
  Kernels empty;
  OpContext without{reference_runner().device(), empty, workspace};
  for (const auto& [op, name] : chosen_kernels(without, needs)) CHECK(name == "none");
  CHECK_THROWS_AS(make_linear_plan(without, {4, 8, DType::kBFloat16, 2}), Error);
}
