// Bad calls: every rank gets the same text before any of them communicates, so nobody waits.
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

struct Refusals {
  std::vector<std::string> errors;
  bool silent = false;  ///< no event, so nothing was sent
  double after = 0.0;   ///< a reduction that all ranks take part in
};

}  // namespace

TEST_CASE("wrong arity, dtype, dims and attributes are refused alike on every rank",
          "[dtensor][refused]") {
  for (const Shape& sizes : {Shape{1}, Shape{2}, Shape{4}, Shape{2, 2}}) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const Placements cut(sizes.size(), S(0)), sums(sizes.size(), P);
      const DTensor x = rank.distribute(random_values({4, 6}, DType::kF64, 1), cut);
      const DTensor y = rank.distribute(random_values({5, 6}, DType::kF64, 2), cut);
      const DTensor flags = rank.distribute(Array::zeros({4, 6}, DType::kBool), cut);
      const DTensor ids = rank.distribute(Array::zeros({4, 6}, DType::kI64), cut);
      const DTensor none = rank.distribute(Array::zeros({0, 6}, DType::kF64), cut);
      rank.runtime.events().clear();
      Refusals refusals;
      const auto refuse = [&](std::string_view op, std::vector<DTensor> operands, Attrs attrs) {
        refusals.errors.push_back(error_of([&] { call(rank.runtime, op, operands, attrs); }));
      };
      refuse("add", {x}, {});
      refuse("add", {x, y}, {});
      refuse("matmul", {x, y}, {});
      refuse("softmax", {x}, {{"dim", 2}});
      refuse("sum", {x}, {{"dim", Shape{0, 0}}});
      refuse("gather", {x, x}, {{"dim", 1}});
      refuse("max_dim", {none}, {{"dim", 0}});
      refuse("argmax", {none}, {{"dim", 0}});
      refuse("topk", {x}, {{"k", 7}, {"dim", 1}});
      refuse("softmax", {x}, {{"dim", 1}, {"speed", 3}});
      refuse("softmaks", {x}, {{"dim", 1}});
      refuse("add_", {ids, x}, {});
      refuse("rms_norm", {x, DTensor()}, {{"eps", 1e-6}});
      refuse("exp", {flags, flags}, {});
      refusals.silent = rank.runtime.events().events().empty();
      const DTensor one =
          full(rank.runtime, value_or_throw(Spec::make(rank.mesh, {}, DType::kF64, sums)), 1.0);
      refusals.after = item(one);
      return refusals;
    });
    // Op, operand, what was seen, what is allowed.
    const std::vector<std::string> expected = {
        "add: 1 operands given; it takes 2",
        "add: operands [4, 6] and [5, 6] do not broadcast: dims from the right must be equal or 1",
        "matmul: self [4, 6] and other [5, 6]: ",
        "softmax: dim names dim 2 of self, which has 2 dims; allowed are -2 to 1. [self F64[4, 6]]",
        "sum: dim lists a dim twice: [0, 0]. [self F64[4, 6]]",
        "gather: index is F64, but must be I64 or I32. [self F64[4, 6], index F64[4, 6]]",
        "max_dim: dim [0] of [0, 6] hold no element",
        "argmax: dim [0] of [0, 6] hold no element, and a selection of none has no value",
        "topk: k is 7, but dim 1 of [4, 6] allows 0 to 6. [self F64[4, 6]]",
        "softmax: unknown attribute 'speed'; it takes dim",
        "unknown op 'softmaks'; the nearest names are softmax",
        "add_: in place on I64, which cannot hold a result of F64. [self I64[4, 6], other F64[4, "
        "6]]",
        "rms_norm: operand weight is missing",
        "exp: 2 operands given; it takes 1"};
    REQUIRE(ranks[0].errors.size() == expected.size());
    for (const Refusals& each : ranks) {
      CHECK(each.errors == ranks[0].errors);
      CHECK(each.silent);
      CHECK(each.after == 1.0);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(each.errors[i]);
        CHECK(each.errors[i].starts_with(expected[i]));
      }
    }
  }
}

TEST_CASE("checked mode: an index outside names position and value on every rank",
          "[dtensor][refused][checked]") {
  for (const Shape& sizes : {Shape{1}, Shape{2}, Shape{3}, Shape{4}, Shape{2, 2}}) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& at : {Placement(R), Placement(S(0))}) {
      CAPTURE(to_string(sizes), to_string(at));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        rank.runtime.checked = CheckedMode::kOn;
        const auto axes = sizes.size();
        const DTensor table =
            rank.distribute(random_values({6, 2}, DType::kF64, 1), Placements(axes, R));
        // Row 3 of the ids, which one rank alone may hold, is outside.
        const Array values =
            Array::from_values({4, 2}, DType::kI64, std::vector<double>{0, 1, 2, 3, 4, 5, 5, 9});
        const DTensor ids = rank.distribute(values, Placements(axes, at));
        std::vector<std::string> errors;
        errors.push_back(error_of([&] { embedding(table, ids); }));
        DTensor target =
            rank.distribute(random_values({4, 6}, DType::kF64, 2), Placements(axes, at));
        errors.push_back(error_of([&] { scatter_(target, 1, ids, 1.0); }));
        errors.push_back(item(sum(table)) == item(sum(table)) ? "" : "differs");
        return errors;
      });
      for (const auto& errors : ranks) {
        CHECK(errors[0] == "embedding: indices holds 9 at position [3, 1]; allowed are 0 to 5");
        CHECK(errors[1] == "scatter_value_: index holds 9 at position [3, 1]; allowed are 0 to 5");
        CHECK(errors[2] == "");
      }
    }
  }
}

TEST_CASE("checked mode: a sum that meets an infinity is the same error on every rank",
          "[dtensor][refused][checked]") {
  for (const CheckedMode mode : {CheckedMode::kOff, CheckedMode::kOn}) {
    const auto ranks = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
      rank.runtime.checked = mode;
      // 3 - 5: rank 0 holds 3, rank 1 -5.
      const DTensor sums =
          sum(rank.distribute(Array::from_values({2}, DType::kF64, std::vector{3.0, -5.0}), {S(0)}),
              {0}, KeepDim::kYes);
      const auto beside = [&](double factor) {
        return rank.distribute(Array::from_values({1}, DType::kF64, std::vector{factor}), {R});
      };
      const double inf = std::numeric_limits<double>::infinity();
      std::vector<std::string> errors;
      errors.push_back(error_of([&] { mul(sums, beside(inf)); }));
      errors.push_back(error_of([&] { div(sums, beside(0.0)); }));
      errors.push_back(error_of([&] { mul(sums, beside(2.0)); }));
      errors.push_back(error_of([&] { mul(redistribute(sums, {R}), beside(inf)); }));
      return errors;
    });
    for (const std::vector<std::string>& errors : ranks) {
      const bool checked = mode == CheckedMode::kOn;
      CHECK(errors[0].starts_with("mul: the summands of self are finite on rank 0") == checked);
      CHECK(errors[1].starts_with("div: the summands of self are finite on rank 0") == checked);
      CHECK(errors[2] == "");
      CHECK(errors[3] == "");
    }
  }
}

}  // namespace tessera::testing
