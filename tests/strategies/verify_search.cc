// The search for rows: what it finds does not depend on the rule, and every row found is there or
// declined by a text that means something.
#include "strategies/verify/verify_search.h"

#include <algorithm>

#include "strategies/rules/row_pattern.h"
#include "strategies/verify/verify.h"
#include "strategies/verify/verify_complete.h"
#include "tests/strategies/rows_ops.h"

namespace tessera {
namespace {

OpDef pair_op(std::string rule, kernels::Binary op) {
  OpDef def = testing::op_def("op", std::move(rule), 2, testing::binary_kernel(op));
  def.samples = {{.shapes = {{8, 6}, {8, 6}}}, {.shapes = {{5, 3}, {3}}}};
  return def;
}

std::vector<std::string> found_rows(const OpDef& def) {
  OpTable table;
  table.must_add(def);
  std::vector<std::string> rows;
  for (const SampleRows& sample : search_rows(*table.ops()[0], 1)) {
    for (const FoundRow& row : sample.rows) rows.push_back(to_string(row));
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

/// What the search has to say about a whole op.
std::vector<std::string> complaints_of(const OpDef& def) {
  OpTable table;
  table.must_add(def);
  const VerifyReport report = verify(
      table, *table.ops()[0], {.meshes = {{2}}, .gradients = VerifyOptions::Gradients::kSkip});
  std::vector<std::string> texts;
  for (const VerifyFailure& failure : report.failures) {
    if (failure.mesh == "search") texts.push_back(failure.row + ": " + failure.detail);
  }
  return texts;
}

bool mentions(const std::vector<std::string>& texts, std::string_view part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST_CASE("the search finds the rows of a sum and of a product", "[strategies][verify][search]") {
  CHECK(found_rows(pair_op("*, * -> *", kernels::Binary::kAdd)) ==
        std::vector<std::string>{"P(avg), P(avg) -> P(avg)", "P(avg), R -> P(avg)",
                                 "P(max), R -> P(max)", "P(min), R -> P(min)",
                                 "P(sum), P(sum) -> P(sum)", "R, P(avg) -> P(avg)",
                                 "R, P(max) -> P(max)", "R, P(min) -> P(min)", "S(0), S(0) -> S(0)",
                                 "S(1), S(1) -> S(1)"});
  CHECK(found_rows(pair_op("*, * -> *", kernels::Binary::kMul)) ==
        std::vector<std::string>{"P(avg), R -> P(avg)", "P(prod), P(prod) -> P(prod)",
                                 "P(sum), R -> P(sum)", "R, P(avg) -> P(avg)",
                                 "R, P(sum) -> P(sum)", "S(0), S(0) -> S(0)",
                                 "S(1), S(1) -> S(1)"});
}

TEST_CASE("the search finds contractions and what an extreme reduces to",
          "[strategies][verify][search]") {
  OpDef def = testing::op_def("amax", "*r@dims -> *", 1, testing::reduce_kernel(ReduceOp::kMax));
  def.rule = "*r@dims -> * | r!";
  def.attrs = testing::reduce_defs();
  def.samples = {{.shapes = {{8, 6}}, .attrs = {{"dims", Shape{1}}}}};
  CHECK(found_rows(def) ==
        std::vector<std::string>{"P(max) -> P(max)", "S(0) -> S(0)", "S(1) -> P(max)"});
}

TEST_CASE("a row that a rule lacks is named with its sample", "[strategies][verify][search]") {
  CHECK(complaints_of(pair_op("*, * -> * | lin A+B | mono AB", kernels::Binary::kAdd)).empty());
  const auto lacking = complaints_of(pair_op("*, * -> * | lin A+B", kernels::Binary::kAdd));
  CHECK(lacking.size() == 4);
  CHECK(mentions(lacking, "P(max), R -> P(max): running the op finds this row right"));
  CHECK(mentions(
      complaints_of(pair_op("*f, *f -> *f | f! | lin A+B | mono AB", kernels::Binary::kAdd)),
      "S(1), S(1) -> S(1)"));
}

TEST_CASE("a declined row needs a reason, a form, and a row that it declines",
          "[strategies][verify][declined]") {
  const auto with = [](std::vector<std::string> declined) {
    OpDef def = pair_op("*, * -> * | lin A+B", kernels::Binary::kAdd);
    def.declined = std::move(declined);
    return complaints_of(def);
  };
  CHECK(with({"P(max), R; P(min), R; R, P(max) -> P(max); R, P(min): nobody asks"}).empty());
  CHECK(with({"P(max), _; P(min), _; _, P(max); _, P(min): nobody asks", "lowering k: slow"})
            .empty());
  const auto stale = with(
      {"P(max), _; P(min), _; _, P(max); _, P(min): nobody asks", "P(prod), P(prod): nobody asks"});
  REQUIRE(stale.size() == 1);
  CHECK(mentions(stale, "declined 'P(prod), P(prod): nobody asks': no sample has such a row"));
  CHECK(mentions(with({"P(max): why"}), "has 1 operands; the op has 2"));
  CHECK(mentions(with({"P(max), R"}), "expected \"ROW; ROW: reason\""));
  CHECK(mentions(with({"P(max), R:"}), "no reason after ':'"));
  CHECK(mentions(with({"P(most), R: why"}), "saw 'P(most)'"));
  CHECK(mentions(with({"S(x), R: why"}), "saw 'S(x)'"));
}

TEST_CASE("entries of declined rows match what they say", "[strategies][verify][declined]") {
  const Declined declined = value_or_throw(parse_declined("P, S(1) -> _: why", 2));
  REQUIRE(declined.rows.size() == 1);
  const RowPattern& row = declined.rows[0];
  const RowEntry sum = {RowEntry::Kind::kPartial, -1, ReduceOp::kSum};
  const RowEntry cut = {RowEntry::Kind::kShard, 1, ReduceOp::kSum};
  CHECK(row.inputs[0].matches(sum));
  CHECK_FALSE(row.inputs[0].matches(cut));
  CHECK(row.inputs[1].matches(cut));
  CHECK_FALSE(row.inputs[1].matches({RowEntry::Kind::kShard, 0, ReduceOp::kSum}));
  CHECK((*row.outputs)[0].matches(sum));
  CHECK(declined.reason == "why");
}

TEST_CASE("an op whose samples are too small to be searched is reported",
          "[strategies][verify][search]") {
  OpDef def = pair_op("*, * -> * | lin A+B | mono AB", kernels::Binary::kAdd);
  def.samples = {{.shapes = {{5, 3}, {5, 3}}}};
  const auto complaints = complaints_of(def);
  CHECK(mentions(complaints, "no sample can be searched on an axis of 2"));
  CHECK(mentions(complaints, "no sample can be searched on an axis of 3"));
}

TEST_CASE("operands that carry no values need no rows", "[strategies][verify][search]") {
  OpDef def = testing::op_def("zeros_like", "* -> *", 1, [](KernelCall& call) {
    kernels::fill(call.ctx, 0.0, call.outputs[0]);
  });
  def.samples = {{.shapes = {{8, 6}}}};
  CHECK(complaints_of(def).empty());
}

TEST_CASE("in-place results keep the placement of what they write",
          "[strategies][verify][search]") {
  OpDef def = pair_op("*, * -> &A *", kernels::Binary::kMul);
  CHECK(found_rows(def) == std::vector<std::string>{
                               "P(avg), R -> P(avg)", "P(prod), P(prod) -> P(prod)",
                               "P(sum), R -> P(sum)", "S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)"});
}

TEST_CASE("an op with strategies of its own is searched as well", "[strategies][verify][search]") {
  const auto op = [](bool keeps_cuts) {
    OpDef def = pair_op("", kernels::Binary::kAdd);
    def.infer = [](std::span<const TensorMeta> inputs, const Attrs&) {
      return StatusOr<std::vector<TensorMeta>>({inputs[0]});
    };
    def.samples = {{.shapes = {{8, 6}, {8, 6}}}};
    def.declined = {"P, _; _, P: sums are taken before"};
    def.strategies = [keeps_cuts](std::span<const Spec* const> inputs,
                                  std::span<const TensorMeta> outputs,
                                  const Attrs&) -> StatusOr<std::vector<Strategy>> {
      Layout layout = inputs[0]->layout();
      layout.partial.assign(layout.partial.size(), std::nullopt);
      if (!keeps_cuts) layout.dims.assign(layout.dims.size(), {});
      TSR_ASSIGN_OR_RETURN(
          Spec spec, Spec::make(inputs[0]->mesh(), outputs[0].shape, outputs[0].dtype, layout));
      return std::vector<Strategy>{{{spec, spec}, {spec}, "cut as the first operand"}};
    };
    return def;
  };
  CHECK(complaints_of(op(true)).empty());
  CHECK(mentions(complaints_of(op(false)), "S(1), S(1) -> S(1)"));
}

}  // namespace
}  // namespace tessera
