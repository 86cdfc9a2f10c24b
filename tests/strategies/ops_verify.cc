// Every built-in op, proven row by row: on axes of 2, 3 and 4 and on 2x2, in place and not,
// gradients included.
#include <map>

#include "strategies/verify.h"

namespace tessera {
namespace {

std::string describe(const VerifyFailure& failure) {
  return failure.op + " on " + failure.mesh + ", row " + failure.row + ", sample " +
         failure.sample + ": " + failure.detail;
}

}  // namespace

TEST_CASE("every row of every built-in op gives the one-rank result", "[strategies][ops]") {
  OpTable table;
  add_builtin_ops(table);
  std::int64_t proven = 0;
  for (const Op* op : table.ops()) {
    const VerifyReport report = verify(table, *op);
    proven += report.rows_proven;
    INFO(op->def.name);
    CHECK(report.rows_failed == 0);
    CHECK(report.rows_proven > 0);
    for (const VerifyFailure& failure : report.failures) {
      UNSCOPED_INFO(describe(failure));
    }
    CHECK(report.failures.empty());
  }
  CHECK(proven > 10000);  // rows do not vanish unseen
}

}  // namespace tessera
