// Typed functions give what call() gives: each kind of signature once, on cut operands.
#include <cmath>
#include <numbers>

#include "dtensor/ops.h"
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

/// What a typed function gave, and what call() gave.
struct Pair {
  std::vector<DTensor> typed, called;
};

struct Operands {
  DTensor x, y, truth, index;
  explicit Operands(Rank& rank) {
    const Mesh mesh = mesh_of_shape({2});
    const auto cut = [&](const Shape& shape, unsigned seed) {
      return distribute(rank.runtime, random_values(shape, DType::kF64, seed), mesh,
                        Placements{S(0)});
    };
    x = cut({6, 4}, 1);
    y = abs(cut({6, 4}, 2));
    truth = gt(x, 0.0);
    index = cast(mul(y, 0.0), DType::kI64);
  }
};

/// Overloads, defaults and optional values.
std::vector<Pair> scalars(const Operands& o) {
  const auto one = [&](std::string_view op, std::initializer_list<DTensor> operands,
                       const Attrs& attrs) {
    return call(o.x.runtime(), op, std::span(operands.begin(), operands.size()), attrs);
  };
  return {
      {{add(o.x, 2.0)}, one("add_scalar", {o.x}, {{"value", 2.0}})},
      {{add(o.x, o.y, 3.0)}, one("add", {o.x, o.y}, {{"alpha", 3.0}})},
      {{sub(o.x, o.y)}, one("sub", {o.x, o.y}, {})},
      {{pow(o.y, 2.0)}, one("pow", {o.y}, {{"exponent", 2.0}})},
      {{pow(o.y, o.x)}, one("pow_tensor", {o.y, o.x}, {})},
      {{clamp(o.x, -HUGE_VAL, 0.5)}, one("clamp", {o.x}, {{"max", 0.5}})},
      {{where(o.truth, o.x, -1.0)}, one("where_scalar", {o.truth, o.x}, {{"other", -1.0}})},
      {{gelu(o.x, "tanh")}, one("gelu", {o.x}, {{"approximate", std::string("tanh")}})},
      {{gather(o.x, 1, o.index)}, one("gather", {o.x, o.index}, {{"dim", std::int64_t{1}}})},
      {{full_like(o.x, 2.0, DType::kF32)},
       one("full_like", {o.x}, {{"fill_value", 2.0}, {"dtype", DType::kF32}})},
      {{sum(o.x, {1}, KeepDim::kYes)}, one("sum", {o.x}, {{"dim", Shape{1}}, {"keepdim", true}})},
      {{roll(o.x, {1}, {1})}, one("roll", {o.x}, {{"shifts", Shape{1}}, {"dims", Shape{1}}})}};
}

std::vector<DTensor> both(std::pair<DTensor, DTensor> results) {
  return {std::move(results.first), std::move(results.second)};
}

/// Several results, lists of operands, options, what only a gradient wants.
std::vector<Pair> others(const Operands& o) {
  Runtime& runtime = o.x.runtime();
  const DTensor images = reshape(o.x, {6, 1, 4});
  const DTensor weight =
      distribute(runtime, random_values({2, 1, 3}, DType::kF64, 5), o.x.mesh(), Placements{R});
  const DTensor list[] = {o.x, o.y};
  const DTensor scale =
      distribute(runtime, random_values({4}, DType::kF64, 6), o.x.mesh(), Placements{R});
  const std::int64_t last = -1;
  return {{both(topk(o.x, 2)), call(runtime, "topk", {{o.x}}, {{"k", std::int64_t{2}}})},
          {both(max(o.x, 1)), call(runtime, "max_dim", {{o.x}}, {{"dim", std::int64_t{1}}})},
          {{max(o.x)}, call(runtime, "max", {{o.x}})},
          {both(std_mean(o.x, {1})), call(runtime, "std_mean", {{o.x}}, {{"dim", Shape{1}}})},
          {chunk(o.x, 2, 1),
           call(runtime, "chunk", {{o.x}}, {{"chunks", std::int64_t{2}}, {"dim", last}})},
          {{cat(list, -1)}, call(runtime, "cat", list, {{"dim", last}})},
          {{einsum(list, "ij,kj->ik")},
           call(runtime, "einsum", list, {{"equation", std::string("ij,kj->ik")}})},
          {{conv1d(images, weight, {}, {.padding = {1}})},
           call(runtime, "conv1d", {{images, weight, DTensor()}}, {{"padding", Shape{1}}})},
          {{rms_norm(o.x, scale)}, {call(runtime, "rms_norm", {{o.x, scale}})[0]}}};
}

/// In place: by the number, by a tensor; the function gives its operand back.
std::vector<Pair> in_place(const Operands& o) {
  Runtime& runtime = o.x.runtime();
  DTensor typed = clone(o.x);
  const DTensor called = clone(o.x);
  DTensor& returned = mul_(add_(typed, o.y), std::numbers::pi);
  call(runtime, "add_", {{called, o.y}});
  call(runtime, "mul_scalar_", {{called}}, {{"value", std::numbers::pi}});
  return {{{returned}, {called}}};
}

}  // namespace

TEST_CASE("Typed functions give what call() gives", "[dtensor][typed]") {
  if (!runs_here(2)) return;
  const auto which = GENERATE(scalars, others, in_place);
  const auto ranks = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    const Operands operands(rank);
    std::vector<std::string> wrong;
    const std::vector<Pair> pairs = which(operands);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      bool same = pairs[i].typed.size() == pairs[i].called.size() && !pairs[i].typed.empty();
      for (std::size_t r = 0; same && r < pairs[i].typed.size(); ++r) {
        const DTensor& typed = pairs[i].typed[r];
        const DTensor& called = pairs[i].called[r];
        same = typed.spec() == called.spec() &&
               full_tensor(typed).to_vector() == full_tensor(called).to_vector();
      }
      if (!same) wrong.push_back("pair " + std::to_string(i));
    }
    return std::tuple(pairs.size(), wrong);
  });
  for (const auto& [pairs, wrong] : ranks) {
    CHECK(pairs > 0);
    for (const std::string& each : wrong) UNSCOPED_INFO(each);
    CHECK(wrong.empty());
  }
}

TEST_CASE("A typed function of a list refuses an empty one", "[dtensor][typed]") {
  const std::span<const DTensor> none;
  CHECK_THROWS_WITH(cat(none, 0), Catch::Contains("cat: no tensors; at least one is needed"));
}

}  // namespace tessera::testing
