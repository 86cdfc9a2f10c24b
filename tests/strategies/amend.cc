// Ops that exist, changed from outside their file: rows added and left out, other functions and
// kernels, and rows that a caller asks for. Each change has the same proof as an op, and is told
// of.
#include "strategies/rules/in_place.h"
#include "strategies/verify/verify.h"
#include "tests/strategies/rows_ops.h"

namespace tessera {
namespace {

using testing::op_def;

Mesh mesh_of(Shape shape, std::vector<std::string> names) {
  return value_or_throw(Mesh::make(view_of(shape), std::move(names)));
}
Spec spec(const Mesh& mesh, Shape shape, std::string_view placements) {
  return value_or_throw(Spec::make(mesh, std::move(shape), DType::kF32,
                                   value_or_throw(parse_placements(placements))));
}
std::string placements(const Spec& spec) { return to_string(value_or_throw(spec.placements())); }

StatusOr<Resolution> ask(const OpTable& table, std::string_view name,
                         const std::vector<Spec>& specs, const Attrs& attrs = {},
                         const std::vector<ForcedRow>& forced = {}) {
  const Op& op = *value_or_throw(table.find(name));
  std::vector<const Spec*> pointers;
  for (const Spec& each : specs) pointers.push_back(&each);
  return propagate(op, pointers, value_or_throw(complete_attrs(op, attrs)), forced);
}

VerifyReport proof_of(const OpTable& table, std::string_view name) {
  return verify(table, *value_or_throw(table.find(name)),
                {.meshes = {{2}, {3}}, .gradients = VerifyOptions::Gradients::kSkip});
}
std::string failures_of(const VerifyReport& report) {
  std::string text;
  for (const VerifyFailure& failure : report.failures) {
    text += failure.mesh + ": " + failure.row + ": " + failure.detail + "\n";
  }
  return text;
}

/// A maximum whose rule does not say that it is one, and one along a dim that asks for it whole.
OpTable lacking_table() {
  OpTable table;
  OpDef larger =
      op_def("larger", "*, * -> *", 2, testing::binary_kernel(kernels::Binary::kMaximum));
  larger.samples = {{.shapes = {{8, 6}, {8, 6}}}, {.shapes = {{5, 3}, {3}}}};
  larger.declined = {
      "P, P -> P; P(avg), R -> P(avg); R, P(avg) -> P(avg); P(min), R; R, P(min): not said"};
  table.must_add(larger);
  OpDef largest = op_def("largest", "rk -> r | k!", 1, [](KernelCall& call) {
    const int last[] = {1};
    kernels::reduce(call.ctx, ReduceOp::kMax, call.inputs[0], last, call.outputs[0]);
  });
  largest.declined = {"P(max) -> P(max): not said"};
  largest.samples = {{.shapes = {{6, 8}}}, {.shapes = {{3, 7}}}};
  table.must_add(largest);
  return table;
}

const std::vector<std::string> kMonotone = {"P(max), R -> P(max)", "R, P(max) -> P(max)"};

TEST_CASE("an added row is proven, chosen and named", "[strategies][amend]") {
  OpTable table = lacking_table();
  const Mesh mesh = mesh_of({2}, {"tp"});
  const std::vector<Spec> specs = {spec(mesh, {8, 6}, "P(max)"), spec(mesh, {8, 6}, "R")};
  CHECK(value_or_throw(ask(table, "larger", specs)).moved_bytes[0] > 0);
  CHECK(failures_of(proof_of(table, "larger")).find("P(max), R -> P(max)") != std::string::npos);

  throw_if_error(table.amend("larger", {.by = "monotone for sure", .add_rows = kMonotone}));
  const Resolution resolution = value_or_throw(ask(table, "larger", specs));
  CHECK(resolution.moved_bytes == std::vector<std::int64_t>{0, 0});
  CHECK(placements(resolution.outputs[0]) == "(P(max))");
  CHECK(resolution.why == "tp: added P(max), R -> P(max)");
  const VerifyReport report = proof_of(table, "larger");
  CHECK(failures_of(report) == "");
  CHECK(report.rows_missing == 0);
  CHECK(value_or_throw(table.find("larger"))->def.amendments[1] ==
        "row R, P(max) -> P(max) added (monotone for sure)");
}

TEST_CASE("an added row may cut what the rule wants whole", "[strategies][amend]") {
  OpTable table = lacking_table();
  throw_if_error(table.amend("largest", {.by = "test", .add_rows = {"S(1) -> P(max)"}}));
  CHECK(failures_of(proof_of(table, "largest")) == "");
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Resolution resolution =
      value_or_throw(ask(table, "largest", {spec(mesh, {8, 8}, "S(0), S(1)")}));
  CHECK(placements(resolution.outputs[0]) == "(S(0), P(max))");
  CHECK(resolution.why == "dp: r, tp: added S(1) -> P(max)");
  CHECK(resolution.moved_bytes == std::vector<std::int64_t>{0});
}

TEST_CASE("an added row that is wrong is refuted by the same proof", "[strategies][amend]") {
  OpTable table = lacking_table();
  throw_if_error(table.amend("larger", {.by = "test", .add_rows = {"P(sum), R -> P(sum)"}}));
  CHECK(failures_of(proof_of(table, "larger")).find("P(sum), R -> P(sum)") != std::string::npos);
  throw_if_error(table.amend("largest", {.by = "test", .add_rows = {"S(1) -> P(sum)"}}));
  CHECK(failures_of(proof_of(table, "largest")).find("S(1) -> P(sum)") != std::string::npos);
}

TEST_CASE("an added row that no operands fit is a failure of the proof", "[strategies][amend]") {
  OpTable table = lacking_table();
  throw_if_error(table.amend("largest", {.by = "test", .add_rows = {"S(2) -> P(max)"}}));
  CHECK(failures_of(proof_of(table, "largest")).find("added row 'S(2) -> P(max)': no sample") !=
        std::string::npos);
  // dims of two factors cut in one row
  throw_if_error(table.amend("largest", {.by = "test", .add_rows = {"S(1) -> S(0)"}}));
  CHECK(failures_of(proof_of(table, "largest")).find("added row 'S(1) -> S(0)': no sample") !=
        std::string::npos);
}

TEST_CASE("a row that is declined is not taken, and its proof does not miss it",
          "[strategies][amend]") {
  OpTable table;
  add_builtin_ops(table);
  const Mesh mesh = mesh_of({2}, {"tp"});
  const std::vector<Spec> specs = {spec(mesh, {8, 6}, "S(1)"), spec(mesh, {6, 4}, "S(0)")};
  CHECK(value_or_throw(ask(table, "matmul", specs)).why == "tp: k:sum");
  throw_if_error(table.amend(
      "matmul", {.by = "bitwise runs",
                 .decline_rows = {"S, S -> P(sum): sums over ranks have another order"}}));
  const Resolution resolution = value_or_throw(ask(table, "matmul", specs));
  CHECK(resolution.why != "tp: k:sum");
  CHECK(resolution.moved_bytes[0] + resolution.moved_bytes[1] > 0);
  const VerifyReport report = proof_of(table, "matmul");
  CHECK(failures_of(report) == "");
  CHECK(report.rows_declined > 0);

  OpTable other;
  add_builtin_ops(other);
  CHECK(value_or_throw(ask(other, "matmul", specs)).why == "tp: k:sum");
}

TEST_CASE("a declined row that the op never had is a failure of the proof", "[strategies][amend]") {
  OpTable table = lacking_table();
  throw_if_error(
      table.amend("larger", {.by = "test", .decline_rows = {"P(prod), P(prod): no reason"}}));
  CHECK(failures_of(proof_of(table, "larger"))
            .find("declined 'P(prod), P(prod): no reason': the op has no such row") !=
        std::string::npos);
}

TEST_CASE("lowerings and offers of functions can be declined", "[strategies][amend]") {
  OpTable table;
  add_builtin_ops(table);
  const Mesh mesh = mesh_of({2}, {"tp"});
  const std::vector<Spec> last = {spec(mesh, {8, 6}, "S(1)")};
  const Attrs dim = {{"dim", std::int64_t{1}}};
  CHECK(value_or_throw(ask(table, "softmax", last, dim)).lowering >= 0);
  throw_if_error(
      table.amend("softmax", {.by = "test", .decline_rows = {"lowering r: slow network"}}));
  CHECK(value_or_throw(ask(table, "softmax", last, dim)).lowering < 0);

  const std::vector<Spec> rows = {spec(mesh, {8, 6}, "S(0)")};
  const Attrs shape = {{"size", Shape{4, 2, 6}}};
  CHECK(value_or_throw(ask(table, "view", rows, shape)).moved_bytes[0] == 0);
  throw_if_error(table.amend("view", {.by = "test", .decline_rows = {"S -> S: whole views"}}));
  const Resolution whole = value_or_throw(ask(table, "view", rows, shape));
  CHECK(placements(whole.outputs[0]) == "(R)");
  CHECK(whole.moved_bytes[0] > 0);
}

TEST_CASE("rule, function and kernel can be replaced", "[strategies][amend]") {
  OpTable table = lacking_table();
  throw_if_error(table.amend("larger", {.by = "test", .rule = "*, * -> * | max A,B"}));
  CHECK(failures_of(proof_of(table, "larger")) == "");

  const auto only_whole = [](std::span<const Spec* const> inputs,
                             std::span<const TensorMeta> outputs,
                             const Attrs&) -> StatusOr<std::vector<Strategy>> {
    Strategy whole{.inputs = {}, .outputs = {}, .why = "whole on every rank"};
    const Placements all(static_cast<std::size_t>(inputs[0]->mesh().ndim()), Replicate{});
    for (const Spec* each : inputs) {
      whole.inputs.push_back(
          value_or_throw(Spec::make(each->mesh(), each->global_shape(), each->dtype(), all)));
    }
    whole.outputs.push_back(
        value_or_throw(Spec::make(inputs[0]->mesh(), outputs[0].shape, outputs[0].dtype, all)));
    return std::vector<Strategy>{whole};
  };
  throw_if_error(table.amend("larger", {.by = "test", .strategies = only_whole}));
  const Mesh mesh = mesh_of({2}, {"tp"});
  const std::vector<Spec> cut = {spec(mesh, {8, 6}, "S(0)"), spec(mesh, {8, 6}, "S(0)")};
  CHECK(value_or_throw(ask(table, "larger", cut)).why == "whole on every rank");

  // A kernel that needs to know where its rows stand is not one for cut operands: refuted.
  throw_if_error(table.amend(
      "largest", {.by = "test", .kernel = [](KernelCall& call) {
                    call.outputs[0].data<double>()[0] = 0.0;
                    const int last[] = {1};
                    kernels::reduce(call.ctx, ReduceOp::kMax, call.inputs[0], last,
                                    call.outputs[0]);
                    for (std::int64_t i = 0; i < num_elements(call.outputs[0].shape()); ++i) {
                      call.outputs[0].data<double>()[i] += static_cast<double>(i);
                    }
                  }}));
  CHECK(failures_of(proof_of(table, "largest")).find("S(0) -> S(0)") != std::string::npos);
}

TEST_CASE("amendments that say nothing or do not fit are refused and change nothing",
          "[strategies][amend]") {
  OpTable table;
  add_builtin_ops(table);
  const auto refusal = [&](std::string_view op, OpAmendment amendment) {
    return std::string(message_of(table.amend(op, std::move(amendment))));
  };
  const Op* before = value_or_throw(table.find("add"));
  CHECK(refusal("ad", {.by = "x", .add_rows = {"R, R -> R"}}).find("unknown op 'ad'") == 0);
  CHECK(refusal("add", {.add_rows = {"R, R -> R"}}) ==
        "op 'add': an amendment says in `by` who makes it, and why");
  CHECK(refusal("add", {.by = "x"}) == "op 'add': the amendment by x changes nothing");
  CHECK(refusal("add", {.by = "x", .add_rows = {"S, R -> S(0)"}}).find("expected R, S(dim) or") !=
        std::string::npos);
  CHECK(refusal("add", {.by = "x", .add_rows = {"S(0), R"}}).find("expected R, S(dim) or") !=
        std::string::npos);
  CHECK(refusal("add", {.by = "x", .add_rows = {"S(0) -> S(0)"}}).find("has 1 operands") !=
        std::string::npos);
  CHECK(refusal("add", {.by = "x", .add_rows = {"Q, R -> R"}}).find("saw 'Q'") !=
        std::string::npos);
  CHECK(refusal("add", {.by = "x", .decline_rows = {"P(max), R"}}).find("ROW; ROW: reason") !=
        std::string::npos);
  CHECK(refusal("add", {.by = "x", .decline_rows = {"lowering r: slow"}}) ==
        "op 'add': declined 'lowering r: slow': the op has no lowering of 'r'");
  CHECK(refusal("add", {.by = "x", .rule = "fg -> fh"}).find("rule, column") != std::string::npos);
  CHECK(refusal("view", {.by = "x", .add_rows = {"R -> R"}}).find("a function of its own") !=
        std::string::npos);
  CHECK(value_or_throw(table.find("add")) == before);
  CHECK(table.num_amendments() == 0);
}

TEST_CASE("an amended op is listed once, and amended again", "[strategies][amend]") {
  OpTable table;
  add_builtin_ops(table);
  const std::size_t count = table.ops().size();
  throw_if_error(table.amend("relu", {.by = "a", .decline_rows = {"P(max) -> P(max): not here"}}));
  const Op* first = value_or_throw(table.find("relu"));
  throw_if_error(table.amend("relu", {.by = "b", .decline_rows = {"P(min) -> P(min): nor here"}}));
  CHECK(table.ops().size() == count);
  CHECK(table.num_amendments() == 2);
  CHECK(first->def.amendments.size() == 1);  // what was resolved before still has it
  CHECK(value_or_throw(table.find("relu"))->def.amendments ==
        std::vector<std::string>{"declines P(max) -> P(max): not here (a)",
                                 "declines P(min) -> P(min): nor here (b)"});
  CHECK(failures_of(proof_of(table, "relu")) == "");
}

TEST_CASE("a row that is asked for is taken, whatever it moves", "[strategies][amend][forced]") {
  OpTable table;
  add_builtin_ops(table);
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const std::vector<Spec> specs = {spec(mesh, {8, 6}, "S(0), R"), spec(mesh, {6, 4}, "R, R")};
  const auto asked = [&](const std::vector<ForcedRow>& forced) {
    return value_or_throw(ask(table, "matmul", specs, {}, forced));
  };
  CHECK(asked({}).why == "dp: m, tp: all R");
  const Resolution on_tp = asked({{"k:sum", "tp", "train.cc:12"}});
  CHECK(on_tp.why == "dp: m, tp: k:sum; k:sum on tp as train.cc:12 asks");
  CHECK(placements(on_tp.outputs[0]) == "(S(0), P(sum))");
  CHECK(on_tp.moved_bytes == std::vector<std::int64_t>{0, 0});  // a slice of what is there

  const Resolution everywhere = asked({{"k:sum", "", "train.cc:12"}});
  CHECK(everywhere.rows[0].why == "k:sum");
  CHECK(everywhere.rows[1].why == "all R");  // nothing is cut on tp
  CHECK(everywhere.moved_bytes[0] > 0);
  CHECK(asked({{"k:sum", "dp", "outer"}, {"S(1), S(0) -> P(sum)", "tp", "inner"}}).rows[1].why ==
        "k:sum");
  CHECK(asked({{"k:sum", "tp", "outer"}, {"n", "tp", "inner"}}).rows[1].why == "n");
  CHECK(asked({{"k:sum", "ep", "train.cc:12"}}).why == "dp: m, tp: all R");
}

TEST_CASE("a row that a call does not have is refused with those it has",
          "[strategies][amend][forced]") {
  OpTable table;
  add_builtin_ops(table);
  const Mesh mesh = mesh_of({2}, {"tp"});
  const auto error = [&](std::string_view op, const std::vector<Spec>& specs, std::string row,
                         const Attrs& attrs = {}) {
    const StatusOr<Resolution> answer =
        ask(table, op, specs, attrs, {{std::move(row), "tp", "train.cc:12"}});
    return answer.ok() ? std::string("none") : std::string(message_of(answer.status()));
  };
  const Spec a = spec(mesh, {8, 6}, "S(0)"), b = spec(mesh, {6, 4}, "R");
  const std::string text = error("matmul", {a, b}, "k:max");
  CHECK(
      text.find("matmul: with these operands it has no row 'k:max', which train.cc:12 asks for on "
                "tp; its rows are: S(0), R -> S(0) (m); ") == 0);
  CHECK(error("matmul", {a, b}, "S(0) -> S(0)").find("has 1 operands; the op has 2") !=
        std::string::npos);
  CHECK(error("matmul", {a, b}, "all R") == "none");
  const Spec c = spec(mesh, {8, 6}, "R");
  CHECK(error("add_", {a, c}, "S(1), S(1) -> S(1)").find("the call cannot run as asked for") !=
        std::string::npos);
  const std::vector<ForcedRow> elsewhere = {{"S(1), S(1) -> S(1)", "ep", "train.cc:12"}};
  const Spec written = spec(mesh, {8, 6}, "P(prod)");
  const auto refused = [&](const std::vector<ForcedRow>& forced) {
    return std::string(message_of(ask(table, "add_", {written, a}, {}, forced).status()));
  };
  CHECK(refused({}).find("an in-place op must keep its placement") != std::string::npos);
  CHECK(refused(elsewhere) == refused({}));  // on another mesh it says nothing, nor of what fails
  const Attrs shape = {{"size", Shape{4, 2, 6}}};
  CHECK(error("view", {a}, "S(0) -> S(0)", shape) == "none");
  CHECK(error("view", {a}, "S(1) -> S(2)", shape).find("it has no row 'S(1) -> S(2)'") !=
        std::string::npos);
}

TEST_CASE("out= and what is asked for agree, or the call is refused",
          "[strategies][amend][forced]") {
  OpTable table;
  add_builtin_ops(table);
  const Op& op = *value_or_throw(table.find("matmul"));
  const Mesh mesh = mesh_of({2}, {"tp"});
  const Spec a = spec(mesh, {8, 6}, "R"), b = spec(mesh, {6, 4}, "R");
  const auto into = [&](std::string_view out, std::string row) {
    const Spec result = spec(mesh, {8, 4}, out);
    const Spec* inputs[] = {&a, &b};
    const Spec* outs[] = {&result};
    const ForcedRow forced[] = {{std::move(row), "tp", "train.cc:12"}};
    const StatusOr<Resolution> answer =
        propagate_into(op, inputs, value_or_throw(complete_attrs(op, {})), outs, forced);
    return answer.ok() ? answer->why : std::string(message_of(answer.status()));
  };
  CHECK(into("S(1)", "n") == "tp: n; n on tp as train.cc:12 asks");
  CHECK(into("S(0)", "n").find("the call cannot run as asked for, by n on tp (train.cc:12)") !=
        std::string::npos);
}

}  // namespace
}  // namespace tessera
