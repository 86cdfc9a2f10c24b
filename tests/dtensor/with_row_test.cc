// Rows that a scope asks for, and ops amended while a program runs: values are those of one rank,
// and what moved says who asked.
#include "dtensor/with_row.h"

#include "kernels/elementwise.h"
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

const Array kLeft = random_values({8, 6}, DType::kF64, 1);
const Array kRight = random_values({6, 4}, DType::kF64, 2);

std::string placed(const DTensor& x) { return to_string(value_or_throw(x.spec().placements())); }

TEST_CASE("a scope's row runs, and the calls behind it as before", "[dtensor][with_row]") {
  struct Seen {
    std::vector<std::string> placements;
    std::vector<Array> values;
    Array whole;
    std::string why;
  };
  const auto ranks = run_ranks({{"tp", 2}}, [](Rank& rank) {
    const DTensor a = rank.distribute(kLeft, {S(0)}), b = rank.distribute(kRight, {R});
    Seen seen;
    seen.whole = copy_of(matmul(here(rank.runtime, kLeft), here(rank.runtime, kRight)).local());
    const auto run = [&] {
      const DTensor y = matmul(a, b);
      seen.placements.push_back(placed(y));
      seen.values.push_back(copy_of(full_tensor(y)));
    };
    run();
    {
      const RowScope scope = with_row(rank.runtime, "matmul", "k:sum");
      rank.runtime.events().clear();
      run();
      for (const Event& event : rank.runtime.events().events()) {
        if (event.kind == Event::Kind::kCollective && event.origin == Origin::kImplicit) {
          seen.why = event.why;
        }
      }
      const RowScope inner = with_row(rank.runtime, "matmul", "S(0), R -> S(0)", "tp");
      run();
    }
    run();
    return seen;
  });
  for (const Seen& seen : ranks) {
    CHECK(seen.placements == std::vector<std::string>{"(S(0))", "(P(sum))", "(S(0))", "(S(0))"});
    for (const Array& values : seen.values) CHECK(max_difference(values, seen.whole) < 1e-12);
    CHECK(seen.why.find("the op runs as tp: k:sum; k:sum as with_row at ") != std::string::npos);
    CHECK(seen.why.find("with_row_test.cc:") != std::string::npos);
  }
}

TEST_CASE("gradients through a scope's row are those without it", "[dtensor][with_row]") {
  if (!runs_here(4)) return;
  const auto run = [](bool scoped) {
    return run_ranks({{"dp", 2}, {"tp", 2}}, [scoped](Rank& rank) {
      DTensor a = rank.parameter(kLeft, {S(0), R}), b = rank.parameter(kRight, {R, R});
      DTensor y;
      if (scoped) {
        const RowScope scope = with_row(rank.runtime, "matmul", "k:sum", "tp");
        y = matmul(a, b);
      } else {
        y = matmul(a, b);
      }
      backward(sum(square(y)));
      return outcome_of({{"y", y}}, {{"a", a}, {"b", b}});
    });
  };
  CHECK(worst_difference(run(true), run(false)[0]) < 1e-12);
}

TEST_CASE("what a scope cannot have is refused on every rank", "[dtensor][with_row]") {
  const auto ranks = run_ranks({{"tp", 2}}, [](Rank& rank) {
    const DTensor a = rank.distribute(kLeft, {S(0)}), b = rank.distribute(kRight, {R});
    std::vector<std::string> texts;
    texts.push_back(error_of([&] { const RowScope s(rank.runtime, "matmull", "k:sum"); }));
    texts.push_back(error_of([&] { const RowScope s(rank.runtime, "matmul", "S(0) -> S(0)"); }));
    texts.push_back(error_of([&] {
      const RowScope s(rank.runtime, "matmul", "k:max");
      matmul(a, b);
    }));
    texts.push_back(placed(matmul(a, b)));  // no scope is left behind
    return texts;
  });
  for (const auto& texts : ranks) {
    CHECK(texts[0].find("unknown op 'matmull'; the nearest names are matmul") != std::string::npos);
    CHECK(texts[1].find("with_row of matmul: the row 'S(0) -> S(0)' has 1 operands") !=
          std::string::npos);
    CHECK(texts[2].find("it has no row 'k:max', which with_row at ") != std::string::npos);
    CHECK(texts[3] == "(S(0))");
  }
}

TEST_CASE("an op amended while a program runs is the amended one from the next call on",
          "[dtensor][amend]") {
  struct Seen {
    double before = 0.0, after = 0.0;
    std::string row, declined;
  };
  const auto ranks = run_ranks({{"tp", 2}}, [](Rank& rank) {
    const DTensor a = rank.distribute(kLeft, {S(1)}), b = rank.distribute(kRight, {S(0)});
    const DTensor one =
        here(rank.runtime, Array::from_values({1}, DType::kF64, std::vector<double>{3.0}));
    Seen seen;
    seen.before = copy_of(relu(one).local()).data<double>()[0];
    seen.row = placed(matmul(a, b));
    OpTable& ops = rank.runtime.ops();
    throw_if_error(ops.amend("relu", {.by = "test", .kernel = [](KernelCall& call) {
                                        kernels::binary_scalar(call.ctx, kernels::Binary::kMul,
                                                               call.inputs[0], 2.0,
                                                               call.outputs[0]);
                                      }}));
    throw_if_error(
        ops.amend("matmul", {.by = "test", .decline_rows = {"S, S -> P(sum): bitwise"}}));
    seen.after = copy_of(relu(one).local()).data<double>()[0];
    seen.declined = placed(matmul(a, b));
    return seen;
  });
  for (const Seen& seen : ranks) {
    CHECK(seen.before == 3.0);
    CHECK(seen.after == 6.0);
    CHECK(seen.row == "(P(sum))");
    CHECK(seen.declined != "(P(sum))");
  }
}

}  // namespace
}  // namespace tessera::testing
