// Which calls of attention a card's library takes, and under which bound.
#include "kernels/attention_plan.h"

#include <functional>

#include "catch2/catch.hpp"

namespace tessera::testing {
namespace {

using namespace kernels;

struct Call {
  std::int64_t queries = 96, keys = 128, depth = 64, width = 32;
  DType dtype = DType::kBF16;
  AttentionOptions options = {};

  Array q, k, v, out, lse, grad;
  AttentionGradients grads;

  /// Dense arrays of 2 x 3 heads.
  Call& made() {
    const auto heads = [&](std::int64_t rows, std::int64_t cols) {
      return Array::empty({2, 3, rows, cols}, dtype);
    };
    q = heads(queries, depth), k = heads(keys, depth), v = heads(keys, width);
    out = heads(queries, width), grad = heads(queries, width);
    lse = Array::empty({2, 3, queries}, DType::kF32);
    grads = {heads(queries, depth), heads(keys, depth), heads(keys, width)};
    return *this;
  }
  std::optional<AttentionPlan> plan() const { return plan_attention(q, k, v, options, out, lse); }
  std::optional<AttentionPlan> plan_grad() const {
    return plan_attention_grad(grad, q, k, v, out, lse, options, grads);
  }
};

Call call_with(
    const std::function<void(Call&)>& choose,
    const std::function<void(Call&)>& change = [](Call&) {}) {
  Call call;
  choose(call);
  call.made();
  change(call);
  return call;
}

}  // namespace

TEST_CASE("a library's causal bounds are those whose rows all see a key", "[kernels][attention]") {
  const auto bound = [](std::int64_t offset, std::int64_t queries, std::int64_t keys) {
    return attention_bound({.causal = true, .causal_offset = offset}, queries, keys);
  };
  CHECK(attention_bound({.causal = false, .causal_offset = -7}, 10, 10) == AttentionBound::kNone);
  CHECK(bound(0, 10, 10) == AttentionBound::kTopLeft);
  CHECK(bound(0, 10, 30) == AttentionBound::kTopLeft);
  CHECK(bound(0, 30, 10) == AttentionBound::kTopLeft);
  CHECK(bound(20, 10, 30) == AttentionBound::kBottomRight);
  CHECK(bound(29, 10, 30) == AttentionBound::kNone);  // row 0 sees all
  CHECK(bound(100, 10, 30) == AttentionBound::kNone);
  CHECK(bound(0, 10, 1) == AttentionBound::kNone);
  for (const std::int64_t offset : {-1, -20, 1, 19, 21, 28}) {
    CAPTURE(offset);
    CHECK_FALSE(bound(offset, 10, 30).has_value());
  }
  CHECK_FALSE(bound(-20, 30, 10).has_value());  // early rows would see nothing
}

TEST_CASE("attention in halves is a library's, however its heads lie", "[kernels][attention]") {
  const DType dtype = GENERATE(DType::kBF16, DType::kF16);
  const Call call = call_with([&](Call& c) { c.dtype = dtype; });
  const std::optional<AttentionPlan> plan = call.plan();
  REQUIRE(plan.has_value());
  CHECK(plan->dtype == dtype);
  CHECK(plan->bound == AttentionBound::kTopLeft);
  CHECK(std::tie(plan->batch, plan->heads, plan->queries, plan->keys, plan->depth, plan->width) ==
        std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                   std::int64_t>(2, 3, 96, 128, 64, 32));
  CHECK(plan->strides.size() == 4);
  CHECK(plan->strides[0] == std::array<std::int64_t, 4>{3 * 96 * 64, 96 * 64, 64, 1});
  const std::optional<AttentionPlan> gradient = call.plan_grad();
  REQUIRE(gradient.has_value());
  CHECK(gradient->strides.size() == 8);
  CHECK(*gradient != *plan);

  // (B, L, H, E), as projections give it.
  const Call between = call_with([&](Call& c) { c.dtype = dtype; },
                                 [&](Call& c) {
                                   c.q = Array::empty({2, 96, 3, 64}, dtype).transpose(1, 2);
                                 });
  REQUIRE(between.plan().has_value());
  CHECK(between.plan()->strides[0] == std::array<std::int64_t, 4>{96 * 3 * 64, 64, 3 * 64, 1});
  CHECK(*between.plan() != *plan);
}

TEST_CASE("attention that a library does not take is left to the kernels", "[kernels][attention]") {
  const std::function<void(Call&)> nothing = [](Call&) {};
  const std::tuple<const char*, std::function<void(Call&)>, std::function<void(Call&)>> calls[] = {
      {"F32", [](Call& c) { c.dtype = DType::kF32; }, nothing},
      {"an offset of its own", [](Call& c) { c.options.causal_offset = 5; }, nothing},
      {"few queries", [](Call& c) { c.queries = 63; }, nothing},
      {"few keys", [](Call& c) { c.keys = 63; }, nothing},
      {"a depth of part of a word", [](Call& c) { c.depth = 60; }, nothing},
      {"a width of part of a word", [](Call& c) { c.width = 36; }, nothing},
      {"wide heads", [](Call& c) { c.depth = 264; }, nothing},
      {"no depth", [](Call& c) { c.depth = 0; }, nothing},
      {"columns that lie apart", nothing,
       [](Call& c) {
         c.k = Array::empty({2, 3, 64, 128}, c.dtype).transpose(2, 3);
       }},
      {"heads that repeat", nothing,
       [](Call& c) {
         c.v = Array::empty({2, 1, 128, 32}, c.dtype)
                   .as_strided({2, 3, 128, 32}, {128 * 32, 0, 32, 1}, 0);
       }},
      {"an address within a word", nothing,
       [](Call& c) {
         c.out = Array::empty({2 * 3 * 96 * 32 + 8}, c.dtype)
                     .as_strided({2, 3, 96, 32}, {3 * 96 * 32, 96 * 32, 32, 1}, 4);
       }},
      {"rows that begin within a word", nothing,
       [](Call& c) {
         c.q = Array::empty({2 * 3 * 96 * 68}, c.dtype)
                   .as_strided({2, 3, 96, 64}, {3 * 96 * 68, 96 * 68, 68, 1}, 0);
       }},
      {"log-sums that lie apart", nothing,
       [](Call& c) {
         c.lse = Array::empty({2, 96, 3}, DType::kF32).transpose(1, 2);
       }},
  };
  for (const auto& [what, choose, change] : calls) {
    CAPTURE(what);
    const Call call = call_with(choose, change);
    CHECK_FALSE(call.plan().has_value());
    CHECK_FALSE(call.plan_grad().has_value());
  }
  const Call call = call_with(nothing, [](Call& c) {
    c.grads.k = Array::empty({2, 3, 64, 128}, c.dtype).transpose(2, 3);
  });
  CHECK(call.plan().has_value());
  CHECK_FALSE(call.plan_grad().has_value());
}

}  // namespace tessera::testing
