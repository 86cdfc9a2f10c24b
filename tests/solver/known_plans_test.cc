// What the solver has to find by itself, from placements that are free.
#include <catch2/catch.hpp>

#include "program/solver/propagate_program.h"
#include "tests/solver/small_program.h"

namespace tessera {
namespace {

using testing::builtin_ops;
using testing::SmallProgram;

PropagatedProgram propagated(const Program& program, PropagateOptions options = {}) {
  PropagatedProgram result = value_or_throw(propagate_program(program, builtin_ops(), options));
  // It is a program, and costs what is said by the prices of its steps alone.
  CHECK(value_or_throw(read_program(write_program(result.program), "solved", builtin_ops())) ==
        result.program);
  CHECK(value_or_throw(price_of(result.program, builtin_ops(), options)) ==
        Approx(result.cost).epsilon(1e-9));
  CHECK(result.bound <= result.cost * (1 + 1e-9));
  return result;
}

TEST_CASE("two moves before a product cost 60 times less than one after it", "[solver]") {
  SmallProgram small({4}, {"tp"});
  small.value("a", {64, 4}, ValueRole::kInput, "S(1)");
  small.value("b", {4, 4096}, ValueRole::kInput, "S(0)");
  small.call("matmul", {"a", "b"}, "y");
  small.call("relu", {"y"}, "z");
  CHECK(propagated(small.program(), {.mode = PropagateMode::kGreedy}).cost == 3145728);
  const PropagatedProgram solved = propagated(small.program());
  CHECK(solved.cost == 52224);
  CHECK(solved.is_exact);
}

}  // namespace
}  // namespace tessera
